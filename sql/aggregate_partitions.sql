-- Aggregates over partitioned tables: partitions that are varve tables are read by columns, others by core, as of a heap.
SET timezone = 'UTC';
SET varve.batch_rows = 200;
SET max_parallel_workers_per_gather = 0;
-- Core's scans, where the node is no help.
SET varve.enable_scan = off;
CREATE TABLE h(host int NOT NULL, time timestamptz NOT NULL, a float8, n int, s text) PARTITION BY RANGE (time);
CREATE TABLE h_all PARTITION OF h DEFAULT USING heap;
CREATE TABLE v(host int NOT NULL, time timestamptz NOT NULL, a float8, n int, s text) PARTITION BY RANGE (time);
CREATE TABLE v_old PARTITION OF v FOR VALUES FROM (MINVALUE) TO ('2026-01-04') USING varve;
CREATE INDEX ON v_old USING varve (host, time);
-- Columns in another order, one of them dropped.
CREATE TABLE v_mid(s text, gone int, n int, a float8, time timestamptz NOT NULL, host int NOT NULL) USING varve;
ALTER TABLE v_mid DROP COLUMN gone;
CREATE INDEX ON v_mid USING varve (host, time);
ALTER TABLE v ATTACH PARTITION v_mid FOR VALUES FROM ('2026-01-04') TO ('2026-01-08');
-- Partitions of a partition: of varve, of heap, and one without any row.
CREATE TABLE v_new PARTITION OF v FOR VALUES FROM ('2026-01-08') TO ('2026-02-01') PARTITION BY LIST (host);
CREATE TABLE v_new_even PARTITION OF v_new FOR VALUES IN (0, 2, 4, 6, 8) USING varve;
CREATE TABLE v_new_odd PARTITION OF v_new FOR VALUES IN (1, 3, 5, 7, 9) USING heap;
CREATE TABLE v_new_none PARTITION OF v_new FOR VALUES IN (99) USING varve;
CREATE INDEX ON v_new_even USING varve (host, time);
CREATE TABLE v_rest PARTITION OF v DEFAULT USING heap;
INSERT INTO h SELECT i % 10, '2025-12-31'::timestamptz + i / 10 * interval '10 min', CASE WHEN i % 13 > 0 THEN i % 1000 / 4.0 END, i % 100, 'x' || i % 7
    FROM generate_series(1, 20000) i;
INSERT INTO h SELECT 3, '2027-01-01', 5, 5, 'late';
INSERT INTO v SELECT * FROM h WHERE n < 70;
CALL varve.compact('v_old');
CALL varve.compact('v_mid');
INSERT INTO v SELECT * FROM h WHERE n BETWEEN 70 AND 89;
SET varve.batch_rows = 100000;
INSERT INTO v SELECT * FROM h WHERE n > 89;
RESET varve.batch_rows;
UPDATE v SET a = -1 WHERE n = 11;
UPDATE h SET a = -1 WHERE n = 11;
DELETE FROM v WHERE n = 7;
DELETE FROM h WHERE n = 7;
VACUUM ANALYZE;

