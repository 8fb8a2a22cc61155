-- time_bucket_gapfill, locf, interpolate in all kinds of queries. What they return is in functions_golden_time_bucket_gapfill.
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
CREATE TABLE hosts (id int PRIMARY KEY, name text, region text);
INSERT INTO hosts VALUES (1, 'a', 'eu'), (2, 'b', 'us'), (3, 'c', 'us');
CREATE TABLE cpu (host int, time timestamptz, usage float8);
INSERT INTO cpu SELECT n % 3 + 1, timestamptz '2024-01-01 00:00+00' + n * interval '7 minutes', n
FROM generate_series(0, 40) n WHERE n % 10 < 4;

-- The first query of a session: the planner loads the library in time.
\c -
SET timezone = 'UTC';
SELECT time_bucket_gapfill('1 hour', time, '2024-01-01 00:00+00'::timestamptz, '2024-01-01 06:00+00') AS bucket, count(*), locf(max(usage))
FROM cpu GROUP BY bucket ORDER BY bucket;
EXPLAIN (COSTS OFF, VERBOSE)
SELECT time_bucket_gapfill('1 hour', time) AS bucket, host, locf(avg(usage)), round(interpolate(avg(usage))::numeric, 2)
FROM cpu WHERE time >= '2024-01-01 00:00+00' AND time < '2024-01-01 06:00+00' GROUP BY 1, 2 ORDER BY 2, 1;
SELECT time_bucket_gapfill('1 hour', time) AS bucket, host, locf(avg(usage)), round(interpolate(avg(usage))::numeric, 2)
FROM cpu WHERE time >= '2024-01-01 00:00+00' AND time < '2024-01-01 04:00+00' GROUP BY 1, 2 ORDER BY 2, 1;

-- Against the long way: every bucket of every group that has rows, left-joined with the groups.
CREATE TEMPORARY TABLE filled AS
SELECT time_bucket_gapfill('10 minutes', time) AS bucket, host, sum(usage) AS s, count(*) AS c, coalesce(sum(usage), -1) AS d
FROM cpu WHERE time >= '2024-01-01 00:03+00' AND time <= '2024-01-01 05:00+00' GROUP BY 1, 2;
CREATE TEMPORARY TABLE expected AS
SELECT bucket, host, s, c, coalesce(s, -1) AS d
FROM generate_series(timestamptz '2024-01-01 00:00+00', '2024-01-01 05:00+00', interval '10 minutes') bucket
CROSS JOIN (SELECT DISTINCT host FROM cpu) hosts
LEFT JOIN (SELECT time_bucket('10 minutes', time) AS bucket, host, sum(usage) AS s, count(*) AS c
           FROM cpu WHERE time >= '2024-01-01 00:03+00' AND time <= '2024-01-01 05:00+00' GROUP BY 1, 2) groups USING (bucket, host);
SELECT count(*) AS rows, (SELECT count(*) FROM expected) AS expected,
       (SELECT count(*) FROM (SELECT * FROM filled EXCEPT SELECT * FROM expected) d) AS unexpected,
       (SELECT count(*) FROM (SELECT * FROM expected EXCEPT SELECT * FROM filled) d) AS missing
FROM filled;

-- Joins, a column that depends on a primary key, expressions over the columns, HAVING, DISTINCT, LIMIT.
SELECT h.id, h.name || '!' AS name, time_bucket_gapfill('2 hours', c.time, '2024-01-01 00:00+00'::timestamptz, '2024-01-01 06:00+00') AS bucket,
       coalesce(count(c.usage), 0) AS n, round(locf(max(c.usage)) * 2) AS twice
FROM hosts h JOIN cpu c ON c.host = h.id WHERE h.region = 'us' GROUP BY h.id, bucket HAVING count(*) > 1 ORDER BY h.id, bucket;
SELECT h.region, time_bucket_gapfill('2 hours', c.time) AS bucket, count(*)
FROM cpu c JOIN hosts h ON c.host = h.id AND c.time >= '2024-01-01 00:00+00' LEFT JOIN hosts o ON o.id = c.host + 2
WHERE c.time < '2024-01-01 06:00+00' GROUP BY h.region, 2 ORDER BY 2 DESC, 1 LIMIT 3;
SELECT DISTINCT time_bucket_gapfill('2 hours', time, '2024-01-01 00:00+00'::timestamptz, '2024-01-01 06:00+00') AS bucket, host > 0 AS known
FROM cpu GROUP BY 1, 2 ORDER BY 1;

