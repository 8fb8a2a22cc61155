-- A note that was rolled back leaves its slot, and its place when it is vacuumed, to another note, which its writer may have to take back.
CREATE TABLE h(device int, time timestamptz, value int, PRIMARY KEY (device, time)) USING heap;
CREATE TABLE v(device int, time timestamptz, value int, PRIMARY KEY (device, time)) USING varve;
INSERT INTO h SELECT 1, '2026-01-01'::timestamptz + g * interval '1 s', g FROM generate_series(1, 1000) g;
INSERT INTO v TABLE h;
CALL varve.compact('v');
CREATE FUNCTION gone(n int) RETURNS void LANGUAGE sql AS $$
    DELETE FROM h WHERE device = 1 AND time = '2026-01-01'::timestamptz + n * interval '1 s';
    DELETE FROM v WHERE device = 1 AND time = '2026-01-01'::timestamptz + n * interval '1 s';
$$;
CREATE FUNCTION seen() RETURNS TABLE(n int, in_heap boolean, in_varve boolean) LANGUAGE sql SET enable_seqscan = off AS $$
    SELECT n, EXISTS (SELECT FROM h WHERE device = 1 AND time = '2026-01-01'::timestamptz + n * interval '1 s'),
           EXISTS (SELECT FROM v WHERE device = 1 AND time = '2026-01-01'::timestamptz + n * interval '1 s')
    FROM generate_series(100, 700, 100) n;
$$;
-- A chunk of so few rows has four slots: one of a transaction that is prepared and rolled back, and three others. The place of the first is
-- that of the fifth, so no slot is free when that is written.
BEGIN;
SELECT gone(100);
PREPARE TRANSACTION 'rolled_back_notes';
ROLLBACK PREPARED 'rolled_back_notes';
SELECT gone(200);
SELECT gone(300);
SELECT gone(400);
SELECT * FROM seen();
VACUUM v;
SELECT gone(500);
SELECT * FROM seen();
SELECT gone(600);
SELECT * FROM seen();
SELECT count(*), sum(value) FROM h;
SELECT count(*), sum(value) FROM v;
SELECT * FROM varve.verify('v');
DROP TABLE h, v;
DROP FUNCTION gone, seen;
