-- DELETE, UPDATE, MERGE, locks and cursors on compressed rows do what they do on a heap's.
CREATE TABLE h(id int, time timestamptz NOT NULL, device text, value float8, note text);
CREATE TABLE v(LIKE h) USING varve;
CREATE INDEX ON v USING varve (device, time);
CREATE VIEW differences AS
    (SELECT 'heap' AS only_in, h::text AS row FROM h EXCEPT ALL SELECT 'heap', v::text FROM v) UNION ALL
    (SELECT 'varve', v::text FROM v EXCEPT ALL SELECT 'varve', h::text FROM h);
CREATE PROCEDURE on_both(statement text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE replace(statement, '{t}', 'h');
    EXECUTE replace(statement, '{t}', 'v');
END $$;

INSERT INTO h SELECT g, '2026-01-01'::timestamptz + g * interval '10 s', 'd' || g % 5, g / 10.0, 'note ' || g % 3
FROM generate_series(1, 20000) g;
INSERT INTO v SELECT * FROM h;
CALL varve.compact('v');
SELECT count(*) > 0 AS compressed FROM varve.chunks('v');
SELECT count(*) AS differences FROM differences;

-- Two deletes in one chunk, of one statement and of two.
CALL on_both('DELETE FROM {t} WHERE id IN (7, 12, 17, 1003)');
CALL on_both('DELETE FROM {t} WHERE id % 100 = 3');
CALL on_both('DELETE FROM {t} WHERE id % 100 = 4');
SELECT count(*) AS differences FROM differences;
DELETE FROM v WHERE id = 7;

-- UPDATE of one row, twice, in one transaction and across transactions; of many; of the key and the time.
CALL on_both('UPDATE {t} SET value = -1 WHERE id = 1001');
BEGIN;
CALL on_both('UPDATE {t} SET value = value - 1 WHERE id IN (1001, 1002)');
CALL on_both('UPDATE {t} SET value = value - 1 WHERE id IN (1001, 1002)');
COMMIT;
CALL on_both('UPDATE {t} SET note = NULL WHERE device = ''d2'' AND id < 5000');
CALL on_both('UPDATE {t} SET device = ''moved'', time = time + interval ''1 day'' WHERE id BETWEEN 9000 AND 9100');
SELECT id, value FROM v WHERE id IN (1001, 1002) ORDER BY id;
SELECT count(*) AS differences FROM differences;

-- The row as RETURNING has it, before and after.
UPDATE v SET value = 0 WHERE id = 42 RETURNING *;
UPDATE h SET value = 0 WHERE id = 42;
DELETE FROM v WHERE id = 43 RETURNING id, device, value;
DELETE FROM h WHERE id = 43;

-- One target row matched twice.
CALL on_both('UPDATE {t} t SET value = s.x FROM (VALUES (50, 1), (50, 1)) s(id, x) WHERE t.id = s.id');
MERGE INTO v USING (VALUES (60), (60)) s(id) ON v.id = s.id WHEN MATCHED THEN UPDATE SET value = 7;
MERGE INTO h USING (VALUES (60), (60)) s(id) ON h.id = s.id WHEN MATCHED THEN UPDATE SET value = 7;
CALL on_both($$MERGE INTO {t} t USING (SELECT g AS id FROM generate_series(19990, 20010) g) s ON t.id = s.id
           WHEN MATCHED AND s.id % 2 = 0 THEN DELETE
           WHEN MATCHED THEN UPDATE SET note = 'merged'
           WHEN NOT MATCHED THEN INSERT VALUES (s.id, '2026-01-10', 'd9', s.id, 'new')$$);
SELECT count(*) AS differences FROM differences;

-- Changes that are rolled back leave nothing.
BEGIN;
SAVEPOINT a;
DELETE FROM v WHERE id % 2 = 0;
SAVEPOINT b;
UPDATE v SET value = 99 WHERE id % 2 = 1;
SELECT count(*), count(*) FILTER (WHERE value = 99) AS changed FROM v;
ROLLBACK TO b;
SELECT count(*), count(*) FILTER (WHERE value = 99) AS changed FROM v;
ROLLBACK TO a;
SELECT count(*) AS differences FROM differences;
ROLLBACK;
SELECT count(*) AS differences FROM differences;

-- A cursor does not see what is changed after it was opened, and changes what it stands on.
BEGIN;
DECLARE c CURSOR FOR SELECT id, value FROM v WHERE id BETWEEN 101 AND 107 ORDER BY id;
FETCH 2 FROM c;
DELETE FROM v WHERE id = 105;
UPDATE v SET value = 0 WHERE id = 106;
FETCH ALL FROM c;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT id, value FROM v WHERE id IN (201, 202) ORDER BY id FOR UPDATE;
FETCH c;
UPDATE v SET value = -5 WHERE CURRENT OF c;
MOVE c;
DELETE FROM v WHERE CURRENT OF c;
COMMIT;
SELECT count(*), count(*) FILTER (WHERE value = -5) AS changed FROM v WHERE id IN (201, 202);
CALL on_both('DELETE FROM {t} WHERE id IN (201, 202)');

-- Locking rows changes none.
SELECT count(*) FROM (SELECT 1 FROM v WHERE device = 'd1' FOR UPDATE) l;
SELECT count(*) FROM (SELECT 1 FROM v WHERE device = 'd1' FOR KEY SHARE) l;

-- A prepared transaction.
BEGIN;
DELETE FROM v WHERE id BETWEEN 300 AND 310;
UPDATE v SET value = 1e9 WHERE id BETWEEN 311 AND 320;
PREPARE TRANSACTION 'changes';
SELECT count(*) AS differences FROM differences;
COMMIT PREPARED 'changes';
DELETE FROM h WHERE id BETWEEN 300 AND 310;
UPDATE h SET value = 1e9 WHERE id BETWEEN 311 AND 320;
SELECT count(*) AS differences FROM differences;

-- Compacting again keeps all of that.
CALL varve.compact('v');
SELECT count(*) AS differences FROM differences;
SELECT count(*) AS faults FROM varve.verify('v');
CALL on_both('DELETE FROM {t}');
SELECT count(*) AS differences FROM differences;
INSERT INTO v VALUES (1, '2026-01-01', 'a', 1, NULL);
TRUNCATE v;
SELECT count(*) FROM v;
SELECT count(*) AS faults FROM varve.verify('v');
DROP VIEW differences;
DROP PROCEDURE on_both;
DROP TABLE h, v;

-- A table that is dropped, emptied or rewritten by the transaction that has changed its compressed rows.
CREATE TABLE v(id int, time timestamptz NOT NULL) USING varve;
INSERT INTO v SELECT g, '2026-01-01'::timestamptz + g * interval '1 s' FROM generate_series(1, 2000) g;
BEGIN;
DELETE FROM v WHERE id % 100 = 0;
TRUNCATE v;
SAVEPOINT s;
ROLLBACK TO s;
ROLLBACK;
BEGIN;
DELETE FROM v WHERE id = 3;
ALTER TABLE v ALTER id TYPE bigint;
UPDATE v SET id = -id WHERE id = 4;
COMMIT;
SELECT count(*), min(id) FROM v;
BEGIN;
UPDATE v SET id = -id WHERE id = 5;
SAVEPOINT s;
DELETE FROM v WHERE id = 6;
TRUNCATE v;
COMMIT;
SELECT count(*) FROM v;
INSERT INTO v SELECT g, '2026-01-01'::timestamptz + g * interval '1 s' FROM generate_series(1, 2000) g;
BEGIN;
DELETE FROM v WHERE id = 3;
SAVEPOINT s;
UPDATE v SET id = -id WHERE id % 100 = 4;
DROP TABLE v;
COMMIT;

-- Clients may make a number of a ctid, with the block and the offset read as signed: DuckDB's UPDATE and DELETE find rows by it.
CREATE TABLE v(id int, time timestamptz NOT NULL) USING varve;
SET varve.batch_rows = 100000;
INSERT INTO v SELECT g, '2026-01-01'::timestamptz + g * interval '1 s' FROM generate_series(1, 150000) g;
RESET varve.batch_rows;
SELECT max(rows) > 40000 AS is_large, count(*) > 1 AS are_several FROM varve.chunks('v');
CREATE TABLE by_number AS
SELECT id, ((block - (block >> 31 << 32)) << 16) + (place - (place >> 15 << 16)) AS number
FROM v, LATERAL (SELECT (ctid::text::point)[0]::bigint AS block, (ctid::text::point)[1]::bigint AS place) AS parts;
SELECT count(*), count(DISTINCT number), max(number & 65535) < 32768 AS are_low FROM by_number;
DELETE FROM v WHERE ctid = ANY (ARRAY(SELECT format('(%s,%s)', number >> 16, number & 65535)::tid FROM by_number WHERE id % 3 = 0));
SELECT count(*), count(*) FILTER (WHERE id % 3 = 0) AS left_over FROM v;
DROP TABLE v, by_number;
