-- time_weight, percentile_agg, candlestick, state_agg, lttb: against plain SQL, in parallel and window plans, and their errors.
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
SET max_parallel_workers_per_gather = 0;
CREATE TABLE readings AS
SELECT n AS id, n % 5 AS k, timestamptz '2024-01-01 00:00+00' + (n * 7919 % 20011) * interval '1 second' AS t,
       CASE WHEN n % 11 <> 0 THEN (abs(hashint4(n)) % 100000) / 16.0 - 100 END::float8 AS v, abs(hashint4(n + 7)) % 50 AS volume,
       (ARRAY['up', 'down', 'starting'])[1 + abs(hashint4(n + 3)) % 3] AS state
FROM generate_series(1, 10000) n;
CREATE VIEW answers AS
SELECT k, time_weight('LOCF', t, v) AS locf, time_weight('linear', t, v) AS linear, percentile_agg(v) AS sketch,
       candlestick(t, v, volume) AS candle, state_agg(t, state) AS states, lttb(t, v, 20) AS line
FROM readings GROUP BY k;
CREATE TEMPORARY TABLE serial AS SELECT * FROM answers;
CREATE FUNCTION near(a float8, b float8) RETURNS bool LANGUAGE sql IMMUTABLE AS
$$SELECT CASE WHEN a IS NULL OR b IS NULL THEN a IS NULL AND b IS NULL ELSE abs(a - b) <= 1e-9 * greatest(abs(a), abs(b), 1) END$$;

-- time_weight.
WITH steps AS (
    SELECT k, t, v, lead(t) OVER w AS nt, lead(v) OVER w AS nv FROM readings WHERE v IS NOT NULL WINDOW w AS (PARTITION BY k ORDER BY t)),
model AS (
    SELECT k, sum(v * extract(epoch FROM nt - t)::float8) AS locf, sum((v + nv) / 2 * extract(epoch FROM nt - t)::float8) AS linear,
           extract(epoch FROM max(t) - min(t))::float8 AS seconds FROM steps GROUP BY k)
SELECT count(*) AS groups,
       count(*) FILTER (WHERE NOT near(integral(s.locf), m.locf)) AS locf,
       count(*) FILTER (WHERE NOT near(integral(s.linear, 'hour'), m.linear / 3600)) AS linear,
       count(*) FILTER (WHERE NOT near(average(s.locf), m.locf / m.seconds)) AS average,
       count(*) FILTER (WHERE NOT near(average(s.linear), m.linear / m.seconds)) AS linear_average
FROM serial s JOIN model m USING (k);
-- Rolled up from hours: the same.
SELECT count(*) AS groups, count(*) FILTER (WHERE NOT near(integral(r.locf), integral(s.locf))) AS locf,
       count(*) FILTER (WHERE NOT near(integral(r.linear), integral(s.linear))) AS linear
FROM serial s JOIN (SELECT k, rollup(l) AS locf, rollup(n) AS linear
                    FROM (SELECT k, time_weight('locf', t, v) AS l, time_weight('Linear', t, v) AS n FROM readings GROUP BY k, time_bucket('1 hour', t)) h
                    GROUP BY k) r USING (k);
SELECT time_weight('locf', t, v), average(time_weight('locf', t, v)) FROM (VALUES (timestamptz '2024-01-01', 5.0)) d(t, v);
SELECT time_weight('spline', t, v) FROM (VALUES (timestamptz '2024-01-01', 5.0)) d(t, v);
SELECT time_weight(NULL, t, v) FROM (VALUES (timestamptz '2024-01-01', 5.0)) d(t, v);

-- Percentiles: within one percent of the value at that rank; the ends are exact; sketches add up.
SELECT count(*) AS cases, count(*) FILTER (WHERE abs(approx_percentile(p, sketch) - exact) > 0.011 * abs(exact)) AS off,
       count(*) FILTER (WHERE p IN (0, 1) AND approx_percentile(p, sketch) <> exact) AS ends
FROM (SELECT k, p, sketch, percentile_disc(p) WITHIN GROUP (ORDER BY v) AS exact
      FROM serial JOIN readings USING (k), unnest('{0,0.01,0.25,0.5,0.9,0.99,0.999,1}'::float8[]) p GROUP BY k, p, sketch) d;
