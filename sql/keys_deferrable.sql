-- Deferrable keys over compressed rows: each statement runs on a heap and on a varve table, and must end alike.
CREATE TABLE h(id int, time timestamptz, value int, UNIQUE (id, time) DEFERRABLE INITIALLY IMMEDIATE);
CREATE TABLE v(id int, time timestamptz, value int, UNIQUE (id, time) DEFERRABLE INITIALLY IMMEDIATE) USING varve;
CREATE INDEX ON v USING varve (id, time);
INSERT INTO h SELECT g % 3, '2026-01-01'::timestamptz + g / 3 * interval '1 s', g FROM generate_series(0, 2999) g;
INSERT INTO v SELECT * FROM h;
CALL varve.compact('v');
SELECT count(*) > 0 AS compressed FROM varve.chunks('v');
CREATE VIEW differences AS
    (SELECT 'heap' AS only_in, h::text AS row FROM h EXCEPT ALL SELECT 'heap', v::text FROM v) UNION ALL
    (SELECT 'varve', v::text FROM v EXCEPT ALL SELECT 'varve', h::text FROM h);

-- A whole series moves by a second: each row to where the next one is, which moves later in the statement.
UPDATE h SET time = time + interval '1 s' WHERE id = 1;
UPDATE v SET time = time + interval '1 s' WHERE id = 1;
UPDATE h SET time = time - interval '1 s' WHERE id = 2 AND value BETWEEN 1000 AND 1100;
UPDATE v SET time = time - interval '1 s' WHERE id = 2 AND value BETWEEN 1000 AND 1100;
SELECT * FROM differences;
-- Keys are swapped, and taken, within a statement.
UPDATE h SET id = CASE id WHEN 0 THEN 2 ELSE 0 END WHERE id IN (0, 2) AND value < 300;
UPDATE v SET id = CASE id WHEN 0 THEN 2 ELSE 0 END WHERE id IN (0, 2) AND value < 300;
UPDATE h SET id = 0 WHERE id = 1 AND value = 1501;
UPDATE v SET id = 0 WHERE id = 1 AND value = 1501;
INSERT INTO h VALUES (0, '2026-01-01 00:10:00', -1);
INSERT INTO v VALUES (0, '2026-01-01 00:10:00', -1);
SELECT * FROM differences;
-- What the statement may not leave behind, the transaction may, for a while.
CREATE PROCEDURE pg_temp.on_both(statements text) LANGUAGE plpgsql AS $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['h', 'v'] LOOP
        BEGIN
            SET CONSTRAINTS ALL DEFERRED;
            EXECUTE replace(statements, '{t}', t);
            SET CONSTRAINTS ALL IMMEDIATE;
            RAISE NOTICE '%: done', t;
        EXCEPTION WHEN OTHERS THEN
            RAISE NOTICE '%: % %', t, SQLSTATE, SQLERRM;
        END;
    END LOOP;
END $$;
CALL pg_temp.on_both($$INSERT INTO {t} VALUES (0, '2026-01-01 00:10:00', -1)$$);
CALL pg_temp.on_both($$INSERT INTO {t} VALUES (0, '2026-01-01 00:10:00', -1); DELETE FROM {t} WHERE id = 0 AND time = '2026-01-01 00:10:00' AND value > 0$$);
CALL pg_temp.on_both($$INSERT INTO {t} VALUES (0, '2026-01-01 00:11:00', -2); UPDATE {t} SET id = 7 WHERE id = 0 AND time = '2026-01-01 00:11:00' AND value > 0$$);
CALL pg_temp.on_both($$UPDATE {t} SET id = 0 WHERE id = 1 AND value = 1501; UPDATE {t} SET id = 8 WHERE id = 0 AND value = 1503$$);
CALL pg_temp.on_both($$UPDATE {t} SET id = 0 WHERE id = 1 AND value < 1300; UPDATE {t} SET id = id WHERE id = 0$$);
CALL pg_temp.on_both($$UPDATE {t} SET id = 0 WHERE id = 1 AND value = 1507; DELETE FROM {t} WHERE value = 1507$$);
CALL pg_temp.on_both($$INSERT INTO {t} SELECT id, time, value + 10000 FROM {t} WHERE id = 2; DELETE FROM {t} WHERE id = 2 AND value < 10000$$);
SELECT * FROM differences;
-- The same in transactions that end.
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO v VALUES (0, '2026-01-01 00:12:00', -3);
SAVEPOINT a;
DELETE FROM v WHERE id = 0 AND time = '2026-01-01 00:12:00' AND value > 0;
ROLLBACK TO a;
COMMIT;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO v VALUES (0, '2026-01-01 00:12:00', -3);
SAVEPOINT a;
DELETE FROM v WHERE id = 0 AND time = '2026-01-01 00:12:00' AND value > 0;
RELEASE a;
COMMIT;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO v VALUES (0, '2026-01-01 00:13:00', -4);
PREPARE TRANSACTION 'not unique';
SELECT value FROM v WHERE id = 0 AND time IN ('2026-01-01 00:12:00', '2026-01-01 00:13:00') ORDER BY time;
-- Constraints come and go over chunks.
DELETE FROM v WHERE id = 0 AND time = '2026-01-01 00:12:00';
CALL varve.compact('v');
ALTER TABLE v DROP CONSTRAINT v_id_time_key;
ALTER TABLE v ADD PRIMARY KEY (id, time) DEFERRABLE INITIALLY DEFERRED;
INSERT INTO v VALUES (0, '2026-01-01 00:13:00', -4);
ALTER TABLE v ADD UNIQUE (value) DEFERRABLE;
UPDATE v SET value = value + 1;
INSERT INTO v VALUES (9, '2026-01-01', 2);
ALTER TABLE v DROP CONSTRAINT v_pkey;
INSERT INTO v SELECT id, time, value + 100000 FROM v WHERE id = 2 AND value < 10500;
CALL varve.compact('v');
ALTER TABLE v ADD UNIQUE (id, time) DEFERRABLE;
SELECT count(*) AS faults FROM varve.verify('v');
DROP VIEW differences;
DROP TABLE h, v;