-- Subqueries, CTEs, views, UNION, window functions above, gaps filled again for each outer row.
WITH f AS (SELECT time_bucket_gapfill('1 hour', time, '2024-01-01 00:00+00'::timestamptz, '2024-01-01 03:00+00') AS b, locf(sum(usage)) AS s
           FROM cpu WHERE host = 1 GROUP BY 1)
SELECT b, s, lag(s) OVER (ORDER BY b) FROM f UNION ALL SELECT NULL, sum(s), NULL FROM f ORDER BY 1;
SELECT h.name, f.* FROM hosts h, LATERAL (
    SELECT time_bucket_gapfill('2 hours', time, '2024-01-01 00:00+00'::timestamptz, timestamptz '2024-01-01 00:00+00' + h.id * interval '2 hours') AS b,
           count(*) AS n, locf(min(usage), h.id + 0.5::float8) AS l
    FROM cpu WHERE host = h.id AND time >= '2024-01-01 03:00+00' GROUP BY 1) f
ORDER BY 1, 2;
CREATE VIEW hourly AS SELECT time_bucket_gapfill('1 hour', time, '2024-01-01 00:00+00'::timestamptz, '2024-01-01 04:00+00') AS b, count(*) AS n FROM cpu GROUP BY 1;
SELECT count(*), count(n) FROM hourly;
DROP VIEW hourly;
SELECT time_bucket_gapfill('1 hour', time) AS b, count(*)
FROM (SELECT time, host FROM cpu WHERE time >= '2024-01-01 01:00+00') c WHERE time < '2024-01-01 03:00+00' AND host = 1 GROUP BY 1 ORDER BY 1;

-- Prepared statements, custom and generic plans; a cursor that goes back.
PREPARE filled_up(timestamptz, timestamptz, interval) AS
SELECT time_bucket_gapfill($3, time) AS b, count(*), locf(sum(usage)) FROM cpu WHERE time >= $1 AND time < $2 GROUP BY 1 ORDER BY 1;
EXECUTE filled_up('2024-01-01 00:00+00', '2024-01-01 02:00+00', '1 hour');
SET plan_cache_mode = force_generic_plan;
EXECUTE filled_up('2024-01-01 00:00+00', '2024-01-01 02:00+00', '1 hour');
EXECUTE filled_up('2024-01-01 00:00+00', '2024-01-01 04:00+00', '2 hours');
EXECUTE filled_up('2024-01-01 00:00+00', NULL, '2 hours');
EXECUTE filled_up('2024-01-01 00:00+00', 'infinity', '2 hours');
EXECUTE filled_up('2024-01-01 00:00+00', '2024-01-01 04:00+00', NULL);
EXECUTE filled_up('2024-01-01 00:00+00', '2024-01-01 04:00+00', '-2 hours');
RESET plan_cache_mode;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT time_bucket_gapfill(10, t, 0, 40) AS b FROM (VALUES (1), (22)) d(t) GROUP BY 1 ORDER BY 1;
FETCH 3 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH ALL FROM c;
COMMIT;

-- Parallel grouping below.
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
ALTER TABLE cpu SET (parallel_workers = 2);
EXPLAIN (COSTS OFF)
SELECT time_bucket_gapfill('1 hour', time, '2024-01-01 00:00+00'::timestamptz, '2024-01-01 04:00+00') AS b, locf(count(*)) FROM cpu GROUP BY 1 ORDER BY 1;
SELECT time_bucket_gapfill('1 hour', time, '2024-01-01 00:00+00'::timestamptz, '2024-01-01 04:00+00') AS b, locf(count(*)) FROM cpu GROUP BY 1 ORDER BY 1;
RESET max_parallel_workers_per_gather;

