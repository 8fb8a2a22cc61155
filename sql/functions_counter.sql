-- rate, increase, delta, irate, resets.
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET max_parallel_workers_per_gather = 0;

-- The worked examples of Prometheus' own function tests: samples every five minutes from 0 to 50 minutes.
CREATE TEMPORARY TABLE http_requests AS
SELECT path, timestamptz 'epoch' + n * interval '5 minutes' AS t, v::float8
FROM generate_series(0, 10) n, LATERAL (VALUES ('foo', n * 10), ('bar', n % 6 * 18), ('dings', 10 + n * 10), ('bumms', 1 + n * 10)) p(path, v);
-- increase(http_requests[50m]), increase(http_requests[100m]) and rate(http_requests[50m]) at 50m. In a range that begins before the
-- first sample, foo and bar stand at zero already, dings is extrapolated by half an interval, bumms only back to zero: 100, 162, 105, 101.
SELECT path, increase(v, t, timestamptz 'epoch', timestamptz 'epoch' + interval '50 minutes') AS in_50m,
       round(increase(v, t, timestamptz 'epoch' - interval '50 minutes', timestamptz 'epoch' + interval '50 minutes')::numeric, 9) AS in_100m,
       round(rate(v, t, timestamptz 'epoch', timestamptz 'epoch' + interval '50 minutes')::numeric, 9) AS per_second,
       increase(v, t) AS sampled, resets(v, t)
FROM http_requests GROUP BY path ORDER BY path;
-- delta of a gauge may fall: 0+50x... and 200-50x... over 20 minutes.
SELECT delta(up, t, timestamptz 'epoch', timestamptz 'epoch' + interval '20 minutes'), delta(down, t), delta(down, t, timestamptz 'epoch', timestamptz 'epoch' + interval '20 minutes')
FROM (SELECT timestamptz 'epoch' + n * interval '5 minutes' AS t, n * 50.0, 200 - n * 50.0 FROM generate_series(0, 4) n) g(t, up, down);
-- irate looks at the last two samples: with a reset between them, the last value is the increase.
SELECT irate(v, t), irate(r, t), irate(v, t) FILTER (WHERE v < 5) FROM (VALUES (timestamptz '2024-01-01 00:00:00+00', 0, 9), ('2024-01-01 00:00:10+00', 10, 20), ('2024-01-01 00:00:20+00', 40, 5)) c(t, v, r);

-- A reference model over random counters with resets, uneven distances, in any order of arrival.
CREATE TABLE counters AS
SELECT series, timestamptz '2024-01-01 00:00+00' + (n * 15 + h1 % 13) * interval '1 second' AS t,
       (sum(h2 % 100) OVER (PARTITION BY series, n / (7 + series % 9) ORDER BY n) + series % 3)::float8 AS v
FROM (SELECT series, n, abs(hashint4(series * 1000 + n)) AS h1, abs(hashint4(series * 1000 + n + 500000)) AS h2
      FROM generate_series(1, 60) series, generate_series(1, 100) n) s
ORDER BY hashint4(n * 7 + series);
CREATE TEMPORARY TABLE windows AS
SELECT b AS s, b + interval '5 minutes' AS e FROM generate_series(timestamptz '2024-01-01 00:00+00', '2024-01-01 00:25+00', interval '150 seconds') b;
CREATE TEMPORARY TABLE model AS
WITH samples AS (
    SELECT series, s, e, t, v, lag(v) OVER w AS pv, lag(t) OVER w AS pt, row_number() OVER w AS n, lead(t) OVER w IS NULL AS final
    FROM counters, windows WHERE t BETWEEN s AND e WINDOW w AS (PARTITION BY series, s ORDER BY t)),
sums AS (
    SELECT series, s, e, count(*) AS n, min(t) AS ft, max(t) AS lt, max(v) FILTER (WHERE n = 1) AS fv, max(v) FILTER (WHERE final) AS lv,
           coalesce(sum(CASE WHEN v < pv THEN v ELSE v - pv END), 0) AS inc, count(*) FILTER (WHERE v < pv) AS resets,
           max(CASE WHEN v < pv THEN v ELSE v - pv END) FILTER (WHERE final) / extract(epoch FROM max(t - pt) FILTER (WHERE final)) AS irate
    FROM samples GROUP BY 1, 2, 3),
edges AS (
    SELECT *, extract(epoch FROM lt - ft)::float8 AS sampled, extract(epoch FROM ft - s)::float8 AS d0, extract(epoch FROM e - lt)::float8 AS d1,
           extract(epoch FROM lt - ft)::float8 / nullif(n - 1, 0) AS gap FROM sums),
reach AS (
    SELECT *, CASE WHEN d0 >= gap * 1.1 THEN gap / 2 ELSE d0 END AS r0, CASE WHEN d1 >= gap * 1.1 THEN gap / 2 ELSE d1 END AS r1 FROM edges)
SELECT series, s, n, inc AS sampled_increase, resets, irate::float8, lv - fv AS sampled_delta,
       inc * (sampled + CASE WHEN inc > 0 AND fv >= 0 THEN least(r0, sampled * fv / inc) ELSE r0 END + r1) / nullif(sampled, 0) AS increase,
       (lv - fv) * (sampled + r0 + r1) / nullif(sampled, 0) AS delta
