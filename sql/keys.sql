-- PRIMARY KEY, UNIQUE and foreign keys are true on varve tables, whatever was compacted.
CREATE TABLE devices(device text PRIMARY KEY);
INSERT INTO devices SELECT 'd' || g FROM generate_series(0, 4) g;
CREATE TABLE v(device text NOT NULL REFERENCES devices, time timestamptz NOT NULL, value int, PRIMARY KEY (device, time)) USING varve;
INSERT INTO v SELECT 'd' || g % 5, '2026-01-01'::timestamptz + g * interval '1 s', g FROM generate_series(1, 5000) g;
CALL varve.compact('v');
SELECT count(*), sum(value) FROM v;
INSERT INTO v VALUES ('d1', '2026-01-01 00:00:01', 0);
INSERT INTO v VALUES ('d1', '2026-01-01 00:00:02', 0);
INSERT INTO v VALUES ('d9', '2026-01-01', 0);
INSERT INTO v SELECT 'd' || g % 5, '2026-01-01'::timestamptz + g * interval '1 s', g FROM generate_series(4000, 6000) g ON CONFLICT DO NOTHING;
SELECT count(*), sum(value) FROM v;
INSERT INTO v VALUES ('d1', '2026-01-01 00:00:01', 7), ('d1', '2026-01-02 00:00:00', 8) ON CONFLICT (device, time) DO UPDATE SET value = EXCLUDED.value + v.value;
SELECT value FROM v WHERE (device, time) IN (('d1', '2026-01-01 00:00:01'), ('d1', '2026-01-02 00:00:00')) ORDER BY time;
UPDATE v SET time = '2026-01-01 00:00:06' WHERE device = 'd1' AND time = '2026-01-01 00:00:01';
DELETE FROM devices WHERE device = 'd1';
DELETE FROM v WHERE device = 'd1';
DELETE FROM devices WHERE device = 'd1';
CALL varve.compact('v');
SELECT count(*), sum(value) FROM v;
SELECT count(*) AS faults FROM varve.verify('v');

-- A varve table that others refer to.
CREATE TABLE notes(device text, time timestamptz, note text, FOREIGN KEY (device, time) REFERENCES v ON DELETE CASCADE);
INSERT INTO notes VALUES ('d2', '2026-01-01 00:00:02', 'there'), ('d2', '2026-01-01 00:00:07', 'there');
INSERT INTO notes VALUES ('d2', '2026-01-01 00:00:03', 'not there');
DELETE FROM v WHERE device = 'd2' AND time < '2026-01-01 00:00:05';
SELECT * FROM notes;
DROP TABLE notes, v, devices;

-- Keys that are added to rows that are there, and deferred ones.
CREATE TABLE v(id int, time timestamptz NOT NULL) USING varve;
INSERT INTO v VALUES (1, '2026-01-01'), (2, '2026-01-01'), (2, '2026-01-02');
ALTER TABLE v ADD UNIQUE (id);
DELETE FROM v WHERE time = '2026-01-02';
ALTER TABLE v ADD UNIQUE (id) DEFERRABLE INITIALLY DEFERRED;
BEGIN;
INSERT INTO v VALUES (2, '2026-01-03');
UPDATE v SET id = 3 WHERE time = '2026-01-01' AND id = 2;
COMMIT;
BEGIN;
INSERT INTO v VALUES (3, '2026-01-03');
COMMIT;
SELECT * FROM v ORDER BY id;
DROP TABLE v;
