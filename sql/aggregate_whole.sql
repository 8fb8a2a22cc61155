-- Groups that the node finishes itself: without a step of core's above it, each of them once, whatever memory there is.
SET timezone = 'UTC';
SET max_parallel_workers_per_gather = 0;
CREATE TABLE h(host int, name text COLLATE "C", time timestamptz NOT NULL, usage float8, idle real, level int, small int2, id bigint, ok bool);
CREATE TABLE v(LIKE h) USING varve;
CREATE INDEX ON v USING varve (host, time);
INSERT INTO h SELECT g % 9, 'n' || g % 400, '2026-01-01 00:00Z'::timestamptz + g / 9 * interval '10 s', CASE WHEN g % 13 > 0 THEN (g % 101) / 4.0 END, g % 16 / 4.0,
    g % 10, g % 7, g * 1000000007::bigint, g % 3 = 0 FROM generate_series(1, 30000) g;
INSERT INTO v SELECT * FROM h;
CALL varve.compact('v');
INSERT INTO h SELECT 3, 'late', '2026-01-01 02:00Z'::timestamptz + g * interval '7 s', g, 1, g, 1, g, NULL FROM generate_series(1, 50) g;
INSERT INTO v SELECT * FROM h WHERE name = 'late';
-- Names: long ones are compressed, or lie elsewhere.
CREATE TABLE names(id int, pad text, label text, size float8, found date);
INSERT INTO names SELECT n % 12, CASE WHEN n % 2 = 0 THEN repeat('x', n) END, 'label ' || n % 5, n / 2.0, '2026-01-01'::date + n FROM generate_series(1, 60) n;
ALTER TABLE names ADD COLUMN later text DEFAULT 'late';
ANALYZE h, v, names;

-- Runs a query on both tables, once as it is and once as a plan that was made for more memory than there is; how many rows differ, and whether the node
-- finishes groups.
CREATE FUNCTION compare(query text) RETURNS TABLE (differ bigint, differ_small bigint, finished bool) LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    SET LOCAL plan_cache_mode = force_generic_plan;
    query := format('SELECT d::text AS t FROM (%s) d', query);
    EXECUTE 'PREPARE whole AS ' || replace(query, '{t}', 'v');
    finished := true;
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) EXECUTE whole' LOOP
        finished := finished AND line !~ '^ *(->  )?(Finalize |Partial )?(Hash|Group)?Aggregate';
    END LOOP;
    EXECUTE 'CREATE TEMP TABLE of_heap AS ' || replace(query, '{t}', 'h');
    EXECUTE 'CREATE TEMP TABLE of_varve AS EXECUTE whole';
    SET LOCAL work_mem = '64kB';
    SET LOCAL hash_mem_multiplier = 1;
    EXECUTE 'CREATE TEMP TABLE of_small AS EXECUTE whole';
    RESET work_mem;
    RESET hash_mem_multiplier;
    SELECT count(*) INTO differ FROM ((TABLE of_heap EXCEPT ALL TABLE of_varve) UNION ALL (TABLE of_varve EXCEPT ALL TABLE of_heap)) d;
    SELECT count(*) INTO differ_small FROM ((TABLE of_heap EXCEPT ALL TABLE of_small) UNION ALL (TABLE of_small EXCEPT ALL TABLE of_heap)) d;
    DROP TABLE of_heap, of_varve, of_small;
    DEALLOCATE whole;
    RETURN NEXT;
END $$;

