-- Aggregates over compressed columns: the node's plans, and answers beside a heap's.
SET varve.batch_rows = 50;
SET timezone = 'UTC';
CREATE TABLE h(gone int, host text, time timestamptz NOT NULL, usage float8, idle real, level int, id bigint, price numeric, ok bool, span interval);
ALTER TABLE h DROP COLUMN gone;
CREATE TABLE v(gone int, host text, time timestamptz NOT NULL, usage float8, idle real, level int, id bigint, price numeric, ok bool, span interval) USING varve;
ALTER TABLE v DROP COLUMN gone;
CREATE INDEX ON v USING varve (host, time);
-- Runs a query on both tables; true where the rows are the same.
CREATE FUNCTION same(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE differences bigint; plan text; node bool := false;
BEGIN
    FOR plan IN EXECUTE 'EXPLAIN (COSTS OFF) ' || replace(query, '{t}', 'v') LOOP
        node := node OR plan LIKE '%VarveAggregate%';
    END LOOP;
    IF NOT node THEN RAISE NOTICE 'without the node: %', query; END IF;
    EXECUTE format('SELECT count(*) FROM ((SELECT d::text FROM (%1$s) d EXCEPT ALL SELECT d::text FROM (%2$s) d) UNION ALL
                    (SELECT d::text FROM (%2$s) d EXCEPT ALL SELECT d::text FROM (%1$s) d)) e',
                   replace(query, '{t}', 'h'), replace(query, '{t}', 'v')) INTO differences;
    RETURN differences = 0;