SELECT count(*) AS groups, count(*) FILTER (WHERE r.sketch <> s.sketch) AS rollup_differs, sum(num_vals(s.sketch)) = (SELECT count(v) FROM readings) AS counts
FROM serial s JOIN (SELECT k, rollup(sketch) AS sketch FROM (SELECT k, percentile_agg(v) AS sketch FROM readings GROUP BY k, id % 13) d GROUP BY k) r USING (k);
SELECT approx_percentile(0.5, percentile_agg(v)), approx_percentile(1, percentile_agg(v)) FROM unnest('{-1e300,1e-300,1e300,0,5,-0,NaN,NULL}'::float8[]) v;
SELECT approx_percentile(0.5, percentile_agg(v)) FROM readings WHERE false;
SELECT approx_percentile(NULL, percentile_agg(1));
SELECT approx_percentile(1.5, percentile_agg(1));
SELECT approx_percentile(-0.1, percentile_agg(1));
SELECT approx_percentile('NaN', percentile_agg(1));
SELECT percentile_agg('infinity');
SELECT approx_percentile(0.5, '\x'::bytea);
SELECT approx_percentile(0.5, '\x02aabb'::bytea);
-- Bytes that are damaged are an error or another sketch, never worse.
DO $$
DECLARE good bytea := (SELECT percentile_agg(v) FROM generate_series(1, 200) v); b int;
BEGIN
    FOR i IN 0 .. length(good) - 1 LOOP
        FOREACH b IN ARRAY '{0,1,127,128,255}'::int[] LOOP
            BEGIN
                PERFORM approx_percentile(0.5, set_byte(good, i, b)), approx_percentile(0.5, substr(good, 1, i));
            EXCEPTION WHEN invalid_binary_representation THEN NULL;
            END;
        END LOOP;
    END LOOP;
END $$;

-- Candlesticks.
SELECT count(*) AS groups,
       count(*) FILTER (WHERE open(candle) <> (SELECT v FROM readings r WHERE r.k = s.k AND v IS NOT NULL ORDER BY t LIMIT 1)) AS open,
       count(*) FILTER (WHERE close(candle) <> (SELECT v FROM readings r WHERE r.k = s.k AND v IS NOT NULL ORDER BY t DESC LIMIT 1)) AS close,
       count(*) FILTER (WHERE (high(candle), low(candle), volume(candle)) <> (SELECT max(v), min(v), sum(volume)::float8 FROM readings r WHERE r.k = s.k AND v IS NOT NULL)) AS others,
       count(*) FILTER (WHERE NOT near(vwap(candle), (SELECT sum(v * volume) / sum(volume) FROM readings r WHERE r.k = s.k AND v IS NOT NULL))) AS vwap
FROM serial s;
SELECT count(*) AS groups, count(*) FILTER (WHERE (open(r.c), high(r.c), low(r.c), close(r.c), volume(r.c), open_time(r.c), close_time(r.c), high_time(r.c), low_time(r.c))
                                     IS DISTINCT FROM (open(candle), high(candle), low(candle), close(candle), volume(candle), open_time(candle), close_time(candle), r.ht, r.lt)) AS rollup_differs,
       count(*) FILTER (WHERE NOT near(vwap(r.c), vwap(candle))) AS vwap
FROM serial s JOIN (SELECT k, rollup(c) AS c, high_time(rollup(c)) AS ht, low_time(rollup(c)) AS lt
                    FROM (SELECT k, candlestick_agg(t, v, volume) AS c FROM readings GROUP BY k, time_bucket('1 hour', t)) h GROUP BY k) r USING (k);
SELECT candlestick(t, p) FROM (VALUES (timestamptz '2024-01-01', 5.0), ('2024-01-02', NULL), (NULL, 7)) d(t, p);

