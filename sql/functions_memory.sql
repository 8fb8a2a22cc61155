-- A million calls of each function: the backend's resident memory does not grow by more than a few megabytes.
SET timezone = 'UTC';
SET jit = off;
SET max_parallel_workers_per_gather = 0;
CREATE FUNCTION peak_kb() RETURNS bigint LANGUAGE sql AS
$$SELECT (regexp_match(pg_read_file('/proc/self/status'), 'VmHWM:\s+(\d+)'))[1]::bigint$$;
-- %1$s is the number of rows; the peak is taken after a run over few rows and after one over all.
CREATE FUNCTION grows(query text, few int, many int) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE before bigint;
BEGIN
    EXECUTE format(query, few);
    before := peak_kb();
    EXECUTE format(query, many);
    RETURN peak_kb() - before > 4096;
END $$;

-- Functions of a row.
SELECT call, grows('SELECT count(' || call || ') FROM (SELECT generate_series(1, %1$s) AS n) s, LATERAL (SELECT timestamptz ''2024-01-01'' + n * interval ''1 minute'' OFFSET 0) x(t)', 20000, 1000000) AS grows
FROM unnest(ARRAY[
    $$time_bucket('5 minutes', t)$$, $$time_bucket('1 month', t)$$, $$time_bucket('5 minutes', t, '2024-01-01'::timestamptz)$$,
    $$time_bucket('5 minutes', t, interval '1 month')$$, $$time_bucket('1 hour', t, 'Europe/Berlin')$$, $$time_bucket('1 day', t, 'Europe/Berlin', t, '1 hour')$$,
    $$time_bucket('1 day', t, CASE WHEN n %% 2 = 0 THEN 'Asia/Tokyo' ELSE 'America/New_York' END)$$, $$time_bucket('2 days', t::date)$$, $$time_bucket(10, n)$$,
    $$time_bucket_gapfill('1 hour', t)$$]) call;

-- Aggregates: a thousand groups of a thousand rows (first and last with values by reference), and one group where the state is small.
SELECT call, grows('SELECT count(l.a) FROM (SELECT generate_series(1, %1$s) AS g) s,
        LATERAL (SELECT ' || call || ' AS a FROM (SELECT g, timestamptz ''2024-01-01'' + n * interval ''1 minute'', n::float8, repeat(''x'', n %% 500) FROM generate_series(1, 1000) n) d(g, t, v, s)) l', 20, 1000) AS grows
FROM unnest(ARRAY[
    'first(s, t)', 'last(s, t)', 'last(v, s)', 'histogram(v, 0, 1000, 10)', 'rate(v, t)', 'increase(v, t, ''2024-01-01''::timestamptz, ''2024-01-02''::timestamptz)', 'delta(v, t)',
    'irate(v, t)', 'resets(v, t)', 'time_weight(''LOCF'', t, v)', 'percentile_agg(v)', 'candlestick(t, v, v)', 'state_agg(t, (v::int %% 7)::text)', 'lttb(t, v, 20)']) call;
SELECT call, grows('SELECT ' || call || ' FROM (SELECT generate_series(1, %1$s) AS n) s, LATERAL (SELECT timestamptz ''2024-01-01'' + n * interval ''1 second'', n::float8, repeat(''x'', n %% 500)) d(t, v, s)', 20000, 1000000) AS grows
FROM unnest(ARRAY['first(s, -n)', 'last(s, t)', 'last(v, s)', 'histogram(v, 0, 1000, 10)', 'percentile_agg(v)', 'candlestick(t, v, v)']) call;

-- What reads summaries.
SELECT call, grows('SELECT count(' || call || ') FROM (SELECT percentile_agg(v) AS p, state_agg(''2024-01-01''::timestamptz + v * interval ''1 hour'', (v %% 3)::text) AS a, time_weight(''linear'', ''2024-01-01''::timestamptz + v * interval ''1 hour'', v) AS w
    FROM generate_series(1, 20) v) x, (SELECT generate_series(1, %1$s) AS n) s', 20000, 1000000) AS grows
FROM unnest(ARRAY['approx_percentile(0.5, p)', 'num_vals(p)', 'duration_in(a, ''1'')', 'average(w)', 'integral(w, ''hour'')']) call;

-- A million inserted buckets, with values by reference carried forward.
SELECT grows('SELECT count(*) FROM (SELECT time_bucket_gapfill(1, t, 0, %1$s), locf(max(repeat(''x'', 100 + t %% 47)), treat_null_as_missing => true), interpolate(sum(t)) FROM generate_series(0, %1$s, 1000) t GROUP BY 1) f', 20000, 1000000);
DROP FUNCTION grows, peak_kb;
