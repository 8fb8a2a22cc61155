-- Rows of compressed columns for core's nodes: VarveScan's plans, and answers beside a heap's.
SET varve.batch_rows = 50;
SET timezone = 'UTC';
CREATE TABLE h(gone int, host text, time timestamptz NOT NULL, usage float8, idle real, level int, id bigint, price numeric, ok bool, span interval, code uuid);
ALTER TABLE h DROP COLUMN gone;
CREATE TABLE v(gone int, host text, time timestamptz NOT NULL, usage float8, idle real, level int, id bigint, price numeric, ok bool, span interval, code uuid) USING varve;
ALTER TABLE v DROP COLUMN gone;
CREATE INDEX ON v USING varve (host, time);
-- Runs a query on both tables; true where the rows are the same.
CREATE FUNCTION rows_same(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE differences bigint; plan text; node bool := false;
BEGIN
    FOR plan IN EXECUTE 'EXPLAIN (COSTS OFF) ' || replace(query, '{t}', 'v') LOOP
        node := node OR plan LIKE '%VarveScan%';
    END LOOP;
    IF NOT node THEN RAISE NOTICE 'without the node: %', query; END IF;
    EXECUTE format('SELECT count(*) FROM ((SELECT d::text FROM (%1$s) d EXCEPT ALL SELECT d::text FROM (%2$s) d) UNION ALL
                    (SELECT d::text FROM (%2$s) d EXCEPT ALL SELECT d::text FROM (%1$s) d)) e',
                   replace(query, '{t}', 'h'), replace(query, '{t}', 'v')) INTO differences;
    RETURN differences = 0;
END $$;
CREATE FUNCTION rows_answers() RETURNS TABLE (part text, right_everywhere bool) LANGUAGE sql AS $$
    SELECT 'ordered', rows_same('SELECT level, string_agg(host, '','' ORDER BY id), array_agg(price ORDER BY id) FROM {t} GROUP BY level')
    UNION ALL SELECT 'distinct', rows_same('SELECT time_bucket(''10 minutes'', time), count(DISTINCT level), sum(DISTINCT usage) FROM {t} GROUP BY 1')
    UNION ALL SELECT 'percentile', rows_same('SELECT level, percentile_cont(0.3) WITHIN GROUP (ORDER BY usage), mode() WITHIN GROUP (ORDER BY host), count(*) FROM {t} GROUP BY level')
    UNION ALL SELECT 'sets', rows_same('SELECT host, level, count(*), sum(id), grouping(host) FROM {t} GROUP BY GROUPING SETS ((host, level), (host), ())')
    UNION ALL SELECT 'rollup', rows_same('SELECT time_bucket(''1 hour'', time), ok, max(price), count(*) FROM {t} WHERE level > 2 GROUP BY ROLLUP (1, 2) HAVING count(*) > 3')
    UNION ALL SELECT 'cube', rows_same('SELECT host, ok, count(span), max(host) FROM {t} GROUP BY CUBE (host, ok)')
    UNION ALL SELECT 'all columns', rows_same('SELECT * FROM {t} WHERE usage > 40')
    UNION ALL SELECT 'columns', rows_same('SELECT span, level, host, code, host FROM {t}')
    UNION ALL SELECT 'none', rows_same('SELECT FROM {t} WHERE level <> 4')
    UNION ALL SELECT 'expressions', rows_same('SELECT upper(host) || level, usage / (level + 1), price + id, ok IS NOT TRUE, now() - time FROM {t} WHERE level <= 7')
    UNION ALL SELECT 'window', rows_same('SELECT host, time, usage - lag(usage) OVER (PARTITION BY level ORDER BY time, id), sum(level) OVER (PARTITION BY ok) FROM {t}')
    UNION ALL SELECT 'where time', rows_same('SELECT host, id FROM {t} WHERE time >= ''2026-01-01 01:00Z'' AND time < ''2026-01-01 03:30:10Z''')
    UNION ALL SELECT 'where value', rows_same('SELECT host, id, price FROM {t} WHERE (level BETWEEN 3 AND 7 OR usage IS NULL) AND NOT ok')
    UNION ALL SELECT 'where expression', rows_same('SELECT host, id FROM {t} WHERE level % 4 < 2 AND price > level AND 10 / (level + 1) > 0')
    UNION ALL SELECT 'where text', rows_same('SELECT id, host FROM {t} WHERE host IN (''h1'', ''h3'', ''x'') AND code IS NOT NULL')
    UNION ALL SELECT 'where NaN', rows_same('SELECT id FROM {t} WHERE usage >= 0 AND usage <> ''NaN''')
    UNION ALL SELECT 'join', rows_same('SELECT a.id, b.n FROM {t} a JOIN (VALUES (1, 2), (4, 5), (4, 6)) b(level, n) ON a.level = b.level')
    UNION ALL SELECT 'twice', rows_same('SELECT a.host, a.id, b.price FROM {t} a JOIN {t} b ON a.id = b.id + 3 AND a.level > 1 WHERE b.usage < 30')
    UNION ALL SELECT 'sorted', rows_same('SELECT DISTINCT ON (level, ok) level, ok, id, host FROM {t} ORDER BY level, ok, id DESC, host')
    UNION ALL SELECT 'union', rows_same('SELECT id FROM {t} WHERE level = 1 UNION SELECT id + 1 FROM {t} WHERE ok')
    UNION ALL SELECT 'subquery', rows_same('SELECT id FROM {t} WHERE level > (SELECT avg(level) FROM {t}) AND host = ANY (ARRAY(SELECT ''h'' || g FROM generate_series(1, 3) g))')
