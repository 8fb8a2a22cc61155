-- Marks of files that have chunks go with the files: with tables that are dropped, truncated, rewritten or moved, and
-- nothing goes where the transaction does not commit.
CREATE SCHEMA chunk_files;
SET search_path = chunk_files, public;
SET varve.batch_rows = 5;
CREATE FUNCTION rows_of(n int) RETURNS TABLE(host int, "time" timestamptz, value float8) LANGUAGE sql STABLE AS
$$ SELECT g % 3, '2026-01-01'::timestamptz + g * interval '1 s', g FROM generate_series(1, n) g $$;
-- It can be read for this test.
UPDATE pg_class SET relispopulated = true WHERE oid = 'varve.chunk_files'::regclass;
-- Marks that no table of the database has, and tables of this schema with one.
CREATE VIEW marks AS
SELECT (SELECT count(*) FROM varve.chunk_files m WHERE NOT EXISTS (
            SELECT FROM pg_class c WHERE c.relfilenode = m.file AND c.reltablespace = m.tablespace)) AS left_over,
    (SELECT string_agg(c.relname, ', ' ORDER BY c.relname) FROM pg_class c JOIN varve.chunk_files m
     ON c.relfilenode = m.file AND c.reltablespace = m.tablespace WHERE c.relnamespace = 'chunk_files'::regnamespace) AS marked;
-- Other tests may have left some.
CREATE TABLE sweeper(time timestamptz) USING varve;
CALL varve.compact('sweeper');
SELECT * FROM marks;

-- Temporary tables, dropped and at the end of a session.
DO $$
BEGIN
    FOR i IN 1 .. 20 LOOP
        CREATE TEMP TABLE t(host int, time timestamptz, value float8) USING varve;
        INSERT INTO t SELECT * FROM rows_of(20);
        DROP TABLE t;
    END LOOP;
END $$;
SELECT * FROM marks;
CREATE TEMP TABLE last(host int, time timestamptz, value float8) USING varve;
INSERT INTO last SELECT * FROM rows_of(20);
BEGIN;
CREATE TEMP TABLE gone(host int, time timestamptz, value float8) USING varve ON COMMIT DROP;
INSERT INTO gone SELECT * FROM rows_of(20);
SELECT count(*) FROM varve.chunk_files WHERE backend >= 0;
COMMIT;
SELECT count(*) FROM varve.chunk_files WHERE backend >= 0;
\c -
SET search_path = chunk_files, public;
SET varve.batch_rows = 5;
DO $$
BEGIN
    FOR i IN 1 .. 500 LOOP
        EXIT WHEN (SELECT left_over FROM chunk_files.marks) + (SELECT count(*) FROM varve.chunk_files WHERE backend >= 0) = 0;
        PERFORM pg_sleep(0.02);
    END LOOP;
END $$;
SELECT * FROM marks;
SELECT count(*) FROM varve.chunk_files WHERE backend >= 0;

-- An ordinary table whose drop is rolled back keeps its mark, and so the answers of its ordinary index.
CREATE TABLE a(host int, time timestamptz, value float8) USING varve;
CREATE INDEX ON a (value);
INSERT INTO a SELECT * FROM rows_of(20);
BEGIN;
DROP TABLE a;
SELECT * FROM marks;
ROLLBACK;
SELECT * FROM marks;
BEGIN;
SAVEPOINT s;
DROP TABLE a;
SAVEPOINT t;
RELEASE t;
ROLLBACK TO s;
INSERT INTO a SELECT host, time + interval '1 h', value + 100 FROM rows_of(20);
COMMIT;
SELECT * FROM marks;
SET enable_seqscan = off;
SELECT count(*) FROM a WHERE value < 1000;
RESET enable_seqscan;

-- Truncated, rewritten, moved: one mark at a time, or none.
BEGIN;
TRUNCATE a;
SELECT * FROM marks;
ROLLBACK;
SELECT * FROM marks;
TRUNCATE a;
SELECT * FROM marks;
INSERT INTO a SELECT * FROM rows_of(20);
VACUUM FULL a;
SELECT * FROM marks;
ALTER TABLE a ALTER value TYPE numeric;
SELECT * FROM marks;
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE varve_chunk_files LOCATION '';
ALTER TABLE a SET TABLESPACE varve_chunk_files;
SELECT * FROM marks;
SELECT count(*) FROM varve.chunk_files m JOIN pg_tablespace t ON t.oid = m.tablespace WHERE spcname = 'varve_chunk_files';
BEGIN;
ALTER TABLE a SET TABLESPACE pg_default;
ROLLBACK;
SELECT * FROM marks;
ALTER TABLE a SET TABLESPACE pg_default;
SELECT * FROM marks;
DROP TABLESPACE varve_chunk_files;
ALTER TABLE a SET ACCESS METHOD heap;
SELECT * FROM marks;
ALTER TABLE a SET ACCESS METHOD varve;
SELECT * FROM marks;
SELECT count(*), sum(value) FROM a;

-- What a session leaves that drops a table without having loaded the library, compact takes away, of any table, and no other marks.
CREATE TABLE b(host int, time timestamptz, value float8) USING varve;
INSERT INTO b SELECT * FROM rows_of(20);
CREATE MATERIALIZED VIEW m USING varve AS SELECT * FROM a;
REFRESH MATERIALIZED VIEW m;
SELECT * FROM marks;
\c -
DROP TABLE chunk_files.b;
\c -
SET search_path = chunk_files, public;
CALL varve.compact('sweeper');
SELECT * FROM marks;
SELECT count(*), sum(value) FROM a;
SET client_min_messages = warning;
DROP SCHEMA chunk_files CASCADE;
SELECT count(*) FROM varve.chunk_files m
WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.relfilenode = m.file AND c.reltablespace = m.tablespace);
UPDATE pg_class SET relispopulated = false WHERE oid = 'varve.chunk_files'::regclass;