-- Partition-wise aggregation.
CREATE TABLE parts (time int, v int) PARTITION BY RANGE (time);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (20);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (20) TO (40);
INSERT INTO parts VALUES (1, 1), (31, 3);
SET enable_partitionwise_aggregate = on;
SET max_parallel_workers_per_gather = 0;
EXPLAIN (COSTS OFF) SELECT time_bucket_gapfill(10, time, 0, 40) AS b, locf(sum(v)) FROM parts GROUP BY 1, time;
SELECT time_bucket_gapfill(10, time, 0, 40) AS b, locf(sum(v)) FROM parts GROUP BY 1 ORDER BY 1;
SELECT time_bucket_gapfill(10, time, 0, 40) AS b, time, locf(sum(v)) FROM parts GROUP BY 1, time ORDER BY 2, 1;
RESET enable_partitionwise_aggregate;
RESET max_parallel_workers_per_gather;
DROP TABLE parts;

-- Bounds: of a date column from timestamps, tightest of several, equality, a NULL in the group columns.
SELECT time_bucket_gapfill('1 day', d) AS b, count(*) FROM (VALUES (date '2024-01-02'), ('2024-01-03')) v(d)
WHERE d > timestamp '2024-01-01 12:00' AND d < timestamp '2024-01-04 12:00' AND d >= date '2020-01-01' GROUP BY 1 ORDER BY 1;
SELECT time_bucket_gapfill('1 day', t) AS b, count(*) FROM (VALUES (timestamptz '2024-01-02'), ('2024-01-03')) v(t)
WHERE t >= date '2024-01-01' AND t <= date '2024-01-04' GROUP BY 1 ORDER BY 1;
SELECT time_bucket_gapfill(5, t) AS b, k, count(*) FROM (VALUES (7, NULL), (7, 'x'), (8, NULL)) v(t, k) WHERE t BETWEEN 1 AND 12 AND t = ANY ('{7,8}') GROUP BY 1, 2 ORDER BY 2, 1;
SELECT time_bucket_gapfill('1 month', t, 'Europe/Berlin') AS b, count(*) FROM (VALUES (timestamptz '2024-02-10+00'), ('2024-02-11+00')) v(t)
WHERE t >= '2024-01-15+00' AND t < '2024-05-01+00' GROUP BY 1 ORDER BY 1;

-- Values given for the neighbours outside the range.
SELECT time_bucket_gapfill(10, t, 0, 50) AS b, interpolate(sum(v), ROW(-10, -9), ROW(50, 100.5)) FROM (VALUES (21, 5), (22, 4)) d(t, v) GROUP BY 1 ORDER BY 1;
SELECT time_bucket_gapfill(10, t, 0, 30) AS b, interpolate(sum(v)::float8, ROW('x', 1)) FROM (VALUES (21, 5)) d(t, v) GROUP BY 1;
SELECT time_bucket_gapfill(10, t, 0, 30) AS b, interpolate(min(v), ROW(-10, 100000), NULL) FROM (VALUES (21, 5::smallint), (22, 4::smallint)) d(t, v) GROUP BY 1;

-- Literals without a type: times, if they look like times.
SELECT time_bucket_gapfill('2 hours', time, '2024-01-01 00:00+00', '2024-01-01 06:00+00') AS b, count(*) FROM cpu GROUP BY 1 ORDER BY 1;
SELECT time_bucket_gapfill('2 hours', time, '2024-01-01 00:00+00') AS b, count(*) FROM cpu WHERE time < '2024-01-01 05:00+00' GROUP BY b HAVING count(*) >= 0 ORDER BY b;
SELECT time_bucket_gapfill('1 day', time, 'Europe/Berlin', '2024-01-01 00:00+00', '2024-01-02 00:00+00') AS b, count(*) FROM cpu GROUP BY 1 ORDER BY 1;
PREPARE literals AS SELECT time_bucket_gapfill('2 hours', time, '2024-01-01 00:00+00', $1) AS b, count(*) FROM cpu GROUP BY 1 ORDER BY 1;
EXECUTE literals('2024-01-01 04:00+00');
SELECT time_bucket_gapfill('2 hours', time, '2024-13-01', '2024-01-01 06:00+00') AS b, count(*) FROM cpu GROUP BY 1 ORDER BY 1;
SELECT time_bucket_gapfill('2 hours', time, '2024-01-01', '2024-01-02', '2024-01-03') AS b, count(*) FROM cpu GROUP BY 1 ORDER BY 1;
SELECT time_bucket('2 hours', timestamptz '2024-01-01 01:00+00', '2024-01-01');