$$;

INSERT INTO h SELECT 'h' || g % 5, '2026-01-01 00:00Z'::timestamptz + g / 5 * interval '10 s', CASE WHEN g % 11 > 0 THEN g % 101 END, g % 16 / 4.0,
    g % 10, g * 10000000007, round(g % 1000 / 7.0, g % 3), g % 3 = 0, g * interval '1 s', md5((g % 77)::text)::uuid FROM generate_series(1, 8000) g;
INSERT INTO v SELECT * FROM h;
ANALYZE v;
SELECT * FROM rows_answers() WHERE NOT right_everywhere;

-- Which mode, and why.
EXPLAIN (COSTS OFF, VERBOSE) SELECT time_bucket('1 hour', time) AS hour, percentile_cont(0.5) WITHIN GROUP (ORDER BY usage) FROM v WHERE level > 3 AND ok AND id % 2 = 0 GROUP BY hour;
EXPLAIN (COSTS OFF, VERBOSE) SELECT host, level, count(*) FROM v GROUP BY GROUPING SETS (host, level);
EXPLAIN (COSTS OFF) SELECT host, usage FROM v WHERE usage > 90 AND time < '2026-01-01 03:00Z';
EXPLAIN (COSTS OFF) SELECT *, rank() OVER (PARTITION BY level ORDER BY usage) FROM v;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT mode() WITHIN GROUP (ORDER BY level) FROM v WHERE time < '2026-01-01 01:00Z' OR time > '2027-01-01 01:00Z';
-- What it leaves to core: few rows, system columns, whole rows, volatile conditions, samples, and what is locked or changed.
EXPLAIN (COSTS OFF) SELECT usage FROM v WHERE host = 'h1' AND time < '2026-01-01 00:01Z';
EXPLAIN (COSTS OFF) SELECT ctid, usage FROM v WHERE usage > 5;
EXPLAIN (COSTS OFF) SELECT v FROM v WHERE usage > 5;
EXPLAIN (COSTS OFF) SELECT usage FROM v WHERE random() < 2;
EXPLAIN (COSTS OFF) SELECT usage FROM v TABLESAMPLE SYSTEM (100);
EXPLAIN (COSTS OFF) SELECT usage FROM v WHERE usage > 5 FOR UPDATE;
EXPLAIN (COSTS OFF) UPDATE v SET usage = 1 WHERE usage > 5;
SET varve.enable_scan = off;
EXPLAIN (COSTS OFF) SELECT usage FROM v WHERE usage > 5;
RESET varve.enable_scan;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT usage FROM v WHERE usage > 5;
RESET enable_seqscan;

