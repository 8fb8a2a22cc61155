-- Aggregates over columns in several processes, beside one process and beside a heap.
SET timezone = 'UTC';
SET varve.batch_rows = 50;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
-- So small a table is read row by row in no time.
SET enable_seqscan = off;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
CREATE TABLE h(host int NOT NULL, time timestamptz NOT NULL, a float8, n int, s text, PRIMARY KEY (host, time)) USING heap;
INSERT INTO h SELECT i % 20, '2026-01-01'::timestamptz + i / 20 * interval '1 min', CASE WHEN i % 13 > 0 THEN i % 1000 / 4.0 END, i % 100, 'x' || i % 7
    FROM generate_series(1, 40000) i;
CREATE TABLE v(LIKE h INCLUDING ALL) USING varve;
INSERT INTO v SELECT * FROM h WHERE n < 60;
CALL varve.compact('v');
INSERT INTO v SELECT * FROM h WHERE n BETWEEN 60 AND 89;
SET varve.batch_rows = 100000;
INSERT INTO v SELECT * FROM h WHERE n > 89;
RESET varve.batch_rows;
DELETE FROM v WHERE n = 7;
DELETE FROM h WHERE n = 7;
-- Without a series index pages are shared.
CREATE TABLE bare(LIKE h) USING varve;
SET varve.batch_rows = 1;
INSERT INTO bare SELECT * FROM h;
RESET varve.batch_rows;
VACUUM ANALYZE v, h, bare;