FROM reach;
CREATE VIEW answers AS
SELECT series, s, count(*) AS n, increase(v, t) AS sampled_increase, resets(v, t), irate(v, t), delta(v, t) AS sampled_delta,
       increase(v, t, s, e), delta(v, t, s, e), rate(v, t, s, e), rate(v, t) AS sampled_rate, extract(epoch FROM max(t) - min(t)) AS seconds
FROM counters, windows WHERE t BETWEEN s AND e GROUP BY series, s;
CREATE FUNCTION near(a float8, b float8) RETURNS bool LANGUAGE sql IMMUTABLE AS
$$SELECT CASE WHEN a IS NULL OR b IS NULL THEN a IS NULL AND b IS NULL ELSE abs(a - b) <= 1e-9 * greatest(abs(a), abs(b), 1) END$$;
SELECT count(*) AS windows, count(*) FILTER (WHERE m.resets > 0) > 100 AS with_resets,
       count(*) FILTER (WHERE m.n < 2) AS short,
       count(*) FILTER (WHERE NOT near(a.sampled_increase, CASE WHEN m.n > 1 THEN m.sampled_increase END)) AS sampled_increase,
       count(*) FILTER (WHERE a.resets <> m.resets) AS resets,
       count(*) FILTER (WHERE NOT near(a.irate, m.irate)) AS irate,
       count(*) FILTER (WHERE NOT near(a.sampled_delta, CASE WHEN m.n > 1 THEN m.sampled_delta END)) AS sampled_delta,
       count(*) FILTER (WHERE NOT near(a.increase, m.increase)) AS increase,
       count(*) FILTER (WHERE NOT near(a.delta, m.delta)) AS delta,
       count(*) FILTER (WHERE NOT near(a.rate, m.increase / 300)) AS rate,
       count(*) FILTER (WHERE NOT near(a.sampled_rate, CASE WHEN m.n > 1 THEN m.sampled_increase / a.seconds::float8 END)) AS sampled_rate
FROM answers a FULL JOIN model m USING (series, s);

-- Parallel plans and window frames give the same.
CREATE TEMPORARY TABLE serial AS SELECT * FROM answers;
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
ALTER TABLE counters SET (parallel_workers = 2);
CREATE VIEW by_series AS SELECT series, rate(v, t), increase(v, t, timestamptz '2024-01-01', timestamptz '2024-01-02'), irate(v, t), resets(v, t) FROM counters GROUP BY series;
EXPLAIN (COSTS OFF) SELECT * FROM by_series;
CREATE TEMPORARY TABLE parallel AS SELECT * FROM by_series;
SET max_parallel_workers_per_gather = 0;
SELECT count(*) FROM (SELECT * FROM parallel EXCEPT SELECT * FROM by_series) d;
SELECT count(*) AS rows, count(*) FILTER (WHERE NOT near(o.r, i.r)) AS differences
FROM (SELECT series, t, rate(v, t) OVER (PARTITION BY series ORDER BY t RANGE BETWEEN interval '2 minutes' PRECEDING AND CURRENT ROW) AS r FROM counters WHERE series < 4) o,
     LATERAL (SELECT rate(c.v, c.t) AS r FROM counters c WHERE c.series = o.series AND c.t BETWEEN o.t - interval '2 minutes' AND o.t) i;

-- Few samples, NULLs, NaN, equal times; timestamps and other numbers; samples outside the range do not count.
SELECT rate(v, t), increase(v, t), resets(v, t), irate(v, t) FROM (VALUES (timestamptz '2024-01-01', 1)) c(t, v);
SELECT rate(v, t), resets(v, t) FROM (VALUES (timestamptz '2024-01-01', 1)) c(t, v) WHERE false;
SELECT increase(v, t), irate(v, t) FROM (VALUES (timestamp '2024-01-01 00:00:00', 1::numeric), (NULL, 7), ('2024-01-01 00:00:10', NULL), ('2024-01-01 00:00:10', 'NaN'), ('2024-01-01 00:00:20', 5), ('2024-01-01 00:00:20', 5)) c(t, v);
SELECT increase(v, t, timestamptz '2024-01-01 00:00', timestamptz '2024-01-01 00:01') FROM (VALUES (timestamptz '2023-12-31', 1000), ('2024-01-01 00:00', 1), ('2024-01-01 00:01', 5), ('2024-01-02', 50)) c(t, v);
SELECT rate(v, t) FROM (VALUES (timestamptz 'infinity', 1)) c(t, v);
SELECT rate(v, t, t, t) FROM (VALUES (timestamptz '2024-01-01', 1)) c(t, v);
SELECT rate(v, t, t, NULL) FROM (VALUES (timestamptz '2024-01-01', 1)) c(t, v);
SELECT rate(v, t, t, t + '1 hour') FROM (VALUES (timestamptz '2024-01-01', 1), ('2024-01-02', 2)) c(t, v);
DROP VIEW by_series, answers;
DROP FUNCTION near;
DROP TABLE counters;