-- Runs a query over both tables, with and without core's own aggregation of partitions; true where both find the same and the node did it.
CREATE FUNCTION same(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    line text; found text; other text; node bool; partitionwise text;
BEGIN
    EXECUTE format('SELECT string_agg(d::text, '','' ORDER BY d::text) FROM (%s) d', replace(query, '{t}', 'h')) INTO found;
    FOREACH partitionwise IN ARRAY ARRAY['off', 'on'] LOOP
        PERFORM set_config('enable_partitionwise_aggregate', partitionwise, true);
        node := false;
        FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || replace(query, '{t}', 'v') LOOP
            node := node OR line LIKE '%Custom Scan (VarveAggregate)%';
        END LOOP;
        IF NOT node THEN RAISE NOTICE 'without the node: %', query; END IF;
        EXECUTE format('SELECT string_agg(d::text, '','' ORDER BY d::text) FROM (%s) d', replace(query, '{t}', 'v')) INTO other;
        IF found IS DISTINCT FROM other THEN RAISE NOTICE 'partitionwise %: % instead of %', partitionwise, other, found; END IF;
    END LOOP;
    RETURN found IS NOT DISTINCT FROM other;
END $$;
CREATE TABLE queries(number serial, query text);
INSERT INTO queries(query) VALUES
    ('SELECT count(*), count(a), sum(n), max(a), min(s), max(time), avg(n) FROM {t}'),
    ('SELECT host, count(*), max(a), avg(n), max(s) FROM {t} GROUP BY host'),
    ('SELECT s, n % 10, count(*), min(a) FROM {t} GROUP BY 1, 2 HAVING count(*) > 20'),
    ('SELECT time_bucket(''1 day'', time), host, max(a) FROM {t} WHERE time >= ''2026-01-02 05:00'' AND time < ''2026-01-09'' GROUP BY 1, 2'),
    ('SELECT floor(extract(epoch from time) / 3600) * 3600 AS "time", avg(n) FROM {t} WHERE time BETWEEN ''2026-01-03T12:00:00Z'' AND ''2026-01-04T12:00:00Z'' GROUP BY 1 ORDER BY 1'),
    ('SELECT date_trunc(''hour'', time) AS "time", s AS metric, count(*) FROM {t} WHERE time BETWEEN ''2026-01-07T12:00:00Z'' AND ''2026-01-08T12:00:00Z'' GROUP BY 1, 2 ORDER BY 1, 2'),
    ('SELECT count(*), max(a) FROM {t} WHERE host IN (3, 4) AND a > 100 OR n = 12'),
    ('SELECT host, first(n, time), last(a, time), percentile_cont(0.5) WITHIN GROUP (ORDER BY n) IS NULL FROM {t} WHERE false GROUP BY host'),
    ('SELECT host, first(n, time), last(n, time) FROM {t} GROUP BY host'),
    ('SELECT time, count(*) FROM {t} WHERE time < ''2026-01-01 02:00'' GROUP BY time'),
    ('SELECT count(*) FILTER (WHERE a IS NULL), sum(n * 2), max(coalesce(a, 0)) FROM {t} WHERE s <> ''x3'''),
    ('SELECT host FROM {t} GROUP BY host'),
    ('SELECT count(*), sum(n) FROM {t} WHERE time > now() - interval ''100 years'''),
    ('SELECT time_bucket(''1 hour'', time) AS t, max(a) FROM {t} GROUP BY 1 ORDER BY 1 DESC LIMIT 5'),
    ('SELECT o, (SELECT count(*) FROM {t} WHERE host = o AND n < o * 10) FROM generate_series(1, 5) o'),
    ('SELECT x.m, count(*) FROM (SELECT host, max(a) AS m FROM {t} GROUP BY host) x GROUP BY 1');
SELECT number, same(query) FROM queries WHERE number <> 8 ORDER BY number;
-- In several processes.
SET max_parallel_workers_per_gather = 2;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SELECT number, same(query) FROM queries WHERE number <> 8 ORDER BY number;
EXPLAIN (COSTS OFF) SELECT host, max(n) FROM v GROUP BY host;
SET enable_parallel_append = off;
SELECT number, same(query) FROM queries WHERE number < 8 ORDER BY number;
RESET enable_parallel_append;
SET max_parallel_workers_per_gather = 0;
-- An ordered-set aggregate has no first step: core reads rows.
SELECT same(query) FROM queries WHERE number = 8;

-- What a query names is left out when it is planned; what parameters name, when it starts, or for each of their values.
EXPLAIN (COSTS OFF) SELECT max(a) FROM v WHERE time >= '2026-01-05' AND time < '2026-01-07';
SET plan_cache_mode = force_generic_plan;
PREPARE newest(timestamptz) AS SELECT count(*), max(n) FROM v WHERE time >= $1;
EXPLAIN (COSTS OFF) EXECUTE newest('2026-01-09');
EXECUTE newest('2026-01-09');
EXECUTE newest('2025-01-09');
SELECT count(*), max(n) FROM h WHERE time >= '2026-01-09';
SELECT count(*), max(n) FROM h WHERE time >= '2025-01-09';
CREATE FUNCTION scans(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
        IF line LIKE '%Scan%' THEN RETURN NEXT line; END IF;
    END LOOP;
END $$;
SELECT scans('SELECT d, (SELECT count(*) FROM v WHERE time >= d AND time < d + interval ''1 day'')
    FROM generate_series(''2026-01-02''::timestamptz, ''2026-01-05'', ''1 day'') d');
SELECT d, (SELECT count(*) FROM v WHERE time >= d AND time < d + interval '1 day') = (SELECT count(*) FROM h WHERE time >= d AND time < d + interval '1 day') AS same
    FROM generate_series('2026-01-02'::timestamptz, '2026-01-05', '1 day') d;
RESET plan_cache_mode;

-- Policies of the partitioned table count, leaks come behind them.
CREATE ROLE varve_partitions_reader;
GRANT SELECT ON v, h TO varve_partitions_reader;
ALTER TABLE v ENABLE ROW LEVEL SECURITY;
ALTER TABLE h ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON v USING (host < 3);
CREATE POLICY few ON h USING (host < 3);
SET ROLE varve_partitions_reader;
SELECT same('SELECT host, count(*), sum(n) FROM {t} WHERE n > 10 GROUP BY host');
EXPLAIN (COSTS OFF) SELECT host, count(*) FROM v WHERE n > 10 GROUP BY host;
RESET ROLE;

-- A transaction's own changes, and rows that move to another partition.
BEGIN;
UPDATE v SET time = time + interval '3 days' WHERE n = 50;
UPDATE h SET time = time + interval '3 days' WHERE n = 50;
DELETE FROM v WHERE host = 4 AND n = 24;
DELETE FROM h WHERE host = 4 AND n = 24;
SELECT number, same(query) FROM queries WHERE number < 8 ORDER BY number;
ROLLBACK;
-- A partition that goes, and one that comes, under a plan that is kept.
SET plan_cache_mode = force_generic_plan;
PREPARE counted AS SELECT count(*), sum(n) FROM v;
EXECUTE counted;
ALTER TABLE v DETACH PARTITION v_mid;
EXECUTE counted;
ALTER TABLE v ATTACH PARTITION v_mid FOR VALUES FROM ('2026-01-04') TO ('2026-01-08');
EXECUTE counted;
DROP TABLE h, v, queries;
DROP FUNCTION same, scans;
DROP ROLE varve_partitions_reader;
