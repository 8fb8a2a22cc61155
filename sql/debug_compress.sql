-- The settings of tests: what they compress beyond what is compressed otherwise, and whose they are.
CREATE FUNCTION in_chunks(name text) RETURNS bigint LANGUAGE sql AS $$ SELECT coalesce(sum(rows - deleted), 0) FROM varve.chunks(name::regclass) $$;
SET client_min_messages = warning;
CREATE TABLE timeless(a int, b text) USING varve;
CREATE TABLE surrogate(id int PRIMARY KEY, time timestamptz, v int) USING varve;
RESET client_min_messages;
-- No number of rows is a mode.
SET varve.batch_rows = 1;
SET varve.chunk_rows = 7;
INSERT INTO timeless SELECT g, g FROM generate_series(1, 20) g;
INSERT INTO surrogate SELECT g, '2026-01-01', g FROM generate_series(1, 20) g;
SELECT in_chunks('timeless'), in_chunks('surrogate');
RESET varve.batch_rows;
RESET varve.chunk_rows;
-- Tables without a time column; keys keep their rows where they are.
SET varve.debug_compress = timeless;
INSERT INTO timeless SELECT g, g FROM generate_series(101, 1000) g;
INSERT INTO timeless VALUES (0, '0');
INSERT INTO surrogate SELECT g, '2026-01-01', g FROM generate_series(101, 1000) g;
SELECT in_chunks('timeless'), in_chunks('surrogate');
CALL varve.compact('timeless');
SELECT in_chunks('timeless'), count(*), sum(a) FROM timeless;
-- All rows when they are committed, and keys are found among them.
SET varve.debug_compress = torture;
BEGIN;
INSERT INTO surrogate VALUES (1001, '2026-01-01', 1001);
SELECT in_chunks('surrogate');
COMMIT;
SELECT in_chunks('surrogate');
INSERT INTO surrogate VALUES (1001, '2026-01-01', 0) ON CONFLICT (id) DO UPDATE SET v = 0;
INSERT INTO surrogate VALUES (1001, '2026-01-01', 0);
SELECT in_chunks('surrogate'), v FROM surrogate WHERE id = 1001;
SELECT count(*), sum(id) FROM surrogate;
DROP TABLE timeless, surrogate;
RESET varve.debug_compress;
CREATE ROLE varve_debug_compress;
SET ROLE varve_debug_compress;
SET varve.debug_compress = torture;
RESET ROLE;
DROP ROLE varve_debug_compress;
DROP FUNCTION in_chunks;
SELECT count(*) FROM pg_settings WHERE name LIKE 'varve.debug%';