-- A tail, late rows, duplicates, nulls, other floats; then merged chunks; deleted and updated rows.
INSERT INTO h SELECT 'h' || g % 7, '2026-01-01 00:00Z'::timestamptz + g * interval '3 s', 'NaN', 'Infinity', NULL, -g, NULL, NULL, NULL, NULL FROM generate_series(1, 40) g;
INSERT INTO h SELECT NULL, '2025-12-31 00:00Z'::timestamptz + g * interval '3 s', -0.0, 0, 3, g, 1.000, true, '1 month', md5('')::uuid FROM generate_series(1, 40) g;
INSERT INTO v SELECT * FROM h OFFSET 8000 LIMIT 45;
INSERT INTO v SELECT * FROM h OFFSET 8045;
SELECT * FROM rows_answers() WHERE NOT right_everywhere;
CALL varve.compact('v');
SELECT * FROM rows_answers() WHERE NOT right_everywhere;
DELETE FROM h WHERE id % 10 = 3; DELETE FROM v WHERE id % 10 = 3;
UPDATE h SET level = level + 1 WHERE id % 100 = 7; UPDATE v SET level = level + 1 WHERE id % 100 = 7;
SELECT * FROM rows_answers() WHERE NOT right_everywhere;
-- Changes of this transaction, written or not, and columns that came later.
ALTER TABLE h ADD COLUMN late int DEFAULT 5, ADD COLUMN later text; ALTER TABLE v ADD COLUMN late int DEFAULT 5, ADD COLUMN later text;
BEGIN;
DELETE FROM h WHERE host = 'h2'; DELETE FROM v WHERE host = 'h2';
INSERT INTO h SELECT 'new', now() + g * interval '1 s', 1, 2, g, g, g, true, '1 s', NULL, g, 'x' FROM generate_series(1, 100) g;
INSERT INTO v SELECT 'new', now() + g * interval '1 s', 1, 2, g, g, g, true, '1 s', NULL, g, 'x' FROM generate_series(1, 100) g;
SAVEPOINT a;
UPDATE h SET ok = NOT ok WHERE level = 4; UPDATE v SET ok = NOT ok WHERE level = 4;
SELECT * FROM rows_answers() WHERE NOT right_everywhere;
SELECT rows_same('SELECT late, later, id FROM {t} WHERE late < 50');
ROLLBACK TO a;
SELECT * FROM rows_answers() WHERE NOT right_everywhere;
ROLLBACK;
SELECT * FROM rows_answers() WHERE NOT right_everywhere;

-- Parameters, rescans, cursors.
PREPARE p(int, timestamptz) AS SELECT count(DISTINCT id), percentile_disc(0.5) WITHIN GROUP (ORDER BY level + $1) FROM v WHERE level > $1 AND time > $2;
SET plan_cache_mode = force_generic_plan;
EXECUTE p(3, '2026-01-01 03:00Z');
EXECUTE p(8, '2026-01-01 04:00Z');
EXECUTE p(8, NULL);
RESET plan_cache_mode;
SELECT rows_same('SELECT x, n FROM (VALUES (1), (5), (20), (NULL)) list(x), LATERAL (SELECT count(DISTINCT id) AS n FROM {t} WHERE level >= x OFFSET 0) counted');
BEGIN;
DECLARE c CURSOR FOR SELECT level FROM v WHERE level = 4;
FETCH 2 FROM c;
UPDATE v SET level = 77 WHERE CURRENT OF c;
SELECT level, count(*) FROM v WHERE level IN (4, 77) GROUP BY level ORDER BY level;
MOVE 400 IN c;
DELETE FROM v WHERE CURRENT OF c;
SELECT count(*) FROM v WHERE level = 4;
DELETE FROM v;
FETCH 1 FROM c;
MOVE FORWARD ALL IN c;
UPDATE v SET level = 78 WHERE CURRENT OF c;
ROLLBACK;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT level FROM v WHERE level = 5;
FETCH 3 FROM c;
FETCH BACKWARD 3 FROM c;
ROLLBACK;
-- A query that writes what it reads, and one that stops.
BEGIN;
INSERT INTO v SELECT * FROM v WHERE level > 5;
INSERT INTO h SELECT * FROM h WHERE level > 5;
SELECT rows_same('SELECT id, level FROM {t} WHERE usage IS NOT NULL');
ROLLBACK;
SELECT count(*) FROM (SELECT host FROM v WHERE usage < 90 LIMIT 1500) few;
-- An error says where it comes from.
CREATE FUNCTION broken(int) RETURNS int LANGUAGE plpgsql STABLE AS $$ BEGIN IF $1 = 8 THEN RAISE division_by_zero USING MESSAGE = 'eight'; END IF; RETURN $1; END $$;
SELECT broken(level) FROM v WHERE usage < 90;
SELECT id FROM v WHERE usage < 90 AND broken(level) > 4;

