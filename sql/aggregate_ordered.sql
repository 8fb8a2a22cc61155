-- The first few groups in the order of time: the node reads slice by slice of time, and stops. Beside a heap.
SET timezone = 'UTC';
SET varve.batch_rows = 50;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE h(host int NOT NULL, time timestamptz NOT NULL, a float8, n int, PRIMARY KEY (host, time)) USING heap;
-- One row that is long ago, one that is far ahead, and a gap.
INSERT INTO h SELECT i % 10, '2026-01-01'::timestamptz + i / 10 * interval '10 s' + (i > 60000)::int * interval '10 days', i % 1000 / 4.0, i % 100
    FROM generate_series(1, 100000) i;
INSERT INTO h VALUES (3, '1999-12-31 23:59:59', 1, 1), (4, '2222-02-22', 2, 2);
CREATE TABLE v(LIKE h INCLUDING ALL) USING varve;
INSERT INTO v SELECT * FROM h WHERE n < 70;
CALL varve.compact('v');
INSERT INTO v SELECT * FROM h WHERE n BETWEEN 70 AND 97;
SET varve.batch_rows = 100000;
INSERT INTO v SELECT * FROM h WHERE n > 97;
RESET varve.batch_rows;
DELETE FROM v WHERE n = 7;
DELETE FROM h WHERE n = 7;
VACUUM ANALYZE v, h;

