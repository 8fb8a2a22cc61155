-- INSERT … SELECT … ON CONFLICT DO NOTHING leaves out rows whose keys compressed rows have before core looks at them, and ends as on a heap.
SET varve.batch_rows = 50;
CREATE FUNCTION at(seconds int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT timestamptz '2026-01-01 00:00:00Z' + seconds * interval '1 s' $$;
CREATE PROCEDURE on_both(statement text) LANGUAGE plpgsql AS $$
DECLARE ended text[]; what text; detail text; rows bigint;
BEGIN
    FOREACH what IN ARRAY ARRAY['h', 'v'] LOOP
        BEGIN
            EXECUTE replace(statement, '{t}', what);
            GET DIAGNOSTICS rows = ROW_COUNT;
            ended := ended || (rows || ' rows');
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS what = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
            ended := ended || (regexp_replace(what, '"[hv]("|_)', '"{t}\1', 'g') || '; ' || detail);
        END;
    END LOOP;
    IF ended[1] <> ended[2] THEN RAISE EXCEPTION 'heap: %, varve: %', ended[1], ended[2]; END IF;
    RAISE NOTICE '%', ended[1];
END $$;
-- How many rows the conflict filter of a statement leaves out; null where it has none.
CREATE FUNCTION left_out(statement text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || statement INTO plan;
    RETURN jsonb_path_query_first(plan::jsonb, '$.**."Rows Removed by Taken Keys"')::int;
END $$;
CREATE TABLE h(gone int, device text, time timestamptz NOT NULL, value int, id int DEFAULT 7, UNIQUE (device, time));
CREATE TABLE v(gone int, device text, time timestamptz NOT NULL, value int, id int DEFAULT 7, UNIQUE (device, time)) USING varve;
ALTER TABLE h DROP COLUMN gone;
ALTER TABLE v DROP COLUMN gone;
\set ECHO none
\i sql/include/differences.psql
\set ECHO all

CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), g FROM generate_series(1, 2000) g$$);
CREATE TABLE s AS TABLE h;
EXPLAIN (COSTS OFF) INSERT INTO v SELECT * FROM s ON CONFLICT DO NOTHING;
EXPLAIN (COSTS OFF, VERBOSE) INSERT INTO v(time, device) SELECT time, device FROM s WHERE value > 3 ON CONFLICT (device, time) DO NOTHING;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) INSERT INTO v SELECT * FROM s ON CONFLICT DO NOTHING;
-- Nothing, something, in turns: in chunks, and after compact.
CALL on_both($$INSERT INTO {t} SELECT * FROM s ON CONFLICT DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), -g FROM generate_series(1900, 2100) g ON CONFLICT DO NOTHING$$);
CALL varve.compact('v');
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), -g FROM generate_series(2200, 1900, -1) g ON CONFLICT (device, time) DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 6, at(g), -g FROM generate_series(1, 2000) g ON CONFLICT DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 7, at(g % 300), -g FROM generate_series(1, 2000) g ON CONFLICT DO NOTHING$$);
SELECT differences();
DROP TABLE s;
CREATE TABLE s AS TABLE h;
SELECT left_out($$INSERT INTO v SELECT * FROM s ON CONFLICT DO NOTHING$$) < (SELECT count(*) FROM s) AS tail_is_cores;
CALL varve.compact('v');
SELECT left_out($$INSERT INTO v SELECT * FROM s ON CONFLICT DO NOTHING$$) = (SELECT count(*) FROM s) AS all_left_out;
-- Rows that are returned, triggers after each row, nulls in a key, columns that are given or not, in another order.
CALL on_both($$WITH new AS (INSERT INTO {t} SELECT 'r' || g % 3, at(g % 400), g FROM generate_series(1, 2000) g ON CONFLICT DO NOTHING RETURNING *) UPDATE {t} SET id = 1 FROM new WHERE {t}.device = 'd1' AND {t}.time = new.time$$);
CALL on_both($$INSERT INTO {t} SELECT CASE WHEN g % 2 = 0 THEN 'd0' END, at(g), g FROM generate_series(1, 100) g ON CONFLICT DO NOTHING$$);
CALL on_both($$INSERT INTO {t}(time, device) SELECT at(g), 'd' || g % 5 FROM generate_series(1990, 2500) g ON CONFLICT DO NOTHING$$);
CALL on_both($$INSERT INTO {t}(id, time, device) SELECT g, at(g), 'd' || g % 5 FROM generate_series(2490, 2600) g ORDER BY g DESC LIMIT 90 ON CONFLICT DO NOTHING$$);
SELECT differences();
-- An error of a row whose key is taken.
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, CASE WHEN g <> 70 THEN at(g) END, g FROM generate_series(1, 100) g ON CONFLICT DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), 1 / (g - 70) FROM generate_series(1, 100) g ON CONFLICT DO NOTHING$$);
DELETE FROM h WHERE value IS NULL OR device IS NULL;
DELETE FROM v WHERE value IS NULL OR device IS NULL;
ALTER TABLE h ALTER value SET NOT NULL;
ALTER TABLE v ALTER value SET NOT NULL;
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), NULLIF(g, 70) FROM generate_series(1, 100) g ON CONFLICT DO NOTHING$$);
-- What this transaction, or a part of it that was undone, has deleted and brought.
BEGIN;
CALL on_both($$DELETE FROM {t} WHERE device = 'd2' AND time < at(500)$$);
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), -g FROM generate_series(1, 1000) g ON CONFLICT DO NOTHING$$);
SAVEPOINT s;
CALL on_both($$DELETE FROM {t} WHERE device = 'd3'$$);
CALL on_both($$UPDATE {t} SET time = time + interval '1 day' WHERE device = 'd4'$$);
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), -g FROM generate_series(1, 1000) g ON CONFLICT DO NOTHING$$);
ROLLBACK TO s;
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), -g FROM generate_series(1, 1000) g ON CONFLICT DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), -g FROM generate_series(5001, 6000) g$$);
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), -g FROM generate_series(5501, 6500) g ON CONFLICT DO NOTHING$$);
COMMIT;
CALL on_both($$WITH gone AS (DELETE FROM {t} WHERE device = 'd1' AND time < at(1500) RETURNING device, time, value)
    INSERT INTO {t} SELECT device, time, value + 1 FROM gone ON CONFLICT DO NOTHING$$);
