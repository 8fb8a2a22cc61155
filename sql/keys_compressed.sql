-- PRIMARY KEY and UNIQUE over compressed rows: a series index on columns of the key finds them in chunks.
CREATE TABLE v(device text NOT NULL, time timestamptz NOT NULL, value int, PRIMARY KEY (device, time)) USING varve;
CREATE TABLE h(LIKE v INCLUDING ALL);
CREATE INDEX ON v USING varve (device, time);
CREATE FUNCTION at(seconds int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT timestamptz '2026-01-01 00:00:00Z' + seconds * interval '1 s' $$;
CREATE FUNCTION differences() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN RETURN (SELECT count(*) FROM ((SELECT device, time, value::int FROM v EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL SELECT device, time, value::int FROM v)) d); END $$;
INSERT INTO h SELECT 'd' || g % 5, at(g), g FROM generate_series(1, 5000) g;
INSERT INTO v TABLE h;
CALL varve.compact('v');
SELECT rows FROM varve.stats('v') WHERE part = 'chunks';

-- A key is taken, whoever asks: an insert, several rows, COPY, an update of the key, a function that catches the error.
INSERT INTO v VALUES ('d1', at(1), 0);
INSERT INTO v VALUES ('d1', at(2), 0), ('d1', at(6), 0);
COPY v FROM stdin;
d9	2026-01-01 00:00:01Z	0
d1	2026-01-01 00:00:11Z	0
\.
UPDATE v SET time = at(6) WHERE device = 'd1' AND time = at(1);
UPDATE v SET device = 'd2', time = time + interval '1 s' WHERE time IN (at(1), at(2));
DO $$ BEGIN INSERT INTO v VALUES ('d1', at(1), 0); EXCEPTION WHEN unique_violation THEN RAISE NOTICE 'caught: %', SQLERRM; END $$;
SELECT differences();

-- ON CONFLICT, by one row or many, of the tail, fresh and merged chunks; twice the same row in one command.
INSERT INTO v SELECT 'd' || g % 5, at(g), -g FROM generate_series(4990, 5010) g ON CONFLICT DO NOTHING;
INSERT INTO h SELECT 'd' || g % 5, at(g), -g FROM generate_series(4990, 5010) g ON CONFLICT DO NOTHING;
INSERT INTO v SELECT 'd' || g % 5, at(g), g FROM generate_series(4980, 5020) g ON CONFLICT (device, time) DO UPDATE SET value = EXCLUDED.value + v.value;
INSERT INTO h SELECT 'd' || g % 5, at(g), g FROM generate_series(4980, 5020) g ON CONFLICT (device, time) DO UPDATE SET value = EXCLUDED.value + h.value;
SELECT differences();
CALL varve.compact('v');
INSERT INTO v VALUES ('d1', at(1), 1), ('d1', at(1), 2) ON CONFLICT (device, time) DO UPDATE SET value = EXCLUDED.value;
INSERT INTO v VALUES ('d1', at(1), 1) ON CONFLICT (device, time) DO UPDATE SET value = 7 WHERE v.value > 100 RETURNING *;
INSERT INTO v VALUES ('d1', at(1), 1), ('d1', at(5001), 1) ON CONFLICT (device, time) DO UPDATE SET value = v.value + 1 RETURNING *;
INSERT INTO h VALUES ('d1', at(1), 1), ('d1', at(5001), 1) ON CONFLICT (device, time) DO UPDATE SET value = h.value + 1;
SELECT differences();

-- Within one transaction: a key is free when its row is deleted or moved, and taken again when that is undone.
BEGIN;
DELETE FROM v WHERE device = 'd1' AND time = at(1);
INSERT INTO v VALUES ('d1', at(1), 100);
SAVEPOINT s;
DELETE FROM v WHERE device = 'd2';
INSERT INTO v VALUES ('d2', at(2), 200);
ROLLBACK TO s;
SAVEPOINT s;
INSERT INTO v VALUES ('d2', at(2), 200);
ROLLBACK TO s;
UPDATE v SET time = at(-1) WHERE device = 'd2' AND time = at(2);
INSERT INTO v VALUES ('d2', at(2), 300) ON CONFLICT DO NOTHING;
COMMIT;
DELETE FROM h WHERE device = 'd1' AND time = at(1);
INSERT INTO h VALUES ('d1', at(1), 100), ('d2', at(-1), 2);
UPDATE h SET value = 300 WHERE device = 'd2' AND time = at(2);
SELECT differences();
-- All keys move by one step that nobody has taken; then all rows of many chunks change.
UPDATE v SET time = time + interval '100000 s';
UPDATE h SET time = time + interval '100000 s';
UPDATE v SET value = value + 1;
UPDATE h SET value = value + 1;
SELECT differences();
CALL varve.compact('v');
UPDATE v SET time = time - interval '100000 s';
UPDATE h SET time = time - interval '100000 s';
CALL varve.compact('v');
SELECT differences();
SELECT count(*) AS faults FROM varve.verify('v');

-- The key's own index is not used for reading, but still proves that keys are unique.
EXPLAIN (COSTS OFF) SELECT value FROM v WHERE device = 'd1' AND time = at(1);
EXPLAIN (COSTS OFF) SELECT h.value FROM h LEFT JOIN v ON v.device = h.device AND v.time = h.time;

-- Keys that are made and rebuilt over chunks are verified by reading these.
REINDEX TABLE v;
REINDEX INDEX CONCURRENTLY v_pkey;
ALTER TABLE v DROP CONSTRAINT v_pkey;
INSERT INTO v VALUES ('d1', at(6), 0);
ALTER TABLE v ADD PRIMARY KEY (device, time);
CALL varve.compact('v');
ALTER TABLE v ADD PRIMARY KEY (device, time);
CREATE UNIQUE INDEX CONCURRENTLY broken ON v(time, device);
DROP INDEX broken;
DELETE FROM v WHERE device = 'd1' AND time = at(6) AND value = 0;
CREATE UNIQUE INDEX CONCURRENTLY v_other ON v(time DESC, device) INCLUDE (value);
INSERT INTO v VALUES ('d1', at(6), 0);
ALTER TABLE v ADD PRIMARY KEY USING INDEX v_other;
ALTER TABLE v ADD PRIMARY KEY (device, time);
DROP INDEX v_other;
ALTER TABLE v ADD UNIQUE (device, time, value);
INSERT INTO v VALUES ('d1', at(6), 0);
ALTER TABLE v ADD PRIMARY KEY (device, time);
INSERT INTO v VALUES ('d1', at(6), 0);
SELECT differences();

-- Rewrites keep keys.
VACUUM FULL v;
INSERT INTO v VALUES ('d1', at(6), 0);
CLUSTER v USING v_pkey;
INSERT INTO v VALUES ('d1', at(6), 0);
ALTER TABLE v ALTER value TYPE bigint;
INSERT INTO v VALUES ('d1', at(6), 0);
CALL varve.compact('v');
INSERT INTO v VALUES ('d1', at(6), 0);
ALTER TABLE v SET ACCESS METHOD heap;
INSERT INTO v VALUES ('d1', at(6), 0);
ALTER TABLE v SET ACCESS METHOD varve;
CALL varve.compact('v');
INSERT INTO v VALUES ('d1', at(6), 0);
SELECT differences();

-- Without its series index the table is read as a whole for each key; what is new stays in the tail.
DROP INDEX v_device_time_idx;
INSERT INTO v VALUES ('d1', at(6), 0);
INSERT INTO v VALUES ('d1', at(-6), 0);
CALL varve.compact('v');
SELECT rows FROM varve.stats('v') WHERE part = 'tail';
INSERT INTO v VALUES ('d1', at(-6), 0);
ALTER TABLE v ADD UNIQUE (time, value);
TRUNCATE v;
INSERT INTO v VALUES ('d1', at(6), 0), ('d1', at(7), 0);
ALTER TABLE v ADD UNIQUE (value, time);
DROP TABLE v, h;

-- Nulls are not equal; a key of more columns; a key of another order; columns of other types.
CREATE TABLE v(site int, device varchar(10), time timestamp NOT NULL, kind numeric, note text) USING varve;
CREATE INDEX ON v USING varve (device, time);
ALTER TABLE v ADD UNIQUE (time, kind, device);
INSERT INTO v SELECT g % 2, 'd' || g % 3, timestamp '2026-01-01' + (g / 10) * interval '1 min', g % 10, 'x' FROM generate_series(0, 999) g;
INSERT INTO v SELECT 0, NULL, '2026-01-01', 1, 'y' FROM generate_series(1, 3);
INSERT INTO v SELECT 0, 'd0', '2026-01-01', NULL, 'z' FROM generate_series(1, 3);
CALL varve.compact('v');
SELECT sum(rows) FROM varve.stats('v') WHERE part = 'chunks';
INSERT INTO v VALUES (0, 'd0', '2026-01-01', 0.00, '');
INSERT INTO v VALUES (0, 'd0', '2026-01-01', NULL, 'z'), (0, NULL, '2026-01-01', 1, 'y');
INSERT INTO v SELECT g % 2, 'd' || g % 3, timestamp '2026-01-01' + (g / 10) * interval '1 min', g % 10, 'again' FROM generate_series(0, 1009) g ON CONFLICT DO NOTHING;
SELECT note, count(*) FROM v GROUP BY note ORDER BY note;
DROP TABLE v;

-- What keeps a table's rows in the tail, and is refused where it has chunks.
CREATE TABLE v(device text NOT NULL, time timestamptz NOT NULL, value int) USING varve;
CREATE INDEX ON v USING varve (device, time);

CREATE FUNCTION tail_after(definition text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'ALTER TABLE v DROP CONSTRAINT IF EXISTS c';
    DROP INDEX IF EXISTS c;
    EXECUTE definition;
    TRUNCATE v;
    INSERT INTO v VALUES ('d1', '2026-01-01', 1), ('d2', '2026-01-01', 2);
END $$;
SELECT tail_after('CREATE UNIQUE INDEX c ON v(device, time) WHERE value > 0');
CALL varve.compact('v');
SELECT rows FROM varve.stats('v') WHERE part = 'tail';
SELECT tail_after('CREATE UNIQUE INDEX c ON v(lower(device), device, time)');
CALL varve.compact('v');
SELECT rows FROM varve.stats('v') WHERE part = 'tail';
SELECT tail_after('ALTER TABLE v ADD CONSTRAINT c UNIQUE NULLS NOT DISTINCT (device, time)');
CALL varve.compact('v');
SELECT rows FROM varve.stats('v') WHERE part = 'tail';
SELECT tail_after('ALTER TABLE v ADD CONSTRAINT c UNIQUE (value)');
CALL varve.compact('v');
SELECT rows FROM varve.stats('v') WHERE part = 'tail';
SELECT tail_after('ALTER TABLE v ADD CONSTRAINT c EXCLUDE USING btree (value WITH =)');
CALL varve.compact('v');
SELECT rows FROM varve.stats('v') WHERE part = 'tail';
SELECT tail_after('SELECT');
CALL varve.compact('v');
SELECT rows FROM varve.stats('v') WHERE part = 'tail';
CREATE UNIQUE INDEX c ON v(device, time) WHERE value > 0;
ALTER TABLE v ADD CONSTRAINT c UNIQUE (value);
ALTER TABLE v DROP CONSTRAINT c;
ALTER TABLE v ADD CONSTRAINT c EXCLUDE USING btree (value WITH =);
ALTER TABLE v ADD CONSTRAINT c UNIQUE (device, time);
INSERT INTO v VALUES ('d1', '2026-01-01', 1);
-- A foreign key that comes later finds and locks compressed rows.
CREATE TABLE notes(device text, time timestamptz, FOREIGN KEY (device, time) REFERENCES v(device, time) ON DELETE CASCADE);
INSERT INTO notes VALUES ('d1', '2026-01-01'), ('d2', '2026-01-01');
INSERT INTO notes VALUES ('d1', '2026-01-02');
INSERT INTO v VALUES ('d1', '2026-01-02', 1);
INSERT INTO v VALUES ('d1', '2026-01-01', 1);
CALL varve.compact('v');
SELECT rows FROM varve.stats('v') WHERE part = 'tail';
DELETE FROM v WHERE device = 'd2';
SELECT device FROM notes;
INSERT INTO v VALUES ('d1', '2026-01-01', 1), ('d2', '2026-01-01', 1) ON CONFLICT DO NOTHING;
DROP TABLE notes, v;
DROP FUNCTION tail_after, differences, at;