EXPLAIN (COSTS OFF) SELECT time_bucket('1 hour', time) AS hour, host, max(usage) + 1, avg(level) FROM v WHERE level > 3 GROUP BY hour, host ORDER BY hour DESC, host;
EXPLAIN (COSTS OFF, VERBOSE) SELECT 1 + sum(id), count(*) FILTER (WHERE ok) FROM v;
SELECT * FROM compare('SELECT count(*), count(usage), sum(level), sum(small), avg(level), avg(small), sum(id), avg(id), min(usage), max(idle), bool_and(ok), min(time), sum(usage), round(avg(usage)::numeric, 9) a, round(stddev(usage)::numeric, 6) b, round(var_pop(idle)::numeric, 6) c FROM {t}');
SELECT * FROM compare('SELECT host, time_bucket(''1 minute'', time) b, count(*), max(usage), sum(id), avg(id), avg(level), round(avg(idle)::numeric, 6) a, round(stddev_samp(usage)::numeric, 6) s FROM {t} GROUP BY 1, 2');
SELECT * FROM compare('SELECT name, host, count(*), max(level), avg(small) FROM {t} GROUP BY 1, 2');
SELECT * FROM compare('SELECT time, sum(level + 1), avg(id) FILTER (WHERE ok), max(level) FILTER (WHERE name = ''n7'') FROM {t} WHERE host > 2 GROUP BY 1');
SELECT * FROM compare('SELECT ok, small, host FROM {t} GROUP BY 1, 2, 3');
SELECT * FROM compare('SELECT name FROM {t} WHERE level % 3 = 1 GROUP BY name');
-- In order, whatever memory there is.
PREPARE ordered AS SELECT time_bucket('10 s', time) b, host, count(*) FROM v GROUP BY 1, 2 ORDER BY 2 DESC, 1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE ordered;
SET work_mem = '64kB';
CREATE TEMP TABLE result AS EXECUTE ordered;
RESET work_mem;
RESET plan_cache_mode;
SELECT count(*), bool_and(r.host = s.host AND r.b = s.b) FROM (SELECT row_number() OVER () AS place, * FROM result) r
    JOIN (SELECT row_number() OVER (ORDER BY host DESC, b) AS place, * FROM result) s USING (place);
-- With too little memory the table is read again for each share of the groups, of which there are no more than that takes, though nearly all rows are in
-- chunks and nearly all places are rows of the tail.
CREATE FUNCTION times_read(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE line text; shown float8;
BEGIN
    SET LOCAL plan_cache_mode = force_generic_plan;
    SET LOCAL work_mem = '64MB';
    EXECUTE 'PREPARE whole AS ' || query;
    EXECUTE 'EXPLAIN EXECUTE whole';
    SET LOCAL work_mem = '64kB';
    SET LOCAL hash_mem_multiplier = 1;
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF, COSTS OFF) EXECUTE whole' LOOP
        shown := coalesce(substring(line FROM 'Tail Rows: (\d+)')::float8, shown);
    END LOOP;
    RESET work_mem;
    RESET hash_mem_multiplier;
    DEALLOCATE whole;
    RETURN shown / 600;
END $$;
CREATE TABLE uneven(host int, time timestamptz NOT NULL, PRIMARY KEY (host, time)) USING varve;
INSERT INTO uneven SELECT g % 9, '2026-01-01 00:00Z'::timestamptz + g * interval '10 s' FROM generate_series(1, 30000) g;
CALL varve.compact('uneven');
SET varve.fresh_chunks = 0;
INSERT INTO uneven SELECT g % 9, '2026-02-01 00:00Z'::timestamptz + g * interval '10 s' FROM generate_series(1, 600) g;
RESET varve.fresh_chunks;
ANALYZE uneven;
SELECT n > 1 AS again, n < 300 AS seldom FROM times_read('SELECT host, time, count(*) FROM uneven WHERE host IN (0, 1, 2, 3, 4, 5, 6, 7, 8) GROUP BY 1, 2') n;
-- Without rows there is one group still, if there are no columns.
SELECT count(*), max(level), sum(id), avg(usage), avg(level), stddev(usage) FROM v WHERE host = 77;
SELECT count(*), max(level) FROM v WHERE now() < '2000-01-01';
SELECT count(*), max(level) FROM v WHERE host IN (SELECT id FROM names WHERE label = 'none');
SELECT host, count(*) FROM v WHERE host = 77 GROUP BY host;
SELECT x, n, m FROM (VALUES (1), (50), (7)) list(x), LATERAL (SELECT count(*) AS n, max(level) AS m FROM v WHERE host = x) counted ORDER BY x;
-- What core finishes: conditions on groups, values that are equal without being the same, aggregates that the node knows nothing of, gaps.
EXPLAIN (COSTS OFF) SELECT host, count(*) FROM v GROUP BY host HAVING count(*) > 5 ORDER BY host;
EXPLAIN (COSTS OFF) SELECT usage, count(*) FROM v GROUP BY usage;
EXPLAIN (COSTS OFF) SELECT host, sum(id::numeric) FROM v GROUP BY host ORDER BY host;
EXPLAIN (COSTS OFF) SELECT time_bucket_gapfill('1 hour', time, '2026-01-01', '2026-01-02') b, max(level) FROM v GROUP BY b;
CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
EXPLAIN (COSTS OFF) SELECT name COLLATE blind, count(*) FROM v GROUP BY 1;