SELECT differences();
DROP TABLE s;
CREATE TABLE s AS TABLE h;
-- In REPEATABLE READ a row that the snapshot does not show is an error, so core does everything.
BEGIN ISOLATION LEVEL REPEATABLE READ;
CALL on_both($$INSERT INTO {t} SELECT * FROM s ON CONFLICT DO NOTHING$$);
SELECT left_out($$INSERT INTO v SELECT * FROM s ON CONFLICT DO NOTHING$$);
COMMIT;
-- Two keys: with an arbiter, the other one is an error. Deferrable keys are no arbiters.
ALTER TABLE h ADD COLUMN part int, ADD CONSTRAINT h_two UNIQUE (device, time, part);
ALTER TABLE v ADD COLUMN part int, ADD CONSTRAINT v_two UNIQUE (device, time, part);
ALTER TABLE h DROP CONSTRAINT h_device_time_key;
ALTER TABLE v DROP CONSTRAINT v_device_time_key;
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), -g, 0, 0 FROM generate_series(1, 1000) g ON CONFLICT DO NOTHING$$);
UPDATE h SET part = 1 WHERE part IS NULL;
UPDATE v SET part = 1 WHERE part IS NULL;
CALL varve.compact('v');
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), -g, 0, g % 4 FROM generate_series(1, 1000) g ON CONFLICT DO NOTHING$$);
CALL varve.compact('v');
UPDATE h SET id = part;
UPDATE v SET id = part;
CALL varve.compact('v');
CREATE UNIQUE INDEX h_other ON h (time, device, id);
CREATE UNIQUE INDEX v_other ON v (time, device, id);
DROP TABLE s;
CREATE TABLE s AS SELECT * FROM h ORDER BY device, time, part;
CALL on_both($$INSERT INTO {t} SELECT device, time, value, id, 9 FROM s ON CONFLICT (device, time, part) DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT device, time, value, id, 9 FROM s ON CONFLICT (device, time, id) DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT device, time, value, 9, part FROM s ON CONFLICT ON CONSTRAINT {t}_two DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT device, time, value, 9, part FROM s ON CONFLICT ON CONSTRAINT {t}_three DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT device, time, value, 9, part FROM s ON CONFLICT (value) DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT device, time, value, id, 9 FROM s ON CONFLICT DO NOTHING$$);
SELECT left_out($$INSERT INTO v SELECT device, time, value, id, 9 FROM s ON CONFLICT DO NOTHING$$) = (SELECT count(*) FROM s) AS all_left_out;
SELECT differences();
DROP INDEX h_other, v_other;
ALTER TABLE h DROP CONSTRAINT h_two, ADD UNIQUE (device, time, part) DEFERRABLE;
ALTER TABLE v DROP CONSTRAINT v_two, ADD UNIQUE (device, time, part) DEFERRABLE;
CALL on_both($$INSERT INTO {t} SELECT * FROM s ON CONFLICT DO NOTHING$$);
ALTER TABLE h DROP CONSTRAINT h_device_time_part_key, ADD CONSTRAINT h_pkey PRIMARY KEY (device, time, part);
ALTER TABLE v DROP CONSTRAINT v_device_time_part_key, ADD CONSTRAINT v_pkey PRIMARY KEY (device, time, part);
-- A prepared statement learns that the table has got what core must see to before it looks at keys.
PREPARE again AS INSERT INTO v SELECT * FROM s ON CONFLICT DO NOTHING;
EXPLAIN (COSTS OFF) EXECUTE again;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.value = 70 THEN RAISE 'refused %', NEW.value; END IF; RETURN NEW; END $$;
CREATE TRIGGER refuses BEFORE INSERT ON h FOR EACH ROW EXECUTE FUNCTION refuse();
CREATE TRIGGER refuses BEFORE INSERT ON v FOR EACH ROW EXECUTE FUNCTION refuse();
CALL on_both($$INSERT INTO {t} VALUES ('x', at(1), 70, 1, 1)$$);
EXPLAIN (COSTS OFF) EXECUTE again;
DROP TRIGGER refuses ON h;
DROP TRIGGER refuses ON v;
ALTER TABLE h ADD CONSTRAINT small CHECK (value < 100000);
ALTER TABLE v ADD CONSTRAINT small CHECK (value < 100000);
CALL on_both($$INSERT INTO {t} SELECT device, time, 100000, id, part FROM s ON CONFLICT DO NOTHING$$);
ALTER TABLE h DROP CONSTRAINT small;
ALTER TABLE v DROP CONSTRAINT small;
CREATE POLICY small ON h WITH CHECK (value < 100000);
CREATE POLICY small ON v WITH CHECK (value < 100000);
ALTER TABLE h ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE v ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE ROLE sifter;
GRANT ALL ON h, v TO sifter;
SET ROLE sifter;
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), 100000, 7, 1 FROM generate_series(1, 1000) g ON CONFLICT DO NOTHING$$);
RESET ROLE;
REVOKE ALL ON h, v FROM sifter;
DROP ROLE sifter;
ALTER TABLE h DISABLE ROW LEVEL SECURITY;
ALTER TABLE v DISABLE ROW LEVEL SECURITY;
ALTER TABLE h ADD COLUMN inverse int GENERATED ALWAYS AS (1 / (value - 77777)) STORED;
ALTER TABLE v ADD COLUMN inverse int GENERATED ALWAYS AS (1 / (value - 77777)) STORED;
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), 77777, 7, 1 FROM generate_series(1, 1000) g ON CONFLICT DO NOTHING$$);
EXPLAIN (COSTS OFF) EXECUTE again;
ALTER TABLE h DROP COLUMN inverse;
ALTER TABLE v DROP COLUMN inverse;
-- Sources of all kinds, through views and several in one statement.
CREATE TABLE parts(device text, time timestamptz, value int, id int, part int) PARTITION BY LIST (device);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES IN ('d0', 'd1');
CREATE TABLE parts2 PARTITION OF parts DEFAULT;
INSERT INTO parts SELECT * FROM s;
CREATE VIEW seen_h AS SELECT part, value, time, device FROM h;
CREATE VIEW seen_v AS SELECT part, value, time, device FROM v;
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), 1, 1, 1 FROM (SELECT generate_series(1, 9000) g) x ON CONFLICT DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT 'd' || generate_series(1, 9100) % 5, at(generate_series(1, 9100)), 1, 1, 1 ON CONFLICT DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT * FROM s UNION ALL SELECT device, time, value, 1, part + 10 FROM s UNION ALL SELECT * FROM s ON CONFLICT DO NOTHING$$);
CALL varve.compact('v');
CALL on_both($$INSERT INTO {t} SELECT * FROM parts ON CONFLICT DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT device, time, (SELECT max(value) FROM parts p WHERE p.device = s.device), 1, part FROM s ON CONFLICT DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT device, max(time), 1, g, max(part) FROM generate_series(1, 100) g, s WHERE value > g GROUP BY device, g ON CONFLICT DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT device, time, row_number() OVER (ORDER BY time), 1, part FROM s ON CONFLICT DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT s.device, x.time, 1, 1, s.part FROM s, LATERAL (SELECT time FROM parts p WHERE p.device = s.device AND p.time = s.time LIMIT 1) x ON CONFLICT DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT * FROM s FOR UPDATE ON CONFLICT DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT device::varchar(2), time::text::timestamptz, '5', 1, part::numeric FROM s ON CONFLICT DO NOTHING$$);
CALL on_both($$INSERT INTO {t} SELECT device, time + interval '1 ms', value, 1, part FROM {t} WHERE time > at(8900) ON CONFLICT DO NOTHING$$);
CALL on_both($$INSERT INTO seen_{t} SELECT part, value, time, device FROM s ON CONFLICT DO NOTHING$$);
SELECT left_out($$INSERT INTO seen_v SELECT part, value, time, device FROM parts ON CONFLICT DO NOTHING$$) > 0 AS through_views;
CALL on_both($$WITH a AS (INSERT INTO {t} SELECT * FROM s ON CONFLICT DO NOTHING RETURNING *),
    b AS (INSERT INTO {t} SELECT device, time + interval '1 day', 0, 0, part FROM s ON CONFLICT DO NOTHING RETURNING *)
    UPDATE {t} SET value = 0 FROM b WHERE {t}.device = b.device AND {t}.part = b.part AND {t}.time = b.time - interval '1 day'$$);
