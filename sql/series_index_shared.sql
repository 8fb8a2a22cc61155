-- Many short series in one chunk: found by search, beside the one before, and without opening the chunk for each; the same as in a heap.
SET enable_seqscan = off;
SET enable_sort = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
SET enable_material = off;
CREATE TABLE shared (time timestamptz NOT NULL, region int2 NOT NULL, host int NOT NULL, name text NOT NULL, v float8, note text)
    USING varve WITH (autovacuum_enabled = off);
CREATE TABLE shared_heap (LIKE shared) USING heap;
CREATE INDEX shared_ints ON shared USING varve (region, host, time);
INSERT INTO shared SELECT '2026-01-01'::timestamptz + (i / 2000) * interval '1 s', (i % 4) - 2, (i % 2000) - 1000, 'n' || i % 2000, i / 8.0,
    CASE WHEN i % 3 = 0 THEN 'x' || i END FROM generate_series(1, 12000) i WHERE i % 2000 < 1000 + i / 12;
INSERT INTO shared_heap SELECT * FROM shared;
CREATE FUNCTION differences(query text) RETURNS TABLE (side text, what text) LANGUAGE plpgsql AS $$
DECLARE on_varve text[]; on_heap text[];
BEGIN
    EXECUTE format('SELECT array_agg(q::text) FROM (%s) q', format(query, 'shared')) INTO on_varve;
    EXECUTE format('SELECT array_agg(q::text) FROM (%s) q', format(query, 'shared_heap')) INTO on_heap;
    RETURN QUERY SELECT 'varve', t FROM unnest(on_varve) t EXCEPT SELECT 'varve', t FROM unnest(on_heap) t;
    RETURN QUERY SELECT 'heap', t FROM unnest(on_heap) t EXCEPT SELECT 'heap', t FROM unnest(on_varve) t;
    IF on_varve IS DISTINCT FROM on_heap THEN
        RETURN QUERY VALUES ('both', 'another order');
    END IF;
END $$;
CREATE FUNCTION all_differences(keys text) RETURNS TABLE (query text, side text, what text) LANGUAGE plpgsql AS $$
BEGIN
    FOREACH query IN ARRAY ARRAY[
        'SELECT * FROM %1$I ORDER BY ' || keys || ', time',
        'SELECT * FROM %1$I ORDER BY ' || replace(keys, ',', ' DESC,') || ' DESC, time DESC',
        'SELECT h, l.* FROM generate_series(-1001, 1001) h, LATERAL (SELECT * FROM %1$I WHERE region = h %% 3 AND host = h AND name = ''n'' || h + 1000 ORDER BY time DESC LIMIT 1) l',
        'SELECT h, l.* FROM generate_series(1001, -1001, -1) h, LATERAL (SELECT * FROM %1$I WHERE region = h %% 3 AND host = h AND name = ''n'' || h + 1000 ORDER BY time LIMIT 2) l',
        'SELECT h, l.* FROM generate_series(1, 500) h, LATERAL (SELECT * FROM %1$I WHERE region = (h * 7919 %% 4) - 2 AND host = (h * 7919 %% 2000) - 1000 AND name = ''n'' || h * 7919 %% 2000 ORDER BY time) l',
        'SELECT * FROM %1$I WHERE region = 1 AND host BETWEEN 3 AND 777 AND time > ''2026-01-01 00:00:02'' ORDER BY ' || keys || ', time'
    ] LOOP
        RETURN QUERY SELECT query, d.* FROM differences(query) d;
    END LOOP;
END $$;
CALL varve.compact('shared');
SELECT count(*) FROM varve.chunks('shared');
SELECT * FROM all_differences('region, host');
-- Buffers of one probe: the chunk is opened once.
CREATE FUNCTION buffers_of(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT json) ' || query INTO plan;
    RETURN plan->0->'Plan'->>'Shared Hit Blocks';
END $$;
SELECT buffers_of('SELECT l.* FROM generate_series(0, 999) h, LATERAL (SELECT v FROM shared WHERE region = (h % 4) - 2 AND host = h - 1000 ORDER BY time DESC LIMIT 1) l')
    BETWEEN 2000 AND 4500 AS few;
-- Rows that are gone, and changes of the same transaction between a cursor's fetches.
DELETE FROM shared WHERE host % 7 = 0; DELETE FROM shared_heap WHERE host % 7 = 0;
SELECT * FROM all_differences('region, host');
BEGIN;
DECLARE c CURSOR FOR SELECT h, l.host, l.v FROM generate_series(-3, 3) h, LATERAL (SELECT * FROM shared WHERE region = -1 AND host = h * 4 - 3 ORDER BY time) l;
FETCH 2 FROM c;
DELETE FROM shared WHERE host BETWEEN -15 AND 5; DELETE FROM shared_heap WHERE host BETWEEN -15 AND 5;
SELECT * FROM all_differences('region, host');
FETCH ALL FROM c;
SAVEPOINT a;
UPDATE shared SET v = -1 WHERE region = 1 AND host > 100; UPDATE shared_heap SET v = -1 WHERE region = 1 AND host > 100;
SELECT * FROM all_differences('region, host');
ROLLBACK TO a;
ROLLBACK;
-- Text and what is between.
DROP INDEX shared_ints;
CREATE INDEX shared_texts ON shared USING varve (name, region, time);
CALL varve.compact('shared');
SELECT * FROM all_differences('name, region');
DROP INDEX shared_texts;
CREATE INDEX shared_mixed ON shared USING varve (region, name, host, time);
CALL varve.compact('shared');
SELECT * FROM all_differences('region, name, host');
-- Many fresh chunks under NULL: what a rescan has opened stays open.
CREATE TABLE fresh (time timestamptz NOT NULL, host int NOT NULL, v float8) USING varve WITH (autovacuum_enabled = off);
CREATE INDEX fresh_series ON fresh USING varve (host, time);
SET varve.batch_rows = 1;
SET varve.debug_compress = timeless;
DO $$ BEGIN
    FOR n IN 1..200 LOOP
        INSERT INTO fresh SELECT '2026-01-01'::timestamptz + n * interval '1 min', h, n + h / 100.0 FROM generate_series(1, 20) h;
    END LOOP;
END $$;
RESET varve.batch_rows;
RESET varve.debug_compress;
SELECT count(*) > 100 AS many FROM varve.chunks('fresh');
SELECT count(*), sum(l.v)::numeric(10, 2) FROM generate_series(1, 20) h, LATERAL (SELECT v FROM fresh WHERE host = h ORDER BY time DESC LIMIT 1) l;
DROP TABLE shared, shared_heap, fresh;
DROP FUNCTION differences, all_differences, buffers_of;
