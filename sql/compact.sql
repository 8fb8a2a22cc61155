-- varve.compact: seal, merge, vacuum; the same rows before and after.
CREATE SCHEMA compact;
SET search_path = compact, public;
CREATE TABLE v (time timestamptz NOT NULL, host text, value float8, n int, note text) USING varve;
CREATE TABLE h (LIKE v);

\set ECHO none
\i sql/include/differences.psql
\set ECHO all

-- A batch, late rows in the tail, nulls, odd floats.
INSERT INTO h SELECT '2024-01-01'::timestamptz + i * interval '1 s', 'h' || i % 7, sin(i), i, NULL
FROM generate_series(1, 20000) AS i;
INSERT INTO v TABLE h;
INSERT INTO v SELECT time - interval '1 hour', host, value, -n, 'late' FROM h WHERE n <= 300;
INSERT INTO h SELECT time - interval '1 hour', host, value, -n, 'late' FROM h WHERE n <= 300;
INSERT INTO v VALUES ('2024-01-01', NULL, 'NaN', NULL, NULL), ('2024-01-01', NULL, '-0', 1, ''),
    ('infinity', 'h1', '-infinity', 2, repeat('x', 3000));
INSERT INTO h VALUES ('2024-01-01', NULL, 'NaN', NULL, NULL), ('2024-01-01', NULL, '-0', 1, ''),
    ('infinity', 'h1', '-infinity', 2, repeat('x', 3000));
SELECT differences();
CALL varve.compact('v');
SELECT differences();
CALL varve.compact('v');
SELECT differences();

-- Deletes and updates between, of rows in chunks and in the tail.
DELETE FROM v WHERE n % 3 = 0;
DELETE FROM h WHERE n % 3 = 0;
UPDATE v SET value = value + 1, time = time + interval '1 s' WHERE n % 100 = 1;
UPDATE h SET value = value + 1, time = time + interval '1 s' WHERE n % 100 = 1;
SELECT differences();
CALL varve.compact('v');
SELECT differences();

-- Columns that come and go; the values that older chunks lack.
ALTER TABLE v ADD COLUMN big text DEFAULT repeat('d', 3000), ADD COLUMN seven int DEFAULT 7, DROP COLUMN note;
ALTER TABLE h ADD COLUMN big text DEFAULT repeat('d', 3000), ADD COLUMN seven int DEFAULT 7, DROP COLUMN note;
INSERT INTO v SELECT time + interval '1 day', host, value, n, NULL, n FROM v WHERE n % 2 = 0;
INSERT INTO h SELECT time + interval '1 day', host, value, n, NULL, n FROM h WHERE n % 2 = 0;
CALL varve.compact('v');
SELECT differences();
VACUUM v;
SELECT differences();
DELETE FROM v;
CALL varve.compact('v');
SELECT count(*) FROM v;

-- What it refuses.
BEGIN;
CALL varve.compact('v');
ROLLBACK;
CALL varve.compact('h');
CREATE VIEW seen AS TABLE h;
CALL varve.compact('seen');
CALL varve.compact(NULL);
CREATE ROLE compact_other;
GRANT USAGE ON SCHEMA compact TO compact_other;
SET ROLE compact_other;
CALL varve.compact('v');
RESET ROLE;
DROP OWNED BY compact_other;
DROP ROLE compact_other;

-- A table without a time column keeps its rows where they are.
CREATE TABLE plain (a int, b text) USING varve;
INSERT INTO plain SELECT i, i FROM generate_series(1, 1000) AS i;
CALL varve.compact('plain');
SELECT count(*), pg_relation_size('plain') > 40000 AS tail FROM plain;

SET client_min_messages = warning;
DROP SCHEMA compact CASCADE;