-- Runs a query over each table in several processes, and over v in one; true where all find the same and the node did it.
CREATE FUNCTION same(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    line text; found text; other text; shared bool := false; name text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || replace(query, '{t}', 'v') LOOP
        shared := shared OR line LIKE '%Parallel Custom Scan (VarveAggregate)%';
    END LOOP;
    IF NOT shared THEN RAISE NOTICE 'in one process: %', query; END IF;
    EXECUTE format('SELECT string_agg(d::text, '','' ORDER BY d::text) FROM (%s) d', replace(query, '{t}', 'h')) INTO found;
    FOREACH name IN ARRAY ARRAY['v', 'bare'] LOOP
        EXECUTE format('SELECT string_agg(d::text, '','' ORDER BY d::text) FROM (%s) d', replace(query, '{t}', name)) INTO other;
        IF found IS DISTINCT FROM other THEN RAISE NOTICE 'other in %: %', name, query; END IF;
    END LOOP;
    PERFORM set_config('max_parallel_workers_per_gather', '0', true);
    EXECUTE format('SELECT string_agg(d::text, '','' ORDER BY d::text) FROM (%s) d', replace(query, '{t}', 'v')) INTO other;
    PERFORM set_config('max_parallel_workers_per_gather', '2', true);
    RETURN found IS NOT DISTINCT FROM other;
END $$;
SELECT same('SELECT count(*), sum(n), max(a), min(s), sum(a) FROM {t}');
SELECT same('SELECT host, count(a), max(a), avg(n), stddev(n) FROM {t} GROUP BY host');
SELECT same('SELECT time_bucket(''1 hour'', time), count(*), max(a), max(s) FROM {t} GROUP BY 1');
SELECT same('SELECT s, n % 10, sum(a), bool_or(a > 100) FROM {t} WHERE time < ''2026-01-01 12:00'' AND n > 20 GROUP BY 1, 2 HAVING count(*) > 3');
SELECT same('SELECT sum(n) FROM {t} WHERE host IN (1, 4, 7)');
SELECT same('SELECT count(*) FROM {t} WHERE host = 99');
SELECT same('SELECT host, first(n, time), last(a, time) FROM {t} GROUP BY host');
EXPLAIN (COSTS OFF) SELECT host, avg(a) FROM v GROUP BY host;
-- Each process puts its groups in the order of their columns, and core merges them.
SET enable_hashagg = off;
EXPLAIN (COSTS OFF) SELECT host, date_trunc('hour', time) AS hour, avg(a) FROM v GROUP BY 1, 2 ORDER BY 2 DESC, 1;
SELECT same('SELECT host, date_trunc(''hour'', time) AS hour, count(*), sum(a) FROM {t} GROUP BY 1, 2 ORDER BY 2 DESC, 1');
SELECT same('SELECT host, date_trunc(''hour'', time) AS hour, count(*), max(a), min(n) FROM {t} GROUP BY 1, 2 ORDER BY 2 DESC, 1');
SELECT same('SELECT nullif(host, 3), count(*), max(a) FROM {t} GROUP BY 1 ORDER BY 1 DESC NULLS FIRST');
RESET enable_hashagg;

-- Changes that only this process knows: no workers, the same answer.
BEGIN;
UPDATE v SET a = 1000 WHERE host = 3 AND n = 43;
UPDATE h SET a = 1000 WHERE host = 3 AND n = 43;
SELECT (SELECT (sum(a), count(*))::text FROM v) = (SELECT (sum(a), count(*))::text FROM h);
ROLLBACK;
-- A cursor, a plan for any value, and one that stops early.
BEGIN;
DECLARE c CURSOR FOR SELECT host, count(*) FROM v GROUP BY host ORDER BY host;
FETCH 2 FROM c;
COMMIT;
SET plan_cache_mode = force_generic_plan;
PREPARE late(timestamptz) AS SELECT count(*), max(a) FROM v WHERE time >= $1;
EXECUTE late('2026-01-02');
EXECUTE late('2026-01-01 20:00');
EXECUTE late(NULL);
RESET plan_cache_mode;
SELECT host, count(*) FROM v GROUP BY host ORDER BY host LIMIT 1;
-- Again and again below a join.
SET enable_material = off;
SET enable_memoize = off;
SELECT count(*), sum(c), min(c), max(c) FROM generate_series(1, 5) i LEFT JOIN LATERAL (SELECT count(*) AS c FROM v WHERE n < 50 OFFSET 0) x ON x.c > i;
SELECT i, (SELECT count(*) FROM v WHERE host = i) FROM generate_series(1, 3) i;
\set SHOW_CONTEXT never
-- An error in a worker, or in the leader.
SELECT sum(1 / (n - 50)) FROM v;
-- A worker's function asks for groups, which do not go to the leader.
CREATE FUNCTION asks(int) RETURNS bigint PARALLEL SAFE COST 1e12 LANGUAGE plpgsql AS $$
DECLARE
    line record; sum bigint := 0;
BEGIN
    FOR line IN SELECT host, count(*) AS c FROM v GROUP BY host LOOP sum := sum + line.host * line.c; END LOOP;
    RETURN sum;
END $$;
EXPLAIN (COSTS OFF) SELECT asks(n) FROM h WHERE n = 3;
SELECT DISTINCT asks(n) = (SELECT sum(host) FROM h) FROM h WHERE n = 3;
DROP FUNCTION asks;
-- What workers have done is told too.
CREATE FUNCTION told(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
        IF line ~ 'Chunks:|Chunks Skipped|Tail Rows' THEN RETURN NEXT trim(line); END IF;
    END LOOP;
END $$;
SELECT told('SELECT host, count(a + 1) FROM v WHERE host < 4 GROUP BY host');
SET max_parallel_workers_per_gather = 0;
SELECT told('SELECT host, count(a + 1) FROM v WHERE host < 4 GROUP BY host');
RESET max_parallel_workers_per_gather;
-- Where groups keep series apart, no process has all groups, and the planner knows.
RESET enable_seqscan;
RESET max_parallel_workers_per_gather;
CREATE TABLE apart(host int NOT NULL, time timestamptz NOT NULL, a float8, PRIMARY KEY (host, time)) USING varve;
INSERT INTO apart SELECT i % 20, '2026-01-01'::timestamptz + i / 20 * interval '1 min', i % 1000 FROM generate_series(0, 39999) i;
CALL varve.compact('apart');
VACUUM ANALYZE apart;
CREATE FUNCTION gathered_share(groups text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
    plan jsonb;
BEGIN
    EXECUTE format('EXPLAIN (FORMAT JSON) SELECT %1$s, avg(a) FROM apart GROUP BY %1$s', groups) INTO plan;
    RETURN round((SELECT (jsonb_path_query_first(plan, '$.**? (@."Node Type" == "Gather")."Plan Rows"')::numeric)
        / jsonb_path_query_first(plan, '$.**? (@."Node Type" == "Custom Scan")."Plan Rows"')::numeric), 1);
END $$;
SELECT gathered_share('host, date_trunc(''hour'', time)') AS by_series, gathered_share('date_trunc(''hour'', time)') AS by_time;
DROP TABLE h, v, bare, apart;
DROP FUNCTION same, told, gathered_share;