-- Width, zone and bounds that are group columns too, as themselves and within others.
SELECT f.* FROM (VALUES (interval '1 hour'), ('2 hours')) w(width), LATERAL (
    SELECT w.width AS width, time_bucket_gapfill(w.width, time, '2024-01-01 00:00+00'::timestamptz, '2024-01-01 04:00+00') AS b, count(*)
    FROM cpu GROUP BY 1, 2) f ORDER BY 1, 2;
PREPARE grouped(interval, text, timestamptz) AS
    SELECT $1 AS width, $2 AS zone, $3 AS start, time_bucket_gapfill($1, time, $2, $3 - interval '1 hour', $3 + interval '3 hours') AS b, count(*)
    FROM cpu GROUP BY 1, 2, 3, 4 ORDER BY 4;
SET plan_cache_mode = force_generic_plan;
EXECUTE grouped('1 hour', 'Europe/Berlin', '2024-01-01 01:00+00');
EXECUTE grouped('2 hours', 'UTC', '2024-01-01 00:00+00');
RESET plan_cache_mode;
DEALLOCATE grouped;
INSERT INTO cpu VALUES (9, now() - interval '90 minutes', 0);
SELECT count(DISTINCT n) = 1 AND min(b) > now() - interval '5 hours' AS right, count(*) BETWEEN 3 AND 4 AS hours
FROM (SELECT now() AS n, time_bucket_gapfill('1 hour', time) AS b, count(*) FROM cpu
      WHERE time >= now() - interval '3 hours' AND time < now() GROUP BY 1, 2) f;
DELETE FROM cpu WHERE host = 9;
-- Conditions on the bucket are no bounds, nor is what the planner makes of them.
SELECT time_bucket_gapfill('1 day', time, 'Europe/Berlin') AS d, count(*) FROM cpu
WHERE time_bucket('1 day', time, 'Europe/Berlin') >= '2024-01-01 00:00+01'
  AND time_bucket('1 day', time, 'Europe/Berlin') < '2024-01-04 00:00+01' GROUP BY 1;
SELECT time_bucket_gapfill('2 hours', time) AS b, count(*) FROM cpu
WHERE time >= '2024-01-01 00:00+00' AND time < '2024-01-01 06:00+00' AND time_bucket('1 hour', time) >= '2023-12-01'::timestamptz + current_setting('server_version_num')::int * interval '0'
GROUP BY 1 ORDER BY 1;
-- Columns that are computed after a sort, since LIMIT or a cursor may leave rows out.
SELECT host, time_bucket_gapfill('1 hour', time, '2024-01-01 00:00+00'::timestamptz, '2024-01-01 06:00+00') AS b,
       coalesce(locf(max(usage), (SELECT -c.id::float8 FROM hosts c WHERE c.id = cpu.host)), 0) + 1 AS carried
FROM cpu GROUP BY host, b ORDER BY b DESC, host LIMIT 5;
SELECT host, time_bucket_gapfill('1 hour', time, '2023-12-31 23:00+00'::timestamptz, '2024-01-01 06:00+00') AS b,
       locf(max(usage), (SELECT -c.id::float8 FROM hosts c WHERE c.id = cpu.host)), interpolate(max(usage))
FROM cpu GROUP BY host, b ORDER BY host, b LIMIT 5;
CREATE FUNCTION shown(float8) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN '<' || $1 || '>'; END $$;
BEGIN;
DECLARE c CURSOR FOR
    SELECT shown(locf(max(usage))), time_bucket_gapfill('1 hour', time, '2024-01-01 00:00+00'::timestamptz, '2024-01-01 06:00+00') AS b
    FROM cpu GROUP BY b ORDER BY b DESC;