-- Runs a query on both tables; true where the rows are the same, in the same order, and come slice by slice.
CREATE FUNCTION same(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    line text; plan text := ''; one text; other text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || replace(query, '{t}', 'v') LOOP
        plan := plan || line || E'\n';
    END LOOP;
    IF plan !~ 'VarveAggregate' OR plan ~ 'Sort' THEN RAISE NOTICE 'all at once: %', query; END IF;
    EXECUTE format('SELECT string_agg(d::text, '','') FROM (%s) d', replace(query, '{t}', 'h')) INTO one;
    EXECUTE format('SELECT string_agg(d::text, '','') FROM (%s) d', replace(query, '{t}', 'v')) INTO other;
    RETURN one IS NOT DISTINCT FROM other;
END $$;
SELECT same('SELECT time_bucket(''1 minute'', time) AS m, max(a), count(*) FROM {t} GROUP BY m ORDER BY m DESC LIMIT 5');
SELECT same('SELECT time_bucket(''1 minute'', time) AS m, max(a), count(*) FROM {t} GROUP BY m ORDER BY m LIMIT 5');
SELECT same('SELECT time_bucket(''1 minute'', time) AS m, max(a), sum(n) FROM {t} WHERE time < ''2026-01-05'' GROUP BY m ORDER BY m DESC LIMIT 5');
SELECT same('SELECT time_bucket(''1 minute'', time) AS m, avg(a), sum(n) FROM {t} WHERE time >= ''2026-01-01 05:00'' AND host IN (1, 2) GROUP BY m ORDER BY m LIMIT 5 OFFSET 20');
SELECT same('SELECT date_trunc(''hour'', time) AS m, first(a, time), last(n, time), stddev(n) FROM {t} WHERE host = 3 GROUP BY m ORDER BY m DESC LIMIT 7');
SELECT same('SELECT date_bin(''7 minutes'', time, ''2001-01-01'') AS m, count(*) FROM {t} WHERE n > 50 OR a < 3 GROUP BY m ORDER BY m DESC LIMIT 3');
SELECT same('SELECT time, count(*), sum(a) FROM {t} GROUP BY time ORDER BY time DESC LIMIT 4');
-- More than there are, and over all slices.
SELECT same('SELECT time_bucket(''10 minutes'', time) AS m, count(*) FROM {t} WHERE extract(hour FROM time) < 2 GROUP BY m ORDER BY m DESC LIMIT 40');
SELECT same('SELECT time_bucket(''1 minute'', time) AS m, count(*) FROM {t} GROUP BY m HAVING count(*) > 100 ORDER BY m DESC LIMIT 2');
SELECT same('SELECT time_bucket(''1 minute'', time) AS m, count(*) FROM {t} WHERE time > ''2300-01-01'' GROUP BY m ORDER BY m LIMIT 2');
-- Another order, another grouping: all at once.
SELECT same('SELECT time_bucket(''1 minute'', time) AS m, count(*), max(a) FROM {t} GROUP BY m ORDER BY max(a) DESC, m LIMIT 2');
SELECT same('SELECT time_bucket(''1 minute'', time) AS m, host, count(*) FROM {t} GROUP BY m, host ORDER BY m, host LIMIT 2');
EXPLAIN (COSTS OFF) SELECT time_bucket('1 minute', time) AS m, max(a) FROM v WHERE time < '2026-01-05' GROUP BY m ORDER BY m DESC LIMIT 5;
-- Few blocks are decoded: of each chunk one or two.
CREATE FUNCTION blocks(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
        IF line ~ 'Blocks Decoded' THEN RETURN substring(line FROM '\d+'); END IF;
    END LOOP;
END $$;
CREATE TABLE w(host int, time timestamptz NOT NULL, a float8, PRIMARY KEY (host, time)) USING varve;
INSERT INTO w SELECT i % 4, '2026-01-01'::timestamptz + i / 4 * interval '10 s', i % 1000 / 4.0 FROM generate_series(1, 160000) i;
CALL varve.compact('w');
VACUUM ANALYZE w;
SELECT blocks('SELECT time_bucket(''1 minute'', time) AS m, max(a) FROM w WHERE time < ''2026-01-05'' GROUP BY m ORDER BY m DESC LIMIT 5') * 2
     < blocks('SELECT time_bucket(''1 minute'', time) AS m, max(a) FROM w WHERE time < ''2026-01-05'' GROUP BY m') AS few;
DROP TABLE w;
-- Changes of this transaction, a cursor, a plan for any value.
BEGIN;
UPDATE v SET a = 5000 WHERE time > '2026-01-12 10:00' AND n = 20;
UPDATE h SET a = 5000 WHERE time > '2026-01-12 10:00' AND n = 20;
SELECT same('SELECT time_bucket(''1 minute'', time) AS m, max(a), count(*) FROM {t} GROUP BY m ORDER BY m DESC LIMIT 5');
DECLARE c CURSOR FOR SELECT time_bucket('1 hour', time) AS m, count(*) FROM v GROUP BY m ORDER BY m DESC LIMIT 8;
FETCH 2 FROM c;
FETCH 1 FROM c;
ROLLBACK;
SET plan_cache_mode = force_generic_plan;
PREPARE newest(timestamptz) AS SELECT time_bucket('1 minute', time) AS m, count(*) FROM v WHERE time < $1 GROUP BY m ORDER BY m DESC LIMIT 2;
EXECUTE newest('2026-01-01 03:00:30');
EXECUTE newest('1999-01-01');
EXECUTE newest(NULL);
-- A plan, and a cursor, from before the session got another clock. By this one it was the 7th for a minute, then the 6th again for an hour.
CREATE TABLE z(time timestamptz NOT NULL, n int) USING varve;
CREATE INDEX ON z USING varve (time);
INSERT INTO z SELECT '2010-11-07 02:00'::timestamptz + i * interval '1 s', i FROM generate_series(0, 7199) i;
INSERT INTO z SELECT '2010-11-09 12:00'::timestamptz + i * interval '10 minutes', i FROM generate_series(0, 143999) i;
VACUUM ANALYZE z;
PREPARE days AS SELECT time::date AS d, count(*) FROM z GROUP BY d ORDER BY d LIMIT 3;
EXPLAIN (COSTS OFF) EXECUTE days;
EXECUTE days;
SET timezone = 'America/St_Johns';
EXECUTE days;
SET timezone = 'UTC';
BEGIN;
DECLARE c CURSOR FOR SELECT time::date AS d, count(*) FROM z GROUP BY d ORDER BY d LIMIT 3;
SET timezone = 'America/St_Johns';
FETCH ALL FROM c;
ROLLBACK;
DROP TABLE z;
SET timezone = 'UTC';
RESET plan_cache_mode;

-- All groups, in the order of integers and times: the node puts them in order, and nobody sorts.
SELECT same('SELECT time_bucket(''1 hour'', time) AS m, max(a), count(*) FROM {t} GROUP BY m ORDER BY m');
SELECT same('SELECT time_bucket(''1 hour'', time) AS m, avg(n), first(a, a) FROM {t} GROUP BY m ORDER BY m DESC');
SELECT same('SELECT host, time_bucket(''1 day'', time) AS m, avg(n), sum(n::bigint), stddev(n) FROM {t} GROUP BY 1, 2 ORDER BY host DESC, m');
SELECT same('SELECT time_bucket(''1 day'', time) AS m, host % 3, count(*) FROM {t} WHERE host < 8 GROUP BY 1, 2 ORDER BY 1, 2 DESC');
SELECT same('SELECT CASE WHEN n > 50 THEN n / 10 END AS k, count(*) FROM {t} GROUP BY k ORDER BY k');
SELECT same('SELECT CASE WHEN n > 50 THEN n / 10 END AS k, count(*) FROM {t} GROUP BY k ORDER BY k DESC');
SELECT same('SELECT CASE WHEN n > 50 THEN n / 10 END AS k, host::smallint, count(*) FROM {t} GROUP BY 1, 2 ORDER BY k DESC NULLS LAST, 2');
SELECT same('SELECT CASE WHEN n > 50 THEN n / 10 END AS k, host, time::date, count(*) FROM {t} GROUP BY 1, 2, 3 HAVING count(*) > 20 ORDER BY k NULLS FIRST, 3 DESC, 2');
SELECT same('SELECT host, sum(n) FROM {t} WHERE host IN (SELECT k FROM generate_series(3, 7) k) GROUP BY host ORDER BY host');
SELECT same('SELECT k, x.host, x.count FROM generate_series(1, 4) k, LATERAL (SELECT host, count(*) FROM {t} WHERE n = k GROUP BY host ORDER BY host) x');
-- Sorted by another sort where the planner expects more groups than memory holds.
SET work_mem = '64kB';
SELECT same('SELECT time, count(*) FROM {t} GROUP BY time ORDER BY time');
-- More of them than memory holds when the plan runs.
RESET work_mem;
CREATE FUNCTION all_times(OUT heap text, OUT alike boolean, OUT first_of_each text) LANGUAGE plpgsql AS $$
DECLARE
    other text;
BEGIN
    SELECT count(*) || ' ' || md5(string_agg(x::text, ',')) INTO heap FROM
      (SELECT time, n % 2 AS k, count(*), sum(n::bigint), avg(n), first(n, n), max(a) FROM h GROUP BY 1, 2 ORDER BY time DESC, k) x;
    SELECT count(*) || ' ' || md5(string_agg(x::text, ',')) INTO other FROM
      (SELECT time, n % 2 AS k, count(*), sum(n::bigint), avg(n), first(n, n), max(a) FROM v GROUP BY 1, 2 ORDER BY time DESC, k) x;
    alike := heap = other;
    -- Again and again, and not to the end.
    SELECT string_agg(k || ':' || x.host || ' ' || to_char(x.time, 'HH24:MI:SS'), ',') INTO first_of_each FROM generate_series(1, 3) k,
      LATERAL (SELECT host, time, count(*) FROM v WHERE n % 3 <> k - 1 GROUP BY host, time ORDER BY time, host LIMIT 2 OFFSET 5) x;
END $$;
SET work_mem = '64MB';
SELECT * FROM all_times();
SET work_mem = '64kB';
SELECT * FROM all_times();
RESET work_mem;
DROP FUNCTION all_times;
DROP TABLE h, v;
DROP FUNCTION same, blocks;
