-- Prepared transactions that insert, delete and update compressed rows; the table is compacted while they wait.
CREATE TABLE v(id int, time timestamptz NOT NULL, device text, value int) USING varve;
CREATE INDEX ON v USING varve (device, time);
CREATE TABLE h (LIKE v) USING heap;
CREATE PROCEDURE on_both(statement text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE replace(statement, '{t}', 'v');
    EXECUTE replace(statement, '{t}', 'h');
END $$;
CREATE VIEW differences AS
    (SELECT 'only v' AS which, t.* FROM (TABLE v EXCEPT ALL TABLE h) t) UNION ALL (SELECT 'only h', t.* FROM (TABLE h EXCEPT ALL TABLE v) t);
CALL on_both($$INSERT INTO {t} SELECT g, '2026-01-01'::timestamptz + g * interval '1 s', 'd' || g % 3, g % 100 FROM generate_series(1, 6000) g$$);
CALL varve.compact('v');

-- One that commits and one that is rolled back, on different chunks; a third one holds rows of the tail.
BEGIN;
CALL on_both($$INSERT INTO {t} SELECT g, '2026-01-02'::timestamptz + g * interval '1 s', 'd0', 1 FROM generate_series(6001, 8000) g$$);
CALL on_both($$INSERT INTO {t} VALUES (9001, '2026-01-03', 'd0', 2)$$);
CALL on_both($$DELETE FROM {t} WHERE device = 'd0' AND id % 5 = 0$$);
CALL on_both($$UPDATE {t} SET value = -value WHERE device = 'd0' AND id % 7 = 0$$);
PREPARE TRANSACTION 'varve commits';
BEGIN;
CALL on_both($$INSERT INTO {t} SELECT g, '2026-01-02'::timestamptz + g * interval '1 s', 'd1', 1 FROM generate_series(9002, 11000) g$$);
CALL on_both($$DELETE FROM {t} WHERE device = 'd1' AND id < 3000$$);
CALL on_both($$UPDATE {t} SET value = 0 WHERE device = 'd1' AND id > 5000$$);
PREPARE TRANSACTION 'varve is undone';
CALL on_both($$INSERT INTO {t} VALUES (20001, '2026-01-05', 'd2', 2), (20002, '2026-01-05', 'd2', 2)$$);
BEGIN;
CALL on_both($$DELETE FROM {t} WHERE id = 20001$$);
CALL on_both($$UPDATE {t} SET value = 3 WHERE id = 20002$$);
PREPARE TRANSACTION 'varve tail';

-- What others see and do meanwhile.
SELECT count(*) FROM v;
TABLE differences;
CALL on_both($$INSERT INTO {t} SELECT g, '2026-01-01'::timestamptz + g * interval '2 s', 'd' || g % 3, 5 FROM generate_series(30001, 33000) g$$);
CALL varve.compact('v');
SET lock_timeout = '10ms';
DELETE FROM v WHERE device = 'd0' AND id = 15;
CALL on_both($$DELETE FROM {t} WHERE device = 'd0' AND id = 6$$);
RESET lock_timeout;
SELECT kind, detail FROM varve.verify('v');
TABLE differences;

COMMIT PREPARED 'varve commits';
SELECT kind, detail FROM varve.verify('v');
TABLE differences;
CALL varve.compact('v');
TABLE differences;
ROLLBACK PREPARED 'varve is undone';
COMMIT PREPARED 'varve tail';
SELECT kind, detail FROM varve.verify('v');
TABLE differences;
CALL on_both($$UPDATE {t} SET value = value + 1 WHERE device = 'd1' AND id % 2 = 0$$);
CALL varve.compact('v');
SELECT kind, detail FROM varve.verify('v');
TABLE differences;
SELECT count(*), count(*) FILTER (WHERE value < 0), max(id) FROM v;

-- All rows of a chunk, by both endings.
BEGIN;
DELETE FROM v WHERE device = 'd2';
PREPARE TRANSACTION 'varve d2';
CALL varve.compact('v');
ROLLBACK PREPARED 'varve d2';
TABLE differences;
BEGIN;
CALL on_both($$DELETE FROM {t} WHERE device = 'd2'$$);
PREPARE TRANSACTION 'varve d2';
CALL varve.compact('v');
COMMIT PREPARED 'varve d2';
CALL varve.compact('v');
TABLE differences;
SELECT kind, detail FROM varve.verify('v');
DROP VIEW differences;
DROP TABLE v, h;
DROP PROCEDURE on_both;
