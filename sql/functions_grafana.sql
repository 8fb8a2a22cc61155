-- What Grafana's PostgreSQL data source sends, in the exact form of its macros, over the simple query protocol.
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
CREATE TABLE metrics (t timestamptz, ts timestamp, d date, epoch bigint, nanos bigint, host text, v float8);
INSERT INTO metrics
SELECT u, u AT TIME ZONE 'UTC', (u AT TIME ZONE 'UTC')::date, extract(epoch FROM u)::bigint, extract(epoch FROM u)::bigint * 1000000000, 'h' || n % 2, n
FROM generate_series(0, 8) n, LATERAL (SELECT timestamptz '2018-04-12 17:58:20+00' + n * interval '77 seconds') x(u);

-- $__time, $__timeEpoch, $__timeFilter (both ends inclusive)
SELECT t AS "time", v FROM metrics WHERE t BETWEEN '2018-04-12T18:00:00Z' AND '2018-04-12T18:05:00Z' ORDER BY 1;
SELECT extract(epoch from t) as "time", v FROM metrics WHERE t BETWEEN '2018-04-12T18:00:00Z' AND '2018-04-12T18:02:00Z' ORDER BY 1;
SELECT count(*) FROM metrics WHERE ts BETWEEN '2018-04-12T18:00:00Z' AND '2018-04-12T18:05:00Z';
SELECT count(*) FROM metrics WHERE d BETWEEN '2018-04-12T18:00:00Z' AND '2018-04-12T18:05:00Z';
SELECT count(*) FROM metrics WHERE t >= '2018-04-12T18:00:00Z' AND t <= '2018-04-12T18:05:00.123456789Z';

-- $__timeGroup and $__timeGroupAlias, TimescaleDB switch off
SELECT floor(extract(epoch from t)/300)*300 AS "time", avg(v) FROM metrics WHERE t BETWEEN '2018-04-12T17:00:00Z' AND '2018-04-12T19:05:00Z' GROUP BY 1 ORDER BY 1;
SELECT floor(extract(epoch from ts)/60)*60 AS "time", host AS metric, avg(v) FROM metrics GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 3;
SELECT floor(extract(epoch from d)/86400)*86400 AS "time", count(*) FROM metrics GROUP BY 1 ORDER BY 1;

-- The same with the switch on: timestamptz, timestamp, date; twelve days, twenty milliseconds, and what older versions sent
SELECT time_bucket('300.000s',t) AS "time", avg(v) FROM metrics WHERE t BETWEEN '2018-04-12T17:00:00Z' AND '2018-04-12T19:05:00Z' GROUP BY 1 ORDER BY 1;
SELECT time_bucket('60.000s',ts) AS "time", host AS metric, avg(v) FROM metrics GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 3;
SELECT time_bucket('86400.000s',d) AS "time", count(*) FROM metrics GROUP BY 1 ORDER BY 1;
SELECT time_bucket('1036800.000s',t) AS "time", count(*) FROM metrics GROUP BY 1 ORDER BY 1;
SELECT time_bucket('0.020s',t) AS "time", count(*) FROM metrics GROUP BY 1 ORDER BY 1 LIMIT 2;
SELECT time_bucket('300s',t) AS "time", count(*) FROM metrics GROUP BY 1 ORDER BY 1;
SELECT time_bucket('1.0368e+06s',t) AS "time", count(*) FROM metrics GROUP BY 1 ORDER BY 1;
SELECT time_bucket('300.000s',d) AS "time", count(*) FROM metrics GROUP BY 1 ORDER BY 1;
SELECT time_bucket('300.000s',epoch) AS "time", count(*) FROM metrics GROUP BY 1 ORDER BY 1;

-- $__unixEpochFilter, $__unixEpochNanoFilter, $__unixEpochGroup
SELECT epoch AS "time", v FROM metrics WHERE epoch >= 1523556000 AND epoch <= 1523556300 ORDER BY 1;
SELECT count(*) FROM metrics WHERE nanos >= 1523556000000000000 AND nanos <= 1523556300000000000;
SELECT floor((epoch)/300)*300 AS "time", sum(v) FROM metrics WHERE epoch >= 1523556000 AND epoch <= 1523556300 GROUP BY 1 ORDER BY 1;

-- Gap filling takes its range from $__timeFilter.
SELECT time_bucket_gapfill('60.000s',t) AS "time", host, locf(avg(v)) FROM metrics WHERE t BETWEEN '2018-04-12T18:00:00Z' AND '2018-04-12T18:05:00Z' GROUP BY 1, 2 ORDER BY 1, 2;

-- Detection when a data source is created.
SELECT extversion FROM pg_extension WHERE extname = 'timescaledb';
SELECT current_setting('server_version_num')::int/100 >= 1400 AS version;

-- A role without rights sees none of our objects among the tables, and can use the functions.
CREATE ROLE varve_dashboard;
SET ROLE varve_dashboard;
SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2;
SELECT time_bucket('300.000s', timestamptz '2018-04-12 18:02:03+00'), first(v, v), rate(v, timestamptz 'epoch' + v * interval '1 second')
FROM generate_series(1, 3) v;
SELECT time_bucket_gapfill('1 hour', t, '2018-04-12 18:00+00'::timestamptz, '2018-04-12 20:00+00') AS b, locf(count(*)), approx_percentile(0.5, percentile_agg(1)), open(candlestick(t, 1))
FROM (VALUES (timestamptz '2018-04-12 18:00+00')) v(t) GROUP BY 1 ORDER BY 1;
RESET ROLE;
DROP ROLE varve_dashboard;
DROP TABLE metrics;
