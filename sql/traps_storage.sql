-- What lost data in prototypes: wide defaults and the toaster, savepoints and batches, deferred checks, changes twice in a chunk.
SET TIME ZONE 'UTC';
SET varve.chunk_rows = 500;
CREATE TABLE trap_h (k text, ts timestamptz, v int) USING heap;
CREATE TABLE trap_v (k text, ts timestamptz, v int) USING varve;
CREATE FUNCTION trap_differs() RETURNS bigint LANGUAGE sql AS $$
    SELECT count(*) FROM ((SELECT a::text FROM trap_h a EXCEPT ALL SELECT b::text FROM trap_v b)
        UNION ALL (SELECT b::text FROM trap_v b EXCEPT ALL SELECT a::text FROM trap_h a)) d $$;
INSERT INTO trap_h SELECT 'k' || i % 4, '2024-01-01'::timestamptz + i * interval '1 s', i FROM generate_series(1, 3000) i;
INSERT INTO trap_v SELECT * FROM trap_h;

-- A default of 3 kB is the value of columns that a storage tuple does not have: the toaster must never see one.
ALTER TABLE trap_h ADD COLUMN wide text DEFAULT repeat('d', 3000);
ALTER TABLE trap_v ADD COLUMN wide text DEFAULT repeat('d', 3000);
COPY (SELECT k, ts + interval '1 day', v, wide FROM trap_h) TO PROGRAM 'cat > /tmp/varve_trap_rows';
COPY trap_h FROM PROGRAM 'cat /tmp/varve_trap_rows';
COPY trap_v FROM PROGRAM 'cat /tmp/varve_trap_rows; rm /tmp/varve_trap_rows';
SELECT trap_differs();
DELETE FROM trap_h WHERE v % 7 = 0;
DELETE FROM trap_v WHERE v % 7 = 0;
SELECT trap_differs();
CALL varve.compact('trap_v');
SELECT trap_differs();
DELETE FROM trap_h WHERE v % 11 = 0;
DELETE FROM trap_v WHERE v % 11 = 0;
VACUUM FULL trap_v;
SELECT trap_differs();
SELECT count(*) FROM varve.verify('trap_v');

-- Two deletes in one chunk by one command, by two commands of a transaction, and with a savepoint rolled back.
BEGIN;
DELETE FROM trap_v WHERE v IN (101, 102);
DELETE FROM trap_v WHERE v IN (102, 103);
SAVEPOINT a;
DELETE FROM trap_v WHERE v IN (104, 106);
UPDATE trap_v SET v = -v WHERE v = 107;
ROLLBACK TO a;
DELETE FROM trap_v WHERE v = 104;
COMMIT;
DELETE FROM trap_h WHERE v BETWEEN 101 AND 104;
SELECT trap_differs();

-- A batch whose rows come from a function with a subtransaction of its own.
CREATE FUNCTION trap_half(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    IF i % 100 = 0 THEN RAISE division_by_zero; END IF;
    RETURN i / 2;
EXCEPTION WHEN division_by_zero THEN RETURN -1;
END $$;
INSERT INTO trap_h SELECT 'f', '2025-01-01'::timestamptz + i * interval '1 s', trap_half(i) FROM generate_series(1, 2000) i;
BEGIN;
SAVEPOINT a;
INSERT INTO trap_v SELECT 'f', '2025-01-01'::timestamptz + i * interval '1 s', trap_half(i) FROM generate_series(1, 2000) i;
SAVEPOINT b;
DELETE FROM trap_v;
ROLLBACK TO b;
COMMIT;
SELECT trap_differs();

-- A DELETE that calls such a function, and an error that it does not catch.
DELETE FROM trap_h WHERE k = 'f' AND trap_half(v) = -1;
DELETE FROM trap_v WHERE k = 'f' AND trap_half(v) = -1;
SELECT trap_differs();
DO $$ BEGIN DELETE FROM trap_v WHERE 1 / (v - 500) IS NOT NULL; EXCEPTION WHEN division_by_zero THEN RAISE NOTICE 'nothing deleted'; END $$;
SELECT trap_differs();

-- Errors keep their own SQLSTATE and context on their way through a statement on a varve table.
CREATE FUNCTION trap_raise(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE 'own error' USING ERRCODE = 'V9999', COLUMN = 'c', TABLE = 't'; END $$;
DO $$
DECLARE state text; context text; col text;
BEGIN
    PERFORM trap_raise(v) FROM trap_v;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, context = PG_EXCEPTION_CONTEXT, col = COLUMN_NAME;
    RAISE NOTICE '%, column %, %', state, col, split_part(context, E'\n', 1);
END $$;

-- compact refuses a table with checks that are still to come.
CREATE FUNCTION trap_check() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'checked %', NEW.v; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER trap_deferred AFTER INSERT ON trap_v DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.v = 42424242) EXECUTE FUNCTION trap_check();
BEGIN;
INSERT INTO trap_v SELECT 'd', '2026-01-01'::timestamptz + i * interval '1 s', CASE i WHEN 1 THEN 42424242 ELSE i END FROM generate_series(1, 1000) i;
UPDATE trap_v SET wide = 'x' WHERE v = 42424242;
COMMIT;
DROP TRIGGER trap_deferred ON trap_v;
DELETE FROM trap_v WHERE k = 'd';
SELECT trap_differs();

-- Ordinary indexes of a table with chunks are used by no plan, a parallel one neither.
SET client_min_messages = warning;
CREATE INDEX trap_plain ON trap_v (v);
RESET client_min_messages;
ANALYZE trap_v;
SET enable_seqscan = off;
SET varve.enable_aggregate = off;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SELECT (SELECT count(*) FROM trap_v WHERE v > 10) = (SELECT count(*) FROM trap_h WHERE v > 10) AS same;
SELECT (SELECT max(v) FROM trap_v) = (SELECT max(v) FROM trap_h) AS same;
SELECT bool_and(v IS NOT NULL) FROM (SELECT v FROM trap_v ORDER BY v LIMIT 5) s;
RESET enable_seqscan;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET min_parallel_index_scan_size;

-- A table without columns keeps its rows, and one of 1,000 columns its values.
CREATE TABLE trap_none () USING varve;
INSERT INTO trap_none DEFAULT VALUES;
INSERT INTO trap_none SELECT FROM generate_series(1, 2000);
SELECT count(*) FROM trap_none;
VACUUM FULL trap_none;
SELECT count(*) FROM trap_none;
DO $$ BEGIN EXECUTE 'CREATE TABLE trap_many (ts timestamptz, ' || (SELECT string_agg('c' || i || ' int', ', ') FROM generate_series(1, 999) i) || ') USING varve';
  EXECUTE 'INSERT INTO trap_many SELECT ''2024-01-01''::timestamptz + i * interval ''1 s'', ' || (SELECT string_agg('i + ' || i, ', ') FROM generate_series(1, 999) i) || ' FROM generate_series(1, 1200) i'; END $$;
SELECT sum(c1), sum(c500), sum(c999), count(*) FROM trap_many;
DELETE FROM trap_many WHERE c1 % 3 = 0;
VACUUM FULL trap_many;
SELECT sum(c1), sum(c500), sum(c999), count(*) FROM trap_many;
SELECT count(*) FROM varve.verify('trap_many');
DROP TABLE trap_h, trap_v, trap_none, trap_many;
DROP FUNCTION trap_differs(), trap_half(int), trap_raise(int), trap_check();