END $$;
CREATE FUNCTION answers() RETURNS TABLE (part text, right_everywhere bool) LANGUAGE sql AS $$
    SELECT 'aggregates', same('SELECT count(*), count(usage), min(usage), max(usage), sum(level), avg(level), sum(id), avg(id), trim_scale(min(price)), trim_scale(max(price)),
        sum(price), avg(price), bool_and(ok), bool_or(ok), max(host), min(time), max(time), sum(span), stddev(level), variance(id), sum(idle), min(idle),
        max(level) - min(level), round(avg(usage)::numeric, 9), round(stddev(usage)::numeric, 6) FROM {t}')
    UNION ALL SELECT 'key', same('SELECT host, count(*), max(usage), sum(id) FROM {t} GROUP BY host')
    UNION ALL SELECT 'bucket', same('SELECT time_bucket(''10 minutes'', time), count(*), max(level) FROM {t} GROUP BY 1')
    UNION ALL SELECT 'key and bucket', same('SELECT time_bucket(''10 minutes'', time) b, host, count(*), trim_scale(min(price)) FROM {t} GROUP BY host, b HAVING count(*) > 3')
    UNION ALL SELECT 'month', same('SELECT time_bucket(''1 month'', time), count(*), sum(id) FROM {t} GROUP BY 1')
    UNION ALL SELECT 'zone', same('SELECT time_bucket(''1 hour'', time, ''Europe/Berlin''), count(*), sum(id) FROM {t} GROUP BY 1')
    UNION ALL SELECT 'date_trunc', same('SELECT date_trunc(''hour'', time), count(*), sum(id) FROM {t} GROUP BY 1')
    UNION ALL SELECT 'date_bin', same('SELECT date_bin(''7 minutes'', time, ''2001-01-01''), count(*), sum(id) FROM {t} GROUP BY 1')
    UNION ALL SELECT 'grafana', same('SELECT floor(extract(epoch FROM time) / 300) * 300, count(*), sum(id) FROM {t} GROUP BY 1')
    UNION ALL SELECT 'column', same('SELECT level, ok, count(*), sum(id) FROM {t} GROUP BY level, ok')
    UNION ALL SELECT 'expression', same('SELECT level % 3, usage > 50, count(*), sum(id + level) FROM {t} GROUP BY 1, 2')
    UNION ALL SELECT 'no aggregate', same('SELECT host, level FROM {t} GROUP BY host, level')
    UNION ALL SELECT 'filter', same('SELECT host, count(*) FILTER (WHERE usage > 50), sum(id) FILTER (WHERE ok), max(level) FILTER (WHERE host = ''a'') FROM {t} GROUP BY host')
    UNION ALL SELECT 'where time', same('SELECT host, count(*), sum(id) FROM {t} WHERE time >= ''2026-01-01 02:00Z'' AND time < ''2026-01-01 03:30:10Z'' GROUP BY host')
    UNION ALL SELECT 'where key', same('SELECT count(*), sum(id) FROM {t} WHERE host IN (''h1'', ''h3'', ''x'')')
    UNION ALL SELECT 'where value', same('SELECT host, count(*), sum(id) FROM {t} WHERE level BETWEEN 3 AND 7 AND usage IS NOT NULL AND NOT ok GROUP BY host')
    UNION ALL SELECT 'where expression', same('SELECT host, count(*), sum(id) FROM {t} WHERE level % 4 = 1 AND price > level AND 10 / (level + 1) > 2 GROUP BY host')
    UNION ALL SELECT 'where nothing', same('SELECT count(*), sum(id), max(usage) FROM {t} WHERE host = ''none''')
    UNION ALL SELECT 'where NaN', same('SELECT count(*), sum(id) FROM {t} WHERE usage >= ''NaN''')
    UNION ALL SELECT 'having alone', same('SELECT sum(id) FROM {t} HAVING count(*) > 1000000')
    UNION ALL SELECT 'ours', same('SELECT host, first(level, time), last(level, time), histogram(level, 0, 10, 5) FROM {t} GROUP BY host')
$$;

INSERT INTO h SELECT 'h' || g % 5, '2026-01-01 00:00Z'::timestamptz + g / 5 * interval '10 s', CASE WHEN g % 11 > 0 THEN g % 101 END, g % 16 / 4.0,
    g % 10, g * 10000000007, round(g % 1000 / 7.0, g % 3), g % 3 = 0, g * interval '1 s' FROM generate_series(1, 8000) g;
INSERT INTO v SELECT * FROM h;
SELECT * FROM answers() WHERE NOT right_everywhere;

EXPLAIN (COSTS OFF, VERBOSE) SELECT time_bucket('1 hour', time) AS hour, host, avg(usage), count(*) FROM v WHERE level > 3 AND ok GROUP BY hour, host HAVING max(id) > 5 ORDER BY hour;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT count(*), max(usage) FROM v WHERE time < '2026-01-01 01:00Z';
EXPLAIN (COSTS OFF) SELECT max(time) FROM v WHERE host = 'h1';
-- What the node leaves to core; rows would come from VarveScan (scan_node.sql).
SET varve.enable_scan = off;
EXPLAIN (COSTS OFF) SELECT string_agg(host, ',') FROM v;
EXPLAIN (COSTS OFF) SELECT count(DISTINCT host) FROM v;
EXPLAIN (COSTS OFF) SELECT count(*) FROM v TABLESAMPLE SYSTEM (100);
EXPLAIN (COSTS OFF) SELECT count(v.*) FROM v;
EXPLAIN (COSTS OFF) SELECT max(ctid) FROM v;
EXPLAIN (COSTS OFF) SELECT count(*) FROM v WHERE random() < 2;
EXPLAIN (COSTS OFF) SELECT host, level, count(*) FROM v GROUP BY GROUPING SETS (host, level);
SET varve.enable_aggregate = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM v;
RESET varve.enable_aggregate;
RESET varve.enable_scan;

-- A tail, late rows, duplicates, nulls, other floats; then merged chunks; deleted and updated rows.
INSERT INTO h SELECT 'h' || g % 7, '2026-01-01 00:00Z'::timestamptz + g * interval '3 s', 'NaN', 'Infinity', NULL, -g, NULL, NULL, NULL FROM generate_series(1, 40) g;
INSERT INTO h SELECT NULL, '2025-12-31 00:00Z'::timestamptz + g * interval '3 s', -0.0, 0, 3, g, 1.000, true, '1 month' FROM generate_series(1, 40) g;
INSERT INTO v SELECT * FROM h OFFSET 8000 LIMIT 45;
INSERT INTO v SELECT * FROM h OFFSET 8045;
SELECT * FROM answers() WHERE NOT right_everywhere;
CALL varve.compact('v');
SELECT * FROM answers() WHERE NOT right_everywhere;
DELETE FROM h WHERE id % 10 = 3; DELETE FROM v WHERE id % 10 = 3;
UPDATE h SET level = level + 1 WHERE id % 100 = 7; UPDATE v SET level = level + 1 WHERE id % 100 = 7;
SELECT * FROM answers() WHERE NOT right_everywhere;
-- A series is found by the index, with rows of the tail; so are times.
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT count(*), sum(id), max(host) FROM v WHERE host = 'h1';
SELECT same('SELECT host, count(*), sum(id) FROM {t} WHERE host IN (''h1'', ''h6'') AND time < ''2026-01-01 00:01Z'' GROUP BY host');
SELECT same('SELECT host, count(*), sum(id) FROM {t} WHERE host IS NULL AND time > ''2025-12-31 00:01Z'' GROUP BY host');
SELECT same('SELECT count(*), sum(id) FROM {t} WHERE time > ''2026-01-01 00:01Z'' AND time <= ''2026-01-01 02:01Z''');
-- Changes of this transaction, written or not, and a column that came later.
ALTER TABLE h ADD COLUMN late int DEFAULT 5; ALTER TABLE v ADD COLUMN late int DEFAULT 5;
BEGIN;
DELETE FROM h WHERE host = 'h2'; DELETE FROM v WHERE host = 'h2';
INSERT INTO h SELECT 'new', now() + g * interval '1 s', 1, 2, g, g, g, true, '1 s', g FROM generate_series(1, 100) g;
INSERT INTO v SELECT 'new', now() + g * interval '1 s', 1, 2, g, g, g, true, '1 s', g FROM generate_series(1, 100) g;
SAVEPOINT a;
UPDATE h SET ok = NOT ok WHERE level = 4; UPDATE v SET ok = NOT ok WHERE level = 4;
SELECT * FROM answers() WHERE NOT right_everywhere;
SELECT same('SELECT late, count(*), sum(late) FROM {t} GROUP BY late');
ROLLBACK TO a;
SELECT * FROM answers() WHERE NOT right_everywhere;
ROLLBACK;
SELECT * FROM answers() WHERE NOT right_everywhere;
-- Groups that do not fit into memory.
SET work_mem = '64kB';
SELECT same('SELECT id % 3000, host, count(*), sum(price) FROM {t} GROUP BY 1, 2');
RESET work_mem;

-- Parameters, rescans, cursors, views, row security.
PREPARE p(int, timestamptz) AS SELECT host, count(*), max(level + $1) FROM v WHERE level > $1 AND time > $2 GROUP BY host ORDER BY host;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE p(3, '2026-01-01 03:00Z');
EXECUTE p(3, '2026-01-01 03:00Z');
EXECUTE p(8, '2026-01-01 04:00Z');
RESET plan_cache_mode;
EXPLAIN (COSTS OFF) SELECT x, n FROM (VALUES (1), (5), (20)) list(x), LATERAL (SELECT count(*) AS n FROM v WHERE level = x) counted;
SELECT x, n FROM (VALUES (1), (5), (20)) list(x), LATERAL (SELECT count(*) AS n FROM v WHERE level = x) counted ORDER BY x;
SELECT x, n FROM (VALUES (1), (5), (20)) list(x), LATERAL (SELECT count(*) AS n FROM h WHERE level = x) counted ORDER BY x;
SELECT same('SELECT count(*) FROM {t} WHERE level > (SELECT avg(level) FROM {t})');
BEGIN;
DECLARE c CURSOR FOR SELECT host, count(*) FROM v GROUP BY host ORDER BY host;
FETCH 2 FROM c;
DELETE FROM v;
FETCH 2 FROM c;
ROLLBACK;
CREATE VIEW by_hour WITH (security_barrier) AS SELECT time_bucket('1 hour', time) AS hour, host, count(*) FROM v WHERE level > 2 GROUP BY 1, 2;
SET enable_sort = off;
EXPLAIN (COSTS OFF) SELECT * FROM by_hour WHERE host = 'h1';
RESET enable_sort;
CREATE ROLE aggregate_reader;
GRANT SELECT ON v TO aggregate_reader;
ALTER TABLE v ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON v USING (host = 'h1');
CREATE FUNCTION leak(int) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN IF $1 = 2 THEN RAISE NOTICE 'seen'; END IF; RETURN true; END $$;
SET ROLE aggregate_reader;
EXPLAIN (COSTS OFF) SELECT count(*), min(host), max(host) FROM v WHERE leak(level) AND level = 9;
SELECT count(*) > 0 AS some, min(host), max(host) FROM v WHERE leak(level) AND host <> 'h1';
SELECT count(*) > 0 AS some, min(host), max(host) FROM v;
RESET ROLE;
ALTER TABLE v DISABLE ROW LEVEL SECURITY;
DROP TABLE v CASCADE;
DROP ROLE aggregate_reader;

-- Errors are core's: sums that overflow, divisions by zero in rows that are selected only.
CREATE TABLE o(t timestamptz, a float8, b float8, c int) USING varve;
INSERT INTO o SELECT '2026-01-01 00:00Z'::timestamptz + g * interval '1 s', 1e308, CASE g % 2 WHEN 0 THEN 1e200 ELSE -1e200 END, g FROM generate_series(1, 60) g;
SELECT sum(a) FROM o;
SELECT avg(b) FROM o;
SELECT sum(b) FROM o;
SELECT sum(60 / (c - 7)) FROM o;
SELECT sum(60 / (c - 7)) FROM o WHERE c > 7;
SELECT 60 / (c - 7), count(*) FROM o WHERE c > 40 GROUP BY 1 ORDER BY 1;
DROP TABLE o, h CASCADE;
DROP FUNCTION same, leak;

-- A chunk of which an updated row is all that was left keeps its header, and has no payload any more.
CREATE TABLE gone(t timestamptz, k int, x int) USING varve;
CREATE INDEX ON gone USING varve (k, t);
INSERT INTO gone SELECT '2026-01-01 00:00Z'::timestamptz + g * interval '1 s', g % 3, g FROM generate_series(1, 300) g;
CALL varve.compact('gone');
UPDATE gone SET x = x + 1000 WHERE k = 1;
SELECT count(*), sum(x), min(x) FROM gone WHERE x % 2 = 0;
CALL varve.compact('gone');
SELECT k, count(*), sum(x) FILTER (WHERE x > 10) FROM gone WHERE x % 2 = 0 GROUP BY k ORDER BY k;
DROP TABLE gone;

-- Groups by a column that a condition makes constant have no order: core sorts by at least one column.
CREATE TABLE one(t timestamptz NOT NULL, k int NOT NULL, x int) USING varve;
CREATE INDEX ON one USING varve (k, t);
INSERT INTO one SELECT '2026-01-01 00:00Z'::timestamptz + g * interval '1 s', g % 3, g FROM generate_series(1, 300) g;
CALL varve.compact('one');
ANALYZE one;
SET enable_hashagg = off;
EXPLAIN (COSTS OFF) SELECT k, count(*), sum(x) FROM one WHERE k = 1 GROUP BY k HAVING count(*) > 1;
SELECT k, count(*), sum(x) FROM one WHERE k = 1 GROUP BY k HAVING count(*) > 1;
SELECT k, x, count(*) FROM one WHERE k = 1 AND x = 7 GROUP BY k, x;
SELECT k, x, count(*) FROM one WHERE k = 1 AND x = 8 GROUP BY k, x;
SELECT k, time_bucket('1 min', t) AS minute, count(*) FROM one WHERE k = 1 GROUP BY k, minute ORDER BY minute DESC LIMIT 2;
RESET enable_hashagg;
DROP TABLE one;

-- States that are objects with memory of their own, which the transition function changes in place.
CREATE AGGREGATE ids(bigint) (sfunc = array_append, stype = bigint[], combinefunc = array_cat, parallel = safe);
CREATE TABLE objects (time timestamptz NOT NULL, n bigint) USING varve;
CREATE INDEX ON objects USING varve (time);
INSERT INTO objects SELECT '2026-01-01'::timestamptz + i * interval '1 s', i FROM generate_series(1, 3000) i;
CALL varve.compact('objects');
INSERT INTO objects SELECT '2026-01-01'::timestamptz + i * interval '1 s', i FROM generate_series(3001, 3100) i;
EXPLAIN (COSTS OFF) SELECT ids(n) FROM objects;
SELECT ARRAY(SELECT unnest(ids) ORDER BY 1) = ARRAY(SELECT n FROM objects ORDER BY n) FROM (SELECT ids(n) FROM objects) q;
SELECT count(*), sum(cardinality(ids)),
    bool_and(ARRAY(SELECT unnest(ids) ORDER BY 1) = ARRAY(SELECT n FROM objects o WHERE time_bucket('1 minute', o.time) = b ORDER BY n))
FROM (SELECT time_bucket('1 minute', time) AS b, ids(n) FROM objects GROUP BY b) q;
DROP TABLE objects;
DROP AGGREGATE ids(bigint);
