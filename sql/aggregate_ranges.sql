-- Groups that several processes finish, each of which has ranges of the first key, beside one process and beside a heap.
SET timezone = 'UTC';
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
-- In tables as small as these another step would finish groups, or one process.
SET enable_hashagg = off;
SET enable_sort = off;
SET enable_gathermerge = off;
SET cpu_tuple_cost = 0.1;
SET cpu_operator_cost = 0.5;
SET jit = off;
SET varve.batch_rows = 20000;
CREATE TABLE source(host int, core int, time timestamptz NOT NULL, a float8, n int, s text) USING heap;
INSERT INTO source SELECT CASE WHEN i % 101 > 0 THEN i % 101 - 40 END, i % 2, '2026-01-01'::timestamptz + i / 200 * interval '1 min',
        CASE WHEN i % 13 > 0 THEN i % 1000 / 4.0 END, i % 100, 'x' || i % 7
    FROM generate_series(1, 40000) i;
CREATE TABLE h(LIKE source) USING heap;
CREATE TABLE v(LIKE source) USING varve;
CREATE INDEX ON v USING varve_series (host, core, time);
INSERT INTO h SELECT * FROM source WHERE n < 60;
INSERT INTO v TABLE h;

-- Runs a query over h, and over v in several processes and in one; true where all find the same, and processes finished groups.
CREATE FUNCTION same(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    line text; plan text := ''; found text; other text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || replace(query, '{t}', 'v') LOOP plan := plan || line; END LOOP;
    IF plan !~ 'Parallel Custom Scan \(VarveAggregate\)' OR plan ~ 'Finalize' THEN RAISE NOTICE 'in another way: %', plan; END IF;
    EXECUTE format('SELECT string_agg(d::text, '','' ORDER BY d::text) FROM (%s) d', replace(query, '{t}', 'h')) INTO found;
    EXECUTE format('SELECT string_agg(d::text, '','' ORDER BY d::text) FROM (%s) d', replace(query, '{t}', 'v')) INTO other;
    IF found IS DISTINCT FROM other THEN RAISE NOTICE 'other in several: %', query; END IF;
    PERFORM set_config('max_parallel_workers_per_gather', '0', true);
    EXECUTE format('SELECT string_agg(d::text, '','' ORDER BY d::text) FROM (%s) d', replace(query, '{t}', 'v')) INTO other;
    PERFORM set_config('max_parallel_workers_per_gather', '2', true);
    RETURN found IS NOT DISTINCT FROM other;
END $$;
CREATE FUNCTION all_same() RETURNS SETOF bool LANGUAGE sql AS $$
    SELECT same(query) FROM unnest(ARRAY[
        'SELECT host, time, count(*), sum(n), max(a) FROM {t} GROUP BY host, time',
        'SELECT host, core, time, count(a), min(n), avg(n) FROM {t} GROUP BY host, core, time',
        'SELECT time_bucket(''1 min'', time), host, count(*), max(a) FROM {t} GROUP BY 1, 2',
        'SELECT host, time, bool_and(n > 3), max(n::smallint), min(a::real), avg(a), count(*) FROM {t} GROUP BY host, time',
        'SELECT s, host, time, count(*), avg(a) FROM {t} WHERE n > 20 GROUP BY 1, 2, 3',
        'SELECT host, time, count(*) FROM {t} WHERE host BETWEEN -30 AND 50 GROUP BY host, time',
        'SELECT host, time, count(*) FROM {t} WHERE host IS NULL OR host > -35 GROUP BY host, time',
        'SELECT host + 1, 2 * c FROM (SELECT host, time, count(*) AS c FROM {t} GROUP BY host, time OFFSET 0) x'
    ]) query $$;
CREATE FUNCTION explained(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || query;
END $$;
-- Fresh chunks, which have all keys each.
VACUUM ANALYZE h, v;
SELECT all_same();
-- With chunks of few keys, later ones, rows of the tail and changed ones.
SET varve.chunk_rows = 3000;
CALL varve.compact('v');
INSERT INTO v SELECT * FROM source WHERE n BETWEEN 60 AND 89;
SET varve.batch_rows = 1;
INSERT INTO v SELECT * FROM source WHERE n > 89;
RESET varve.batch_rows;
INSERT INTO h SELECT * FROM source WHERE n >= 60;
DELETE FROM v WHERE n = 7;
DELETE FROM h WHERE n = 7;
UPDATE v SET a = a + 1 WHERE n = 11;
UPDATE h SET a = a + 1 WHERE n = 11;
VACUUM ANALYZE h, v;
SELECT all_same();
CALL varve.compact('v');
VACUUM ANALYZE v;
SELECT all_same();
EXPLAIN (COSTS OFF) SELECT host, time, avg(a) FROM v GROUP BY host, time;
-- With a condition on groups, or too few keys, core finishes them.
EXPLAIN (COSTS OFF) SELECT host, time, avg(a) FROM v GROUP BY host, time HAVING avg(a) > 3;
EXPLAIN (COSTS OFF) SELECT host, time, avg(a) FROM v WHERE host < -38 GROUP BY host, time;
EXPLAIN (COSTS OFF) SELECT core, time, avg(a) FROM v GROUP BY core, time;
BEGIN;
DECLARE c CURSOR FOR SELECT count(*), sum(count) FROM (SELECT host, time, count(*) FROM v GROUP BY host, time) x;
FETCH c;
COMMIT;
-- Again and again, stopped early, and for any value.
SET enable_material = off;
SET enable_memoize = off;
SELECT count(*), sum(c), min(c), max(c)
    FROM generate_series(1, 3) i LEFT JOIN LATERAL (SELECT host, time, count(*) AS c FROM v WHERE n < 50 GROUP BY host, time OFFSET 0) x ON x.c >= i;
SELECT count(*) FROM (SELECT host, time, count(*) FROM v GROUP BY host, time LIMIT 7) x;
SET plan_cache_mode = force_generic_plan;
PREPARE late(timestamptz) AS SELECT count(*), sum(c), max(m) FROM (SELECT host, time, count(*) AS c, max(a) AS m FROM v WHERE time >= $1 GROUP BY host, time) x;
EXECUTE late('2026-01-01 01:00');
EXECUTE late('2026-01-01 03:10');
EXECUTE late(NULL);
RESET plan_cache_mode;
-- Changes that only this process knows.
BEGIN ISOLATION LEVEL SERIALIZABLE;
UPDATE v SET a = 1000 WHERE host = 3 AND n = 43;
UPDATE h SET a = 1000 WHERE host = 3 AND n = 43;
SELECT count(*) FROM ((TABLE h EXCEPT ALL TABLE v) UNION ALL (TABLE v EXCEPT ALL TABLE h)) x;
SELECT (SELECT string_agg(x::text, ' ' ORDER BY x) FROM (SELECT host, time, sum(a) FROM v GROUP BY host, time) x)
    = (SELECT string_agg(x::text, ' ' ORDER BY x) FROM (SELECT host, time, sum(a) FROM h GROUP BY host, time) x);
ROLLBACK;
-- The leader does not help, or is alone; keys are of other types, and there is another index, which does not state the layout.
SET parallel_leader_participation = off;
SELECT all_same();
SET max_parallel_workers = 0;
SELECT all_same();
RESET parallel_leader_participation;
SELECT all_same();
RESET max_parallel_workers;
CREATE TABLE days(day date, at timestamptz NOT NULL, small smallint, time timestamptz NOT NULL) USING varve;
CREATE INDEX ON days USING varve_series (day, time);
INSERT INTO days SELECT CASE i % 40 WHEN 0 THEN NULL WHEN 1 THEN 'infinity' WHEN 2 THEN '-infinity' ELSE '2026-01-01'::date + i % 40 END,
        '2026-01-01'::timestamptz + i % 60 * interval '1 hour', i % 70 - 35, '2026-01-01'::timestamptz + i / 2 * interval '1 min'
    FROM generate_series(1, 30000) i;
CALL varve.compact('days');
VACUUM ANALYZE days;
SELECT plan FROM explained('SELECT day, time, count(*) FROM days GROUP BY day, time') plan;
SELECT count(*), sum(count), count(day), max(day), min(day) FROM (SELECT day, time, count(*) FROM days GROUP BY day, time) x;
CREATE INDEX ON days USING varve_series (small, time);
VACUUM ANALYZE days;
SELECT plan FROM explained('SELECT small, time, count(*) FROM days GROUP BY small, time') plan;
SELECT plan FROM explained('SELECT day, time, count(*) FROM days GROUP BY day, time') plan;
SELECT count(*), sum(count), min(small) FROM (SELECT small, time, count(*) FROM days GROUP BY small, time) x;
SELECT count(*), sum(count), count(day) FROM (SELECT day, time, count(*) FROM days GROUP BY day, time) x;
-- More groups than were expected, and than memory has room for: ranges are read in shares.
CREATE TABLE grown(host bigint NOT NULL, time timestamptz NOT NULL, n int, PRIMARY KEY (host, time)) USING varve;
INSERT INTO grown SELECT (i % 50 - 25) * 100000000000, '2026-01-01'::timestamptz + i / 50 * interval '1 min', i / 50 % 40 FROM generate_series(0, 4999) i;
CALL varve.compact('grown');
VACUUM ANALYZE grown;
INSERT INTO grown SELECT (i % 50 - 25) * 100000000000, '2026-02-01'::timestamptz + i / 50 * interval '1 min', i / 5 FROM generate_series(0, 99999) i;
SET work_mem = '64kB';
SET seq_page_cost = 0;
SET hash_mem_multiplier = 1;
EXPLAIN (COSTS OFF) SELECT host, n, count(*) FROM grown GROUP BY host, n;
SELECT count(*), sum(count), count(DISTINCT (host, n)) FROM (SELECT host, n, count(*) FROM grown GROUP BY host, n) x;
SET max_parallel_workers_per_gather = 0;
SELECT count(*), sum(count), count(DISTINCT (host, n)) FROM (SELECT host, n, count(*) FROM grown GROUP BY host, n) x;
DROP TABLE source, h, v, days, grown;
DROP FUNCTION all_same, same, explained;
