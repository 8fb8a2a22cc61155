-- Headers of chunks go where virtual TIDs reach them, also in a file that is longer than that: the limit is 89,475,754 pages, and
-- lowered for this test.
CREATE SCHEMA low_headers;
SET search_path = low_headers, public;
CREATE FUNCTION readings(since int, n int) RETURNS TABLE(host int, "time" timestamptz, value float8, note text) LANGUAGE sql STABLE AS
$$ SELECT g % 3, '2026-01-01'::timestamptz + g * interval '1 s', g, repeat('x', 100) FROM generate_series(since, since + n - 1) g $$;
CREATE TABLE bloated(host int, time timestamptz, value float8, note text) USING varve;
CREATE INDEX ON bloated USING varve (host, time);
-- A file of tail rows, of which the last stay where they are.
SET varve.batch_rows = 1000000;
INSERT INTO bloated SELECT * FROM readings(1, 6000);
SELECT pg_relation_size('bloated') / 8192 > 100 AS is_long;
SET varve.batch_rows = 100;
SET varve.debug_header_pages = 40;
-- No page below has room.
DO $$
DECLARE detail text; hint text;
BEGIN
    INSERT INTO bloated SELECT * FROM readings(10001, 200);
EXCEPTION WHEN program_limit_exceeded THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RAISE NOTICE '% / % / %', SQLERRM, detail, hint;
END $$;
SELECT count(*) FROM varve.chunks('bloated');
-- Now there is room: on pages with many line pointers too, if low ones are free.
DELETE FROM bloated WHERE value < 3000 AND value::int % 59 < 58;
VACUUM bloated;
INSERT INTO bloated SELECT * FROM readings(10001, 200);
INSERT INTO bloated SELECT * FROM readings(20001, 3000);
SELECT count(*) > 1 AS has_chunks, max((header::text::point)[0]) < 40 AS are_low FROM varve.chunks('bloated');
SELECT host, count(*), sum(value) FROM bloated GROUP BY host ORDER BY host;
-- Changes of compressed rows write headers too.
DELETE FROM bloated WHERE value IN (10005, 20500);
UPDATE bloated SET value = -1 WHERE value = 10006;
SELECT max((header::text::point)[0]) < 40 AS are_low, sum(deleted) FROM varve.chunks('bloated');
SELECT host, count(*), sum(value) FROM bloated GROUP BY host ORDER BY host;
-- compact gives what it can.
DELETE FROM bloated WHERE value BETWEEN 0 AND 9999;
CALL varve.compact('bloated');
SELECT max((header::text::point)[0]) < 40 AS are_low FROM varve.chunks('bloated');
SELECT host, count(*), sum(value) FROM bloated GROUP BY host ORDER BY host;
SELECT * FROM varve.verify('bloated');

-- A page of which the fill factor keeps some room free is not taken for one that has it.
CREATE TABLE half(host int, time timestamptz, value float8, note text) USING varve WITH (fillfactor = 50);
SET varve.batch_rows = 1000000;
INSERT INTO half SELECT * FROM readings(1, 3000);
SET varve.batch_rows = 100;
INSERT INTO half SELECT * FROM readings(10001, 200);
DELETE FROM half WHERE value < 1000;
VACUUM half;
INSERT INTO half SELECT * FROM readings(10001, 200);
SELECT count(*), max((header::text::point)[0]) < 40 AS are_low FROM varve.chunks('half');
-- A header that heap has put at too high a line pointer is put elsewhere, and what is left of it is no fault, for its own transaction neither.
RESET varve.debug_header_pages;
SET varve.batch_rows = 5;
CREATE TABLE changed(host text, time timestamp NOT NULL, value float8, PRIMARY KEY (host, time)) USING varve;
INSERT INTO changed SELECT 'h' || g % 5, '2026-01-01'::timestamp + g * interval '1 min', g FROM generate_series(1, 3000) g;
INSERT INTO changed SELECT 'h' || g % 5, '2026-01-01'::timestamp + g * interval '1 min', g FROM generate_series(2000, 4000) g
ON CONFLICT DO NOTHING;
BEGIN;
INSERT INTO changed SELECT 'h' || g % 5, '2026-01-01'::timestamp + g * interval '1 min', g FROM generate_series(2000, 4500) g
ON CONFLICT (host, time) DO UPDATE SET value = excluded.value + 1;
SELECT * FROM varve.verify('changed');
COMMIT;
SELECT * FROM varve.verify('changed');
-- Whose setting it is.
CREATE ROLE varve_low_headers;
SET ROLE varve_low_headers;
SET varve.debug_header_pages = 50;
RESET ROLE;
DROP ROLE varve_low_headers;
SET client_min_messages = warning;
DROP SCHEMA low_headers CASCADE;
