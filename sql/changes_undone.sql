-- Changes of compressed rows that stay in memory until their transaction ends, where the table is emptied, or a part of the transaction is undone, in between. Beside
-- a heap.
CREATE TABLE v(host int NOT NULL, time timestamptz NOT NULL, n int, PRIMARY KEY (host, time)) USING varve;
CREATE TABLE h(LIKE v INCLUDING ALL) USING heap;
-- How many rows a statement says that it has changed, on both, and whether the same are left. %s stands for the table.
\set ECHO none
\i sql/include/on_both.psql
\set ECHO all
CREATE FUNCTION rows(since int, n int) RETURNS TABLE(host int, "time" timestamptz, value int) LANGUAGE sql STABLE AS
$$ SELECT i % 4, '2026-01-01'::timestamptz + i / 4 * interval '10 s', i FROM generate_series(since, since + n - 1) i $$;

-- A file that the transaction has made is emptied in place: the next chunk's header is where that of the changed chunk was.
BEGIN;
TRUNCATE v, h;
SELECT * FROM on_both('INSERT INTO %s SELECT * FROM rows(0, 4000)');
SELECT * FROM on_both('DELETE FROM %s WHERE n IN (3, 777, 3990)');
SELECT * FROM on_both('UPDATE %s SET n = -n WHERE n IN (4, 778, 3991)');
TRUNCATE v, h;
SELECT * FROM on_both('INSERT INTO %s SELECT * FROM rows(0, 4000)');
COMMIT;
SELECT * FROM on_both('DELETE FROM %s WHERE n = 5');
SELECT count(*) AS faults FROM varve.verify('v');
-- Fewer rows than the changed one's number, and none at all.
BEGIN;
TRUNCATE v, h;
SELECT * FROM on_both('INSERT INTO %s SELECT * FROM rows(0, 4000)');
SELECT * FROM on_both('DELETE FROM %s WHERE n = 3990');
TRUNCATE v, h;
SELECT * FROM on_both('INSERT INTO %s SELECT * FROM rows(0, 1000)');
COMMIT;
SELECT * FROM on_both('DELETE FROM %s WHERE n = 5');
SELECT count(*) AS faults FROM varve.verify('v');
BEGIN;
TRUNCATE v, h;
SELECT * FROM on_both('INSERT INTO %s SELECT * FROM rows(0, 4000)');
SELECT * FROM on_both('DELETE FROM %s WHERE n = 3990');
TRUNCATE v, h;
COMMIT;
-- The file is a savepoint's, which is undone: what was done to the file before it stays.
SELECT * FROM on_both('INSERT INTO %s SELECT * FROM rows(0, 4000)');
BEGIN;
SELECT * FROM on_both('DELETE FROM %s WHERE n = 3990');
SAVEPOINT a;
TRUNCATE v, h;
SELECT * FROM on_both('INSERT INTO %s SELECT * FROM rows(0, 4000)');
SELECT * FROM on_both('DELETE FROM %s WHERE n IN (3, 777)');
TRUNCATE v, h;
SELECT * FROM on_both('INSERT INTO %s SELECT * FROM rows(0, 3000)');
ROLLBACK TO a;
SELECT * FROM on_both('DELETE FROM %s WHERE n = 778');
COMMIT;
SELECT * FROM on_both('DELETE FROM %s WHERE n = 5');
SELECT count(*) AS faults FROM varve.verify('v');
-- A temporary table that a loop fills again and again.
DO $$
DECLARE left_over int;
BEGIN
    CREATE TEMP TABLE staged(host int, time timestamptz NOT NULL, n int) USING varve;
    FOR i IN 1..5 LOOP
        TRUNCATE staged;
        INSERT INTO staged SELECT * FROM rows(0, 2000);
        DELETE FROM staged WHERE n % 500 = i;
        SELECT count(*) INTO left_over FROM staged;
        RAISE NOTICE 'round %: %', i, left_over;
    END LOOP;
END $$;
SELECT count(*) FROM staged;

-- A cursor whose function changes rows of a chunk that it comes to later shows none that were gone when it was opened.
CREATE TABLE scanned(chunk int NOT NULL, time timestamptz NOT NULL, n int) USING varve;
CREATE INDEX ON scanned USING varve (chunk, time);
INSERT INTO scanned SELECT 1, '2026-01-01'::timestamptz + i * interval '1 s', i FROM generate_series(1, 1000) i;
INSERT INTO scanned SELECT 2, '2026-01-01'::timestamptz + i * interval '1 s', i FROM generate_series(1, 1000) i;
CREATE FUNCTION take(n int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    IF n = 1 THEN
        DELETE FROM scanned WHERE chunk = 2 AND scanned.n BETWEEN 41 AND 80;
    END IF;
    RETURN n;
END $$;
BEGIN;
DELETE FROM scanned WHERE chunk = 2 AND n BETWEEN 1 AND 40;
DECLARE c CURSOR FOR SELECT chunk, take(n) AS n FROM scanned WHERE n <= 100;
FETCH 1 FROM c;
MOVE 99 FROM c;
FETCH 3 FROM c;
MOVE ALL FROM c;
SELECT count(*) FROM scanned;
COMMIT;
SELECT count(*) FROM scanned;
DROP TABLE scanned;

-- Locks that an undone part has taken are taken no more account of: a transaction that undoes many scattered changes goes on locking single rows.
CREATE FUNCTION locked_rows() RETURNS bigint LANGUAGE sql AS
$$ SELECT count(*) FROM pg_locks WHERE locktype = 'tuple' AND relation = 'v'::regclass AND pid = pg_backend_pid() $$;
CALL varve.compact('v');
BEGIN;
DO $$
BEGIN
    FOR i IN 1..600 LOOP
        BEGIN
            UPDATE v SET n = n + 1 WHERE host = i % 4 AND time = '2026-01-01'::timestamptz + (i * 7 % 1000) * interval '10 s';
            RAISE EXCEPTION 'undone';
        EXCEPTION WHEN raise_exception THEN NULL;
        END;
    END LOOP;
END $$;
UPDATE v SET n = n + 1 WHERE host = 1 AND time = '2026-01-01 00:01';
SELECT count(*) AS shares FROM pg_locks WHERE locktype = 'tuple' AND database = 0 AND pid = pg_backend_pid();
SELECT locked_rows() > 0 AS locks_rows;
ROLLBACK;
DROP TABLE v, h, staged;
DROP FUNCTION rows, locked_rows, take, on_both, differences;
