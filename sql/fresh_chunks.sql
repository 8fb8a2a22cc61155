-- Small batches without a compact: what a reader and a writer look at is bounded, whatever their number.
CREATE FUNCTION at(seconds int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS
  $$ SELECT timestamptz '2026-01-01 00:00:00Z' + seconds * interval '1 s' $$;
CREATE FUNCTION buffers(statement text) RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE plan json;
  BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || statement INTO plan;
    plan := plan->0->'Plan';
    RETURN (plan->>'Shared Hit Blocks')::bigint + (plan->>'Shared Read Blocks')::bigint;
  END $$;
CREATE TABLE f (time timestamptz NOT NULL, host int NOT NULL, v int, PRIMARY KEY (host, time)) USING varve;
CREATE TABLE h (LIKE f INCLUDING ALL);
CREATE PROCEDURE batches(first int, last int, of_host int DEFAULT NULL) LANGUAGE plpgsql AS $$
  BEGIN
    FOR i IN first..last LOOP
      IF of_host IS NULL THEN
        INSERT INTO f SELECT at(i * 10 + g / 100), g % 100, g FROM generate_series(0, 499) g;
      ELSE
        INSERT INTO f SELECT at(300000 + i * 500 + g), of_host, g FROM generate_series(0, 499) g;
      END IF;
      COMMIT;
    END LOOP;
  END $$;
SET enable_seqscan = off;
CALL batches(1, 10);
SELECT count(*) AS chunks FROM varve.chunks('f');
-- What VACUUM writes into the free space map does not part small chunks from their headers.
VACUUM f;
CALL batches(11, 400);
SELECT count(*) BETWEEN 25 AND 40 AS bounded FROM varve.chunks('f');
SELECT buffers('SELECT * FROM f WHERE host = 17 AND time = at(50)') <= 60 AS in_chunk,
       buffers('SELECT * FROM f WHERE host = 17 AND time = at(2000)') <= 60 AS in_tail,
       buffers('SELECT * FROM f WHERE host = 17 AND time >= at(2000) ORDER BY time LIMIT 1') <= 60 AS first_of_tail,
       buffers('SELECT * FROM f WHERE host = 17 AND time < at(2000) ORDER BY time DESC LIMIT 1') <= 60 AS last_before,
       buffers('SELECT * FROM f WHERE host = 17 ORDER BY time DESC LIMIT 1') <= 60 AS newest;
-- The second one: the first reads catalogs too.
INSERT INTO f VALUES (at(100000), 1, 1);
SELECT buffers('INSERT INTO f VALUES (at(100001), 1, 1)') <= 60 AS inserted;
SELECT buffers('INSERT INTO f VALUES (at(2001), 501, 1)') <= 60 AS inserted_late;
SELECT buffers('INSERT INTO f VALUES (at(2001), 1, 1) ON CONFLICT DO NOTHING') <= 60 AS there_already;
-- A rescan of the chunks opens none of them again.
SELECT buffers('SELECT * FROM generate_series(1, 20) g, LATERAL (SELECT * FROM f WHERE host = g ORDER BY time DESC LIMIT 1) l') <= 60 + 20 * 8 AS rescans;
-- Larger batches may have more chunks; then compact makes room.
INSERT INTO f SELECT at(200000 + g / 1000), 1000 + g % 1000, 0 FROM generate_series(0, 7999) g;
SELECT count(*) BETWEEN 25 AND 41 AS bounded, sum(rows) FILTER (WHERE rows = 8000) AS larger FROM varve.chunks('f');
CALL varve.compact('f');
SELECT sum(rows) = (SELECT count(*) FROM f) AS sealed FROM varve.chunks('f');
CALL batches(40001, 40003);
SELECT count(*) AS fresh FROM varve.chunks('f') WHERE level = 0;
-- Batches of one series wait for compact beside those of their first key only.
CALL batches(1, 100, 5000);
CALL batches(1, 2, 5001);
SELECT count(*) FILTER (WHERE rows = 500 AND one_series) BETWEEN 25 AND 40 AS bounded FROM varve.chunks('f') WHERE level = 0;
SELECT buffers('SELECT * FROM f WHERE host = 5000 AND time = at(300700)') <= 60 AS in_chunk,
       buffers('SELECT * FROM f WHERE host = 5001 AND time = at(300700)') <= 20 AS other_series;
SET varve.fresh_chunks = 0;
CALL batches(50001, 50001);
RESET varve.fresh_chunks;
SELECT count(*) AS none FROM varve.chunks('f') WHERE min_time::timestamptz >= at(500000);
SELECT * FROM varve.verify('f');
INSERT INTO h SELECT * FROM f;
SELECT (SELECT count(*) FROM (TABLE f EXCEPT ALL TABLE h) x) AS more, (SELECT count(*) FROM (TABLE h EXCEPT ALL TABLE f) x) AS less;
DROP TABLE f, h;
DROP PROCEDURE batches;

-- Chunks of one load that have other series: who looks for one opens the chunk that has it. The planner knows.
CREATE TABLE f (time timestamptz, host int, name text, v float8) USING varve;
CREATE INDEX ON f USING varve (host, time);
CREATE TABLE g (LIKE f) USING varve;
CREATE INDEX ON g USING varve (name, time);
CREATE FUNCTION cost_of(statement text) RETURNS float8 LANGUAGE plpgsql AS $$
  DECLARE plan json;
  BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || statement INTO plan;
    RETURN plan->0->'Plan'->>'Total Cost';
  END $$;
SET varve.chunk_rows = 8000;
INSERT INTO f SELECT at(s), host, to_char(host, '"host-"FM0000'), random() FROM generate_series(1, 200) s, generate_series(1, 800) host;
INSERT INTO g SELECT * FROM f;
RESET varve.chunk_rows;
SELECT count(*) AS chunks FROM varve.chunks('f') WHERE NOT keyed;
CREATE TABLE h (LIKE f);
CREATE INDEX ON h (host, time);
INSERT INTO h SELECT * FROM f;
ANALYZE f, h;
\set newest 'SELECT count(l.v) FROM generate_series(1, 800) g, LATERAL (SELECT * FROM %s WHERE host = g ORDER BY time DESC LIMIT 1) l'
SELECT cost_of(format(:'newest', 'f')) <= 3 * cost_of(format(:'newest', 'h')) AS costs_as_in_a_heap;
SELECT count(l.v) FROM generate_series(1, 800) g, LATERAL (SELECT * FROM f WHERE host = g ORDER BY time DESC LIMIT 1) l;
-- The first one reads headers that the session does not know.
\c
SET enable_seqscan = off;
SELECT buffers('SELECT * FROM f WHERE host = 17 ORDER BY time DESC LIMIT 1') > 0 AS headers_are_known;
SELECT buffers('SELECT * FROM f WHERE host = 417 ORDER BY time DESC LIMIT 1') <= 30 AS newest_of_integers;
SELECT buffers('SELECT * FROM f WHERE host = 801 ORDER BY time DESC LIMIT 1') <= 30 AS none;
SELECT buffers('SELECT * FROM g WHERE name = ''host-0017'' ORDER BY time DESC LIMIT 1') > 0 AS headers_are_known;
SELECT buffers('SELECT * FROM g WHERE name = ''host-0417'' ORDER BY time DESC LIMIT 1') <= 30 AS newest_of_texts;
SELECT buffers('SELECT * FROM g WHERE name = ''host-0801'' ORDER BY time DESC LIMIT 1') <= 30 AS none;
DROP TABLE f, g, h;
DROP FUNCTION cost_of;

-- Long tails, with chunks before, among and behind them, and without keys: in order and complete, in both directions.
CREATE TABLE f (time timestamptz, host int, v int) USING varve;
CREATE INDEX ON f USING varve (host, time);
CREATE TABLE h (time timestamptz, host int, v int);
CREATE INDEX ON h (host, time);
INSERT INTO f SELECT at(g), g % 3, g FROM generate_series(1, 9000) g;
CALL varve.compact('f');
SET varve.batch_rows = 1000000;
-- Behind the chunks; among them; rows without a key, without a time; then another series of later chunks.
INSERT INTO f SELECT at(9000 + g), g % 3, g FROM generate_series(1, 3000) g;
INSERT INTO f SELECT at(3000 + g), 1, -g FROM generate_series(1, 700) g;
INSERT INTO f SELECT at(g * 50), NULL, g FROM generate_series(1, 600) g;
INSERT INTO f SELECT NULL, g % 2, g FROM generate_series(1, 300) g;
RESET varve.batch_rows;
INSERT INTO h TABLE f;
CREATE FUNCTION differing() RETURNS SETOF text LANGUAGE plpgsql AS $$
  DECLARE qual text; form text; a text; b text;
  BEGIN
    FOREACH qual IN ARRAY ARRAY['true', 'host = 1', 'host IN (0, 2)', 'host IS NULL', 'host = 1 AND time > at(8000)', 'host = 1 AND time < at(3300)',
                                'host = 2 AND time BETWEEN at(9500) AND at(9600)', 'host = 1 AND time BETWEEN at(2990) AND at(3400)',
                                'host = 0 AND time >= at(12000)', 'host = 1 AND time IS NULL', 'time > at(11900)', 'host IS NULL AND time > at(20000)',
                                'host = 7 AND time > at(100500)', 'host = 1 AND time <= at(15000)'] LOOP
      FOREACH form IN ARRAY ARRAY['ORDER BY host, time, v', 'ORDER BY host DESC, time DESC, v DESC'] LOOP
        EXECUTE format('SELECT md5(string_agg(r::text, E''\n'')) FROM (SELECT * FROM f WHERE %s %s) r', qual, form) INTO a;
        EXECUTE format('SELECT md5(string_agg(r::text, E''\n'')) FROM (SELECT * FROM h WHERE %s %s) r', qual, form) INTO b;
        IF a IS DISTINCT FROM b THEN RETURN NEXT qual || ' ' || form; END IF;
        -- In the order of the index alone.
        form := split_part(form, ', v', 1);
        EXECUTE format('SELECT md5(string_agg(coalesce(time::text, ''-'') || coalesce(host, -1), E''\n'')) FROM (SELECT * FROM f WHERE %s %s LIMIT 500) r', qual, form) INTO a;
        EXECUTE format('SELECT md5(string_agg(coalesce(time::text, ''-'') || coalesce(host, -1), E''\n'')) FROM (SELECT * FROM h WHERE %s %s LIMIT 500) r', qual, form) INTO b;
        IF a IS DISTINCT FROM b THEN RETURN NEXT qual || ' ' || form || ' LIMIT'; END IF;
      END LOOP;
    END LOOP;
  END $$;
SELECT * FROM differing();
-- A series of later times gets chunks: the end of all chunks lies behind the others' tails.
INSERT INTO f SELECT at(100000 + g), 7, g FROM generate_series(1, 2000) g;
INSERT INTO h SELECT at(100000 + g), 7, g FROM generate_series(1, 2000) g;
SELECT * FROM differing();
-- A cursor sees what it saw while compact seals the tail, and turns round.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT host, v FROM f WHERE host = 1 AND time > at(9000) ORDER BY time;
MOVE 600 FROM c;
FETCH 2 FROM c;
FETCH BACKWARD 2 FROM c;
COMMIT;
CALL varve.compact('f');
SELECT * FROM differing();
REINDEX INDEX f_host_time_idx;
SELECT * FROM differing();
SELECT * FROM varve.verify('f');
DROP TABLE f, h;
DROP FUNCTION at, buffers, differing;