-- States.
SELECT count(*) AS cases, count(*) FILTER (WHERE duration_in(states, m.state) <> m.duration) AS differences
FROM serial JOIN (SELECT k, state, sum(nt - t) AS duration FROM (SELECT k, state, t, lead(t) OVER (PARTITION BY k ORDER BY t) AS nt FROM readings) d GROUP BY 1, 2) m USING (k);
SELECT s.state, s.duration, duration_in(a, s.state, '2024-01-01 12:00+00'), duration_in(a, 'never')
FROM (SELECT state_agg(t, state) AS a FROM (VALUES (timestamptz '2024-01-01 00:00+00', 'up'), ('2024-01-01 06:00+00', 'down'), ('2024-01-01 07:30+00', 'up'), (NULL, 'x')) d(t, state)) x,
     into_values(a) s ORDER BY 1;
SELECT duration_in(state_agg(t, 'x'), 'x') FROM readings WHERE false;
SELECT state_agg('infinity', 'x');

-- LTTB: the first, the last, as many as asked for, all of them points of the data; on a zigzag the peaks are kept.
SELECT count(*) AS groups, count(*) FILTER (WHERE cardinality(line) <> 20) AS length,
       count(*) FILTER (WHERE (line[1].time, line[20].time) <> (SELECT min(t), max(t) FROM readings r WHERE r.k = s.k AND v IS NOT NULL)) AS ends,
       (SELECT count(*) FROM serial s, unnest(line) p WHERE NOT EXISTS (SELECT FROM readings r WHERE r.k = s.k AND r.t = p.time AND r.v = p.value)) AS strangers
FROM serial s;
SELECT p.* FROM (SELECT lttb(timestamptz '2024-01-01 00:00+00' + n * interval '1 minute', CASE WHEN n % 10 = 5 THEN 100 ELSE n % 3 END, 7) AS l FROM generate_series(0, 49) n) d, unnest(l) p;
SELECT cardinality(lttb(t, v, 2)), cardinality(lttb(t, v, 100000)) = count(v) FROM readings;
SELECT lttb(t, v, 3) FROM readings WHERE false;
SELECT lttb(t, v, 1) FROM readings;
SELECT lttb(t, v, NULL) FROM readings;

-- Parallel plans give the serial answer (sums of floating-point numbers to the last digits).
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET enable_sort = off;
ALTER TABLE readings SET (parallel_workers = 2);
EXPLAIN (COSTS OFF) SELECT * FROM answers;
CREATE TEMPORARY TABLE parallel AS SELECT * FROM answers;
SELECT count(*) AS groups, count(*) FILTER (WHERE (s.locf, s.linear, s.sketch, s.states, s.line) IS DISTINCT FROM (p.locf, p.linear, p.sketch, p.states, p.line)) AS differ,
       count(*) FILTER (WHERE (open(s.candle), high(s.candle), low(s.candle), close(s.candle), volume(s.candle)) IS DISTINCT FROM
                              (open(p.candle), high(p.candle), low(p.candle), close(p.candle), volume(p.candle)) OR NOT near(vwap(s.candle), vwap(p.candle))) AS candles
FROM serial s JOIN parallel p USING (k);
RESET enable_sort;
SET max_parallel_workers_per_gather = 0;

-- Window frames, against the same aggregate over each frame.
SELECT count(*) AS rows, count(*) FILTER (WHERE (o.w, o.p, o.c, o.s, o.l) IS DISTINCT FROM (i.w, i.p, i.c, i.s, i.l)) AS differences
FROM (SELECT id, time_weight('linear', t, v) OVER f AS w, percentile_agg(v) OVER f AS p, candlestick(t, v, volume) OVER f AS c, state_agg(t, state) OVER f AS s, lttb(t, v, 5) OVER f AS l
      FROM readings WHERE id <= 300 WINDOW f AS (ORDER BY id ROWS BETWEEN 20 PRECEDING AND 3 FOLLOWING)) o,
     LATERAL (SELECT time_weight('linear', t, v) AS w, percentile_agg(v) AS p, candlestick(t, v, volume) AS c, state_agg(t, state) AS s, lttb(t, v, 5) AS l
              FROM (SELECT * FROM readings r WHERE r.id BETWEEN o.id - 20 AND o.id + 3 AND r.id <= 300 ORDER BY r.id) r) i;
DROP VIEW answers;
DROP FUNCTION near;
DROP TABLE readings;