-- Row security: conditions of the query come behind those of the policy.
CREATE ROLE scan_reader;
GRANT SELECT ON v TO scan_reader;
ALTER TABLE v ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON v USING (host <> 'h1' AND id % 5 < 9);
CREATE FUNCTION leak(text) RETURNS bool LANGUAGE plpgsql STABLE COST 0.0001 AS $$ BEGIN IF $1 = 'h1' THEN RAISE NOTICE 'seen'; END IF; RETURN true; END $$;
SET ROLE scan_reader;
EXPLAIN (COSTS OFF) SELECT mode() WITHIN GROUP (ORDER BY host) FROM v WHERE leak(host);
SELECT mode() WITHIN GROUP (ORDER BY host), count(DISTINCT host), min(host) FROM v WHERE leak(host);
RESET ROLE;
DROP TABLE v, h CASCADE;
DROP ROLE scan_reader;
DROP FUNCTION leak, broken;

-- Partitions, one of them a heap; several processes.
CREATE TABLE h(host int, time timestamptz, usage float8);
CREATE TABLE v(host int, time timestamptz, usage float8) PARTITION BY RANGE (time);
CREATE TABLE v1 PARTITION OF v FOR VALUES FROM ('2026-01-01Z') TO ('2026-01-02Z') USING varve;
CREATE TABLE v2 PARTITION OF v FOR VALUES FROM ('2026-01-02Z') TO ('2026-01-03Z') USING varve;
CREATE TABLE v3 PARTITION OF v DEFAULT USING heap;
INSERT INTO h SELECT g % 7, '2026-01-01 00:00Z'::timestamptz + g * interval '20 s', g % 13 FROM generate_series(0, 9999) g;
INSERT INTO v SELECT * FROM h;
CALL varve.compact('v1');
EXPLAIN (COSTS OFF) SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY usage) FROM v WHERE usage > 3;
SELECT rows_same('SELECT host, percentile_cont(0.5) WITHIN GROUP (ORDER BY usage), count(*) FROM {t} WHERE usage > 3 GROUP BY host');
SELECT rows_same('SELECT tableoid IS NULL, host FROM {t} WHERE usage > 3 AND false OR usage > 4') AS system_columns;
SELECT rows_same('SELECT host, time FROM {t} WHERE usage IN (1, 7)');
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET max_parallel_workers_per_gather = 2;
ALTER TABLE v1 SET (parallel_workers = 2);
EXPLAIN (COSTS OFF) SELECT host, time FROM v1 WHERE usage > 3;
SELECT count(*), count(DISTINCT time) FROM (SELECT host, time FROM v1 WHERE usage > 3 OFFSET 0) few;
SELECT count(*), count(DISTINCT time) FROM (SELECT host, time FROM v1 WHERE usage > 3 AND time > '2026-01-01 12:00Z' OFFSET 0) few;
SELECT count(*), count(DISTINCT time) FROM h WHERE usage > 3 AND time < '2026-01-02Z';
SELECT count(*), count(DISTINCT time) FROM h WHERE usage > 3 AND time > '2026-01-01 12:00Z' AND time < '2026-01-02Z';
SELECT rows_same('SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY usage) FROM {t} WHERE usage > 3');
-- Changes that other processes do not know.
BEGIN;
DELETE FROM v1 WHERE usage = 4;
SELECT count(*) FROM (SELECT host, time FROM v1 WHERE usage > 3 OFFSET 0) few;
ROLLBACK;
DROP TABLE v, h CASCADE;
DROP FUNCTION rows_same, rows_answers;