-- The other side of a join, read where it lies: by texts and numbers, with nulls, and columns that came later.
EXPLAIN (COSTS OFF) SELECT count(*) FROM v WHERE host IN (SELECT id FROM names WHERE label = 'label 3' AND later = 'late');
SELECT * FROM compare('SELECT time_bucket(''1 minute'', time) b, count(*), sum(id) FROM {t} WHERE host IN (SELECT id FROM names WHERE label IN (''label 3'', ''label 1'') AND later = ''late'') GROUP BY 1');
SELECT * FROM compare('SELECT host, count(*) FROM {t} WHERE host IN (SELECT id FROM names WHERE size < 9.5 AND found >= ''2026-01-05'' AND pad IS NULL) GROUP BY 1');
SELECT * FROM compare('SELECT host, count(*) FROM {t} WHERE host IN (SELECT id FROM names WHERE label = ''label 3'' OR size = 7 OR label LIKE ''%2'') GROUP BY 1');
SELECT * FROM compare('SELECT host, time, count(*), sum(level) FROM {t}, names WHERE host = names.id AND label <> ''label 2'' AND size > 3 GROUP BY 1, 2');
SELECT * FROM compare('SELECT count(*) FROM {t} WHERE host IN (SELECT id FROM names WHERE ctid > ''(0,5)'')');
SELECT * FROM compare('SELECT count(*) FROM {t} WHERE name IN (SELECT ''n'' || 4 FROM names)');
-- Names that are no plain texts; rows that are gone, and those of this transaction.
INSERT INTO names SELECT n, repeat(md5(n::text), 200), CASE n % 2 WHEN 0 THEN repeat('long', 900) ELSE (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 400) i) END FROM generate_series(5, 8) n;
SELECT * FROM compare('SELECT host, count(*) FROM {t} WHERE host IN (SELECT id FROM names WHERE label = repeat(''long'', 900)) GROUP BY 1');
CREATE TABLE texts(t text);
INSERT INTO texts VALUES ('n5'), (NULL), ('n6'), (repeat('n', 5000));
SELECT * FROM compare('SELECT name, count(*) FROM {t} WHERE name IN (SELECT t FROM texts) GROUP BY 1');
BEGIN;
DELETE FROM names WHERE id = 3;
UPDATE names SET label = 'label 3' WHERE id = 4;
INSERT INTO names VALUES (2, NULL, 'label 3');
SELECT host, count(*) FROM v WHERE host IN (SELECT id FROM names WHERE label = 'label 3') GROUP BY 1 ORDER BY 1;
ROLLBACK;
-- Parameters of the other side.
SELECT l, n FROM (VALUES ('label 1'), ('none'), ('label 4')) list(l), LATERAL (SELECT count(*) AS n FROM v WHERE host IN (SELECT id FROM names WHERE label = l)) counted ORDER BY l;
SELECT l, n FROM (VALUES ('label 1'), ('none'), ('label 4')) list(l), LATERAL (SELECT count(*) AS n FROM h WHERE host IN (SELECT id FROM names WHERE label = l)) counted ORDER BY l;
DROP COLLATION blind;
DROP TABLE h, v, names, texts, result, uneven;
DROP FUNCTION compare(text), times_read;
