-- A statement that deletes rows of chunks which lie side by side writes a note for each chunk, also where its transaction goes on. Beside a heap.
CREATE TABLE v(host int NOT NULL, time timestamptz NOT NULL, n int, PRIMARY KEY (host, time)) USING varve;
CREATE TABLE h(LIKE v INCLUDING ALL) USING heap;
CREATE FUNCTION fill() RETURNS void LANGUAGE sql AS $$
    TRUNCATE v, h;
    INSERT INTO h SELECT i % 4, '2026-01-01'::timestamptz + i / 4 * interval '10 s', i FROM generate_series(0, 39999) i;
    INSERT INTO v SELECT * FROM h ORDER BY host, time;
$$;
-- How many rows a statement says that it has changed, on both, and whether the same are left. %s stands for the table.
\set ECHO none
\i sql/include/on_both.psql
\set ECHO all
-- Headers that are where they were when this was last asked.
CREATE TABLE headers AS SELECT ''::text AS header WHERE false;
CREATE FUNCTION headers_that_stayed() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    stayed bigint;
BEGIN
    SELECT count(*) INTO stayed FROM headers JOIN varve.chunks('v') c ON c.header::text = headers.header;
    DELETE FROM headers;
    INSERT INTO headers SELECT c.header::text FROM varve.chunks('v') c;
    RETURN stayed;
END $$;

SELECT fill();
CALL varve.compact('v');
ANALYZE v;
SELECT headers_that_stayed();
-- On its own.
SELECT * FROM on_both('DELETE FROM %s WHERE time < ''2026-01-01 06:00''');
SELECT headers_that_stayed();
SELECT sum(rows) AS rows, sum(deleted) AS deleted FROM varve.chunks('v');
SELECT count(*), min(time), max(n) FROM v WHERE host = 2;

-- In a transaction that goes on: several notes, single rows, rows that are gone already, what is rolled back.
BEGIN;
SELECT * FROM on_both('DELETE FROM %s WHERE time < ''2026-01-01 07:00''');
SELECT * FROM on_both('DELETE FROM %s WHERE time < ''2026-01-01 07:00''');
SELECT * FROM on_both('UPDATE %s SET n = -n WHERE host = 1 AND time = ''2026-01-01 10:00''');
SAVEPOINT one;
SELECT * FROM on_both('DELETE FROM %s WHERE time < ''2026-01-01 08:00'' AND host > 1');
SELECT count(*) FROM v WHERE time < '2026-01-01 08:00';
SAVEPOINT two;
SELECT * FROM on_both('DELETE FROM %s WHERE host < 2');
ROLLBACK TO two;
SELECT * FROM on_both('DELETE FROM %s WHERE time BETWEEN ''2026-01-01 20:00'' AND ''2026-01-01 21:00''');
RELEASE two;
ROLLBACK TO one;
SELECT count(*) FROM v WHERE time < '2026-01-01 08:00';
SELECT * FROM on_both('DELETE FROM %s WHERE time > ''2026-01-02''');
COMMIT;
SELECT * FROM on_both('UPDATE %s SET n = n + 1 WHERE host = 1 AND time = ''2026-01-01 10:00''');
SELECT count(*) AS faults FROM varve.verify('v');

-- A cursor goes on seeing what it saw, whatever was written before and after it was opened.
BEGIN;
SELECT * FROM on_both('DELETE FROM %s WHERE time < ''2026-01-01 09:00''');
DECLARE cv CURSOR FOR SELECT count(*), min(time), sum(n) FROM v;
DECLARE ch CURSOR FOR SELECT count(*), min(time), sum(n) FROM h;
SELECT * FROM on_both('DELETE FROM %s WHERE time < ''2026-01-01 10:00''');
DECLARE dv CURSOR FOR SELECT count(*), min(time), sum(n) FROM v;
DECLARE dh CURSOR FOR SELECT count(*), min(time), sum(n) FROM h;
SELECT * FROM on_both('DELETE FROM %s WHERE host = 3');
FETCH cv;
FETCH ch;
FETCH dv;
FETCH dh;
ROLLBACK;
SELECT * FROM on_both('DELETE FROM %s WHERE false');

-- A transaction of one snapshot; a rewrite behind a note; what is left goes row by row and all at once.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM on_both('DELETE FROM %s WHERE time < ''2026-01-01 09:30''');
SELECT * FROM on_both('DELETE FROM %s WHERE time > ''2026-01-01 23:00''');
COMMIT;
BEGIN;
SELECT * FROM on_both('DELETE FROM %s WHERE time < ''2026-01-01 10:30'' AND host = 1');
ALTER TABLE v ALTER n TYPE bigint;
ALTER TABLE h ALTER n TYPE bigint;
SELECT * FROM on_both('DELETE FROM %s WHERE time < ''2026-01-01 10:30'' AND host = 2');
COMMIT;
CALL varve.compact('v');
BEGIN;
SELECT * FROM on_both('DELETE FROM %s WHERE time < ''2026-01-01 11:00''');
CLUSTER v USING v_pkey_series;
SELECT * FROM on_both('DELETE FROM %s WHERE host = 0 AND time < ''2026-01-01 12:00''');
COMMIT;
SELECT * FROM on_both('DELETE FROM %s WHERE host = 0');
DO $$
DECLARE
    row record;
BEGIN
    FOR row IN SELECT * FROM h WHERE host = 1 ORDER BY time LIMIT 200 LOOP
        DELETE FROM v WHERE host = row.host AND time = row.time;
        DELETE FROM h WHERE host = row.host AND time = row.time;
    END LOOP;
END $$;
SELECT * FROM on_both('DELETE FROM %s WHERE host <> 2');
SELECT count(*) AS faults FROM varve.verify('v');
CALL varve.compact('v');
SELECT * FROM on_both('DELETE FROM %s');
SELECT count(*) AS faults FROM varve.verify('v');

-- A function that changes what the statement around it reads.
SELECT fill();
CALL varve.compact('v');
CREATE FUNCTION clear(tab regclass, whose int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    gone int;
BEGIN
    EXECUTE format('DELETE FROM %s WHERE host = $1', tab) USING whose;
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;
SELECT host, count(*), clear('v', (host + 1) % 4) AS cleared FROM v GROUP BY host ORDER BY host;
SELECT host, count(*), clear('h', (host + 1) % 4) AS cleared FROM h GROUP BY host ORDER BY host;
SELECT * FROM on_both('DELETE FROM %s WHERE false');
-- A statement that is the client's own.
SELECT fill();
CALL varve.compact('v');
SELECT headers_that_stayed() >= 0 AS asked;
DELETE FROM v WHERE time < '2026-01-01 06:00';
DELETE FROM h WHERE time < '2026-01-01 06:00';
SELECT headers_that_stayed(), differences();
DROP TABLE v, h, headers;
DROP FUNCTION fill, on_both, differences, headers_that_stayed, clear;