FETCH 3 FROM c;
COMMIT;
DROP FUNCTION shown;
-- GROUPING, as it is computed of the rows.
SELECT time_bucket_gapfill('2 hours', time, '2024-01-01 00:00+00'::timestamptz, '2024-01-01 06:00+00') AS b, host, GROUPING(host), count(*)
FROM cpu GROUP BY 1, 2 ORDER BY 2, 1 LIMIT 3;
-- Bounds beyond the column's type.
SELECT time_bucket_gapfill(10000::smallint, t) AS b, count(*) FROM (VALUES (5::smallint), (6::smallint)) d(t) WHERE t >= 0 AND t < 50000 GROUP BY 1 ORDER BY 1;
SELECT time_bucket_gapfill(1000000000, t) AS b, count(*) FROM (VALUES (5), (6)) d(t) WHERE t >= 0 AND t < 4000000000 GROUP BY 1 ORDER BY 1;
SELECT time_bucket_gapfill(10000::smallint, t) AS b, count(*) FROM (VALUES (5::smallint), (6::smallint)) d(t) WHERE t >= -40000 AND t < 100 GROUP BY 1;

-- Errors.
SELECT time_bucket_gapfill('1 day', time, '2024-01-01'::timestamptz, '2024-01-05')::date AS d, count(*) FROM cpu GROUP BY 1;
SELECT time_bucket_gapfill('1 hour', time, '2024-01-01'::timestamptz, '2024-01-02') AT TIME ZONE 'UTC' AS b, count(*) FROM cpu GROUP BY 1;
SELECT time_bucket_gapfill('1 hour', time) AS b, count(*) FROM cpu GROUP BY 1;
SELECT time_bucket_gapfill('1 hour', time) AS b, count(*) FROM cpu WHERE time > '2024-01-01' GROUP BY 1;
SELECT time_bucket_gapfill('1 hour', time) AS b, count(*) FROM cpu WHERE time > '2024-01-01' OR time < '2025-01-01' GROUP BY 1;
SELECT time_bucket_gapfill('1 hour', time, '-infinity'::timestamptz, '2024-01-01') AS b, count(*) FROM cpu GROUP BY 1;
SELECT time_bucket_gapfill('1 hour', time, time, '2024-01-01'::timestamptz) AS b, count(*) FROM cpu GROUP BY 1;
SELECT time_bucket_gapfill('1 hour', time, 'Mars/Olympus', '2023-01-01', '2024-01-01') AS b, count(*) FROM cpu GROUP BY 1;
SELECT time_bucket_gapfill('1 hour', time, '2024-01-01'::timestamptz, '2024-01-02') AS b, count(*) FROM cpu GROUP BY ROLLUP (1);
SELECT time_bucket_gapfill('1 hour', time, '2024-01-01'::timestamptz, '2024-01-02') AS b, time_bucket_gapfill('2 hours', time, '2024-01-01'::timestamptz, '2024-01-02') AS c FROM cpu GROUP BY 1, 2;
SELECT time_bucket_gapfill(10, t, 0, 30) AS b FROM (VALUES (NULL), (11)) d(t) GROUP BY 1;
SELECT locf(1);
SELECT interpolate(1);
SELECT locf(sum(usage)) FROM cpu GROUP BY host;
SELECT sum(locf(usage)), time_bucket_gapfill('1 hour', time, '2024-01-01'::timestamptz, '2024-01-02') FROM cpu GROUP BY 2;
SELECT time_bucket_gapfill('1 hour', time, '2024-01-01'::timestamptz, '2024-01-02') AS b, locf(sum(usage)), row_number() OVER () FROM cpu GROUP BY 1;
SELECT time_bucket_gapfill('300.000s', 1::bigint);
-- A range that never ends can be cancelled.
SET statement_timeout = '100ms';
SELECT count(*) FROM (SELECT time_bucket_gapfill('1 microsecond', time, '2024-01-01'::timestamptz, '2025-01-01') AS b FROM cpu GROUP BY 1) f;
RESET statement_timeout;
DROP TABLE cpu, hosts;