SELECT differences();
DROP VIEW seen_h, seen_v;
-- A partition, alone and by its parent; a few rows; the same volatile expression twice.
SELECT differences();
CREATE TABLE p(device int, time timestamptz NOT NULL, a float8, b float8, PRIMARY KEY (device, time)) PARTITION BY RANGE (time);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (at(0)) TO (at(1001)) USING varve;
INSERT INTO p SELECT g % 5, at(g), g, g FROM generate_series(1, 1000) g;
INSERT INTO p SELECT * FROM p ON CONFLICT DO NOTHING;
INSERT INTO p1 SELECT * FROM p ON CONFLICT DO NOTHING;
SELECT count(*) FROM p;
CREATE TABLE w(device int, time timestamptz NOT NULL, a float8, b float8, PRIMARY KEY (device, time)) USING varve;
INSERT INTO w SELECT g % 5, at(g), g, g FROM generate_series(1, 1000) g;
EXPLAIN (COSTS OFF) INSERT INTO w SELECT g % 5, at(g), g, g FROM generate_series(1, 49) g ON CONFLICT DO NOTHING;
INSERT INTO w SELECT g % 5, at(g), random(), random() FROM generate_series(1, 1100) g ON CONFLICT DO NOTHING;
SELECT count(*), count(*) FILTER (WHERE a = b) AS equal FROM w;
SELECT left_out($$INSERT INTO w SELECT g % 5, at(g), random(), g FROM generate_series(1, 1000) g ON CONFLICT DO NOTHING$$);
SELECT * FROM varve.verify('v');
SELECT * FROM varve.verify('w');
DEALLOCATE again;
DROP TABLE h, v, s, p, w, parts;
DROP FUNCTION differences, left_out, at, refuse;
DROP PROCEDURE on_both;
RESET varve.batch_rows;
