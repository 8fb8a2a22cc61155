-- What the planner is told of a table with chunks: statistics of periodic data, rows of tables of many shapes, and what an index costs.
SET max_parallel_workers_per_gather = 0;
CREATE FUNCTION estimated(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
    RETURN plan->0->'Plan'->>'Plan Rows';
END $$;
-- As many times too many, or too few.
CREATE FUNCTION error_of(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE found float8;
BEGIN
    EXECUTE format('SELECT count(*) FROM (%s) q', query) INTO found;
    RETURN greatest(estimated(query) / greatest(found, 1), greatest(found, 1) / estimated(query));
END $$;

-- Values that repeat every ten rows. A stride of the sample must not meet the same ones again and again.
CREATE TABLE periodic (time timestamptz NOT NULL, sensor int, slow int) USING varve WITH (autovacuum_enabled = off);
INSERT INTO periodic SELECT '2026-01-01'::timestamptz + i * interval '1 s', i % 10, i / 1000 FROM generate_series(1, 100000) i;
ANALYZE periodic;
SELECT attname, n_distinct::int, correlation > 0.99 AS ascends FROM pg_stats WHERE tablename = 'periodic' AND attname <> 'slow' ORDER BY 1;
SELECT count(*) AS sensors, max(error_of(format('SELECT FROM periodic WHERE sensor = %s', s))) < 1.2 AS all_near
FROM generate_series(0, 9) s;
-- One series in many chunks, that compact puts wherever there is room; and newer rows in the tail.
CREATE INDEX periodic_series ON periodic USING varve (sensor, time);
CALL varve.compact('periodic');
INSERT INTO periodic SELECT '2026-01-02 04:00:00Z'::timestamptz + i * interval '1 s', i % 10, 101 FROM generate_series(1, 90) i;
ANALYZE periodic;
SELECT attname, n_distinct BETWEEN 95 AND 105 OR n_distinct < -0.9 AS is_near, correlation > 0.99 AS ascends
FROM pg_stats WHERE tablename = 'periodic' AND attname <> 'sensor' ORDER BY 1;
SELECT max(error_of(format('SELECT FROM periodic WHERE sensor = %s', s))) < 1.2 AS all_near FROM generate_series(0, 9) s;
-- Rows of the tail have the same chance as those of chunks: they are a hundredth here, and nearly all of page one.
SELECT error_of('SELECT FROM periodic WHERE slow = 50') < 1.3 AS near;
-- A table that keeps its rows in the tail is numbered by place, as a heap: its btree can be used.
CREATE TABLE tail_only (id int PRIMARY KEY, time timestamptz) USING varve WITH (autovacuum_enabled = off);
INSERT INTO tail_only SELECT 40001 - i, '2026-01-01'::timestamptz + i * interval '1 s' FROM generate_series(1, 40000) i;
ANALYZE tail_only;
SELECT attname, correlation < -0.99 AS descends FROM pg_stats WHERE tablename = 'tail_only' ORDER BY 1;

-- Numbers of rows. A tail has some hundred on a page, a chunk of constants tens of thousands.
CREATE PROCEDURE make_table(name text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE %I (time timestamptz NOT NULL, host int NOT NULL, v float8, w float8) USING varve WITH (autovacuum_enabled = off)', name);
    EXECUTE format('CREATE INDEX ON %I USING varve (host, time)', name);
    INSERT INTO shapes VALUES (name);
END $$;
CREATE PROCEDURE load(name text, series int, count int, from_second int DEFAULT 0) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('INSERT INTO %I SELECT ''2026-01-01''::timestamptz + (%s + i / %s) * interval ''1 s'', i %% %3$s, i %% 7, hashint4(i) / 7.0
        FROM generate_series(1, %4$s) i', name, from_second, series, count);
END $$;
CREATE PROCEDURE load_constant(name text, count int, from_second int DEFAULT 0) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('INSERT INTO %I SELECT ''2026-01-01''::timestamptz + (%s + i) * interval ''1 s'', 1, 1, 1 FROM generate_series(1, %s) i',
        name, from_second, count);
END $$;
CREATE PROCEDURE trickle(name text, times int, from_second int) LANGUAGE plpgsql AS $$
BEGIN
    FOR n IN 1..times LOOP
        CALL load(name, 99, 99, from_second + n);
    END LOOP;
END $$;
CREATE TABLE shapes (name text);
CALL make_table('fresh');
CALL load('fresh', 100, 100000);
CALL make_table('compacted');
CALL load('compacted', 100, 100000);
CALL varve.compact('compacted');
CALL make_table('chunks_then_tail');
CALL load('chunks_then_tail', 100, 100000);
CALL varve.compact('chunks_then_tail');
CALL trickle('chunks_then_tail', 80, 1001);
CALL make_table('dense_then_tail');
CALL load_constant('dense_then_tail', 200000);
CALL trickle('dense_then_tail', 120, 200001);
CALL make_table('tail_then_dense');
CALL trickle('tail_then_dense', 120, 0);
CALL load_constant('tail_then_dense', 200000, 1000);
CALL make_table('short_series');
CALL load('short_series', 10000, 100000);
CALL make_table('short_series_compacted');
CALL load('short_series_compacted', 10000, 100000);
CALL varve.compact('short_series_compacted');
CALL make_table('huge_chunks');
CALL load_constant('huge_chunks', 400000);
CALL make_table('huge_chunks_compacted');
CALL load_constant('huge_chunks_compacted', 400000);
CALL varve.compact('huge_chunks_compacted');
CALL make_table('deleted');
CALL load('deleted', 100, 100000);
DELETE FROM deleted WHERE host < 50;
CALL make_table('deleted_after_compact');
CALL load('deleted_after_compact', 100, 100000);
CALL varve.compact('deleted_after_compact');
DELETE FROM deleted_after_compact WHERE host < 50;
CALL varve.compact('deleted_after_compact');
CALL make_table('loaded_into_holes');
CALL load('loaded_into_holes', 100, 100000);
DELETE FROM loaded_into_holes WHERE host > 0;
VACUUM (TRUNCATE off) loaded_into_holes;
CALL load('loaded_into_holes', 100, 200000, 1001);
-- Loads of different shapes one after the other, with a series index and without: few pages have most of the rows.
CALL make_table('different_loads');
CALL load('different_loads', 10, 200000);
CALL load_constant('different_loads', 200000, 40000);
CALL load('different_loads', 100, 100000, 300000);
CALL load_constant('different_loads', 300000, 400000);
CALL make_table('without_index');
DROP INDEX without_index_host_time_idx;
CALL load('without_index', 100, 200000);
CALL load_constant('without_index', 400000, 4000);
-- Dense loads into holes of a file with few other rows, after VACUUM and after compact; and between others of their like.
CREATE PROCEDURE make_holes(name text) LANGUAGE plpgsql AS $$
BEGIN
    CALL make_table(name);
    CALL trickle(name, 300, 0);
    EXECUTE format('DELETE FROM %I WHERE time < ''2026-01-01 00:04:00Z''', name);
END $$;
CALL make_holes('dense_in_holes');
VACUUM (TRUNCATE off) dense_in_holes;
CALL load_constant('dense_in_holes', 300000, 1000);
CALL make_holes('dense_in_compacted_holes');
ALTER TABLE dense_in_compacted_holes SET (vacuum_truncate = off);
CALL varve.compact('dense_in_compacted_holes');
CALL load_constant('dense_in_compacted_holes', 300000, 1000);
CALL make_holes('dense_in_analyzed_holes');
VACUUM (TRUNCATE off, ANALYZE) dense_in_analyzed_holes;
CALL load_constant('dense_in_analyzed_holes', 200000, 1000);
ANALYZE dense_in_analyzed_holes;
CALL load_constant('dense_in_analyzed_holes', 200000, 300000);
-- Few changes of dense chunks do not look like loads.
CALL make_table('dense_then_changed');
CALL load_constant('dense_then_changed', 300000);
CALL trickle('dense_then_changed', 120, 300001);
VACUUM dense_then_changed;
UPDATE dense_then_changed SET v = 2 WHERE time = '2026-01-01 01:00:00Z' AND host = 1;
DELETE FROM dense_then_changed WHERE time = '2026-01-02 01:00:00Z' AND host = 1;
-- What a session has loaded it knows at once, in its own transaction too.
CALL make_holes('own');
VACUUM (TRUNCATE off) own;
BEGIN;
CALL load_constant('own', 300000, 1000);
SELECT error_of('SELECT FROM own') < 1.1 AS near;
COMMIT;
-- Each backend remembers for a moment.
\c -
SET max_parallel_workers_per_gather = 0;
SELECT name, error_of(format('SELECT FROM %I', name)) AS error FROM shapes WHERE error_of(format('SELECT FROM %I', name)) > 1.5;
-- After a crash, and on a standby, the server has counted nothing.
SELECT pg_stat_reset();
\c -
SET max_parallel_workers_per_gather = 0;
SELECT name, error_of(format('SELECT FROM %I', name)) AS error FROM shapes WHERE error_of(format('SELECT FROM %I', name)) > 1.5;
VACUUM;
SELECT name, error_of(format('SELECT FROM %I', name)) AS error FROM shapes WHERE error_of(format('SELECT FROM %I', name)) > 1.1;
ANALYZE;
SELECT name, error_of(format('SELECT FROM %I', name)) AS error FROM shapes WHERE error_of(format('SELECT FROM %I', name)) > 1.1;
-- Statistics are no reason to believe in them for ever.
CALL trickle('fresh', 80, 10000);
CALL load_constant('huge_chunks', 400000, 500000);
\c -
SET max_parallel_workers_per_gather = 0;
SELECT name, error_of(format('SELECT FROM %I', name)) AS error FROM shapes WHERE error_of(format('SELECT FROM %I', name)) > 1.5;

-- An index by time alone has all chunks under NULL, and tests all rows: it is taken for nothing that the other one does.
CREATE TABLE two (time timestamptz NOT NULL, host int NOT NULL, v float8, w float8) USING varve WITH (autovacuum_enabled = off);
CREATE INDEX two_key ON two USING varve (host, time);
CALL load('two', 400, 400000);
CALL varve.compact('two');
CREATE INDEX two_time ON two USING varve (time);
ANALYZE two;
SET varve.enable_scan = off;
EXPLAIN (COSTS off) SELECT * FROM two WHERE time >= '2026-01-01 00:16:00Z' AND host < 100;
RESET varve.enable_scan;
EXPLAIN (COSTS off) SELECT h, l.* FROM generate_series(1, 20) h, LATERAL (SELECT * FROM two WHERE host = h AND time = '2026-01-01 00:10:00Z') l;
EXPLAIN (COSTS off) SELECT h, l.* FROM generate_series(1, 20) h, LATERAL (SELECT * FROM two WHERE host = h ORDER BY time DESC LIMIT 1) l;
-- Where it has the rows themselves it is good for its order.
CREATE TABLE by_time (time timestamptz NOT NULL, host int NOT NULL, v float8) USING varve WITH (autovacuum_enabled = off);
CREATE INDEX by_time_only ON by_time USING varve (time);
INSERT INTO by_time SELECT '2026-01-01'::timestamptz + i * interval '1 s', i % 100, i FROM generate_series(1, 200000) i;
CALL varve.compact('by_time');
ANALYZE by_time;
EXPLAIN (COSTS off) SELECT * FROM by_time ORDER BY time DESC LIMIT 10;
EXPLAIN (COSTS off) SELECT * FROM by_time WHERE time >= '2026-01-01 00:16:00Z' AND time < '2026-01-01 00:17:00Z';

DROP TABLE periodic, tail_only, two, by_time, fresh, compacted, chunks_then_tail, dense_then_tail, tail_then_dense, short_series,
    short_series_compacted, huge_chunks, huge_chunks_compacted, deleted, deleted_after_compact, loaded_into_holes, dense_in_holes,
    dense_in_compacted_holes, dense_in_analyzed_holes, dense_then_changed, own, different_loads, without_index, shapes;
DROP PROCEDURE make_holes, make_table, load, load_constant, trickle;
DROP FUNCTION estimated, error_of;
