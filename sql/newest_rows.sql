-- Scans of one series over many chunks that share it and overlap: chunks are searched when the scan comes to their times.
SET varve.worker = off;
CREATE TABLE newest_heap (host text, sensor int, time timestamptz, value float8);
CREATE TABLE newest (LIKE newest_heap) USING varve;
CREATE INDEX ON newest USING varve (host, sensor, time);
CREATE INDEX ON newest_heap (host, sensor, time);
-- Nine loads, each of which overlaps with the one before, late rows, and rows without a time, with a key that is null; then single rows.
DO $$
BEGIN
    FOR load IN 0 .. 8 LOOP
        INSERT INTO newest_heap
        SELECT CASE WHEN i % 41 = 0 THEN NULL ELSE 'h' || i % 7 END, i % 3,
               CASE WHEN i % 97 = 0 AND load = 4 THEN NULL ELSE '2026-01-01'::timestamptz + (load * 900 + i * 7 % 1500) * interval '1 s' END, i
        FROM generate_series(1, 2000) i;
    END LOOP;
END $$;
INSERT INTO newest_heap SELECT 'h' || i % 7, i % 3, 'infinity', i FROM generate_series(1, 5) i;
DO $$
BEGIN
    FOR load IN 0 .. 8 LOOP
        INSERT INTO newest SELECT * FROM newest_heap OFFSET load * 2000 LIMIT 2000;
    END LOOP;
    INSERT INTO newest SELECT * FROM newest_heap OFFSET 18000;
    FOR i IN 1 .. 30 LOOP
        INSERT INTO newest_heap VALUES ('h' || i % 7, i % 3, '2026-01-01'::timestamptz + i * 311 * interval '1 s', -i);
        INSERT INTO newest VALUES ('h' || i % 7, i % 3, '2026-01-01'::timestamptz + i * 311 * interval '1 s', -i);
    END LOOP;
END $$;
DELETE FROM newest WHERE value % 11 = 3;
DELETE FROM newest_heap WHERE value % 11 = 3;
SELECT count(*) > 3 AS overlap FROM varve.chunks('newest');
ANALYZE newest, newest_heap;

-- Times in order, and the multiset of values: rows with the same time come in any order.
CREATE FUNCTION shown(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE all_times text; all_rows text;
BEGIN
    EXECUTE format('SELECT string_agg(coalesce(time::text, ''-''), '','') FROM (%s) q', query) INTO all_times;
    EXECUTE format('SELECT count(*)::text FROM (%s) q', query) INTO all_rows;
    RETURN all_times || '/' || all_rows;
END $$;
CREATE FUNCTION differences() RETURNS TABLE (host text, sensor int, bounds text, direction text, rows int) LANGUAGE plpgsql AS $$
DECLARE query text;
BEGIN
    FOR host, sensor IN SELECT h, s FROM unnest('{h0,h3,h6,none}'::text[]) h, unnest('{0,2,9}'::int[]) s LOOP
        FOREACH bounds IN ARRAY '{"", " AND time < ''2026-01-01 01:10''", " AND time >= ''2026-01-01 00:40''",
                                  " AND time BETWEEN ''2026-01-01 00:31'' AND ''2026-01-01 01:31:07''", " AND time = ''2026-01-01 00:36:40''",
                                  " AND time IS NULL", " AND time > ''2027-01-01''", " AND host > ''h1''", " AND host = ''h3''"}'::text[] LOOP
            FOREACH direction IN ARRAY '{ASC,DESC}'::text[] LOOP
                FOREACH rows IN ARRAY '{1,2,17,100000}'::int[] LOOP
                    query := format('SELECT * FROM %%s WHERE host = %L AND sensor = %s%s ORDER BY time %s LIMIT %s', host, sensor, bounds, direction, rows);
                    IF shown(format(query, 'newest')) IS DISTINCT FROM shown(format(query, 'newest_heap')) THEN
                        RETURN NEXT;
                    END IF;
                END LOOP;
            END LOOP;
        END LOOP;
    END LOOP;
END $$;
SET enable_seqscan = off;
SET enable_sort = off;
EXPLAIN (COSTS OFF) SELECT * FROM newest WHERE host = 'h3' AND sensor = 2 ORDER BY time DESC LIMIT 1;
SELECT * FROM differences();
-- Whole rows, by value.
SELECT count(*) FROM (
    (SELECT * FROM newest WHERE host = 'h3' AND sensor = 2 EXCEPT ALL SELECT * FROM newest_heap WHERE host = 'h3' AND sensor = 2)
    UNION ALL
    (SELECT * FROM newest_heap WHERE host = 'h3' AND sensor = 2 EXCEPT ALL SELECT * FROM newest WHERE host = 'h3' AND sensor = 2)) d;

-- A cursor that turns round.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT time, value FROM newest WHERE host = 'h5' AND sensor = 1 AND time < 'infinity' ORDER BY time DESC;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH 4 FROM c;
MOVE FORWARD ALL FROM c;
FETCH BACKWARD 2 FROM c;
COMMIT;

-- Of twenty chunks that share a series, headers apart, one is read for its newest row.
CREATE FUNCTION buffers(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || query INTO plan;
    RETURN (plan->0->'Plan'->>'Shared Hit Blocks')::bigint + (plan->0->'Plan'->>'Shared Read Blocks')::bigint;
END $$;
CREATE TABLE shared_series (sensor int, time timestamptz, value float8, PRIMARY KEY (sensor, time)) USING varve;
DO $$
BEGIN
    FOR load IN 0 .. 19 LOOP
        INSERT INTO shared_series SELECT i % 500, '2026-01-01'::timestamptz + (load * 5000 + i) * interval '1 s', random() FROM generate_series(0, 4999) i;
    END LOOP;
END $$;
\c -
SET enable_seqscan = off;
SELECT buffers('SELECT * FROM shared_series WHERE sensor = 77 ORDER BY time DESC LIMIT 1') + 10
     < buffers('SELECT * FROM shared_series WHERE sensor = 78 ORDER BY time DESC') AS one_chunk;
DROP TABLE newest, newest_heap, shared_series;
DROP FUNCTION shown, differences, buffers;
