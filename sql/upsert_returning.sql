-- Clients tell an upsert's updates from its inserts by xmax, which is 0 in new rows alone.
CREATE TABLE ur_heap(time timestamptz, sensor int, value float8, PRIMARY KEY (sensor, time));
CREATE TABLE ur(time timestamptz, sensor int, value float8, PRIMARY KEY (sensor, time)) USING varve;
CREATE FUNCTION at(i int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT '2026-01-01'::timestamptz + i * interval '1 s' $$;
INSERT INTO ur_heap SELECT at(t), s, t FROM generate_series(1, 500) t, generate_series(1, 4) s;
INSERT INTO ur SELECT * FROM ur_heap;
CALL varve.compact('ur');
-- Those of sensor 5 are in the tail.
INSERT INTO ur_heap VALUES (at(1), 5, 1), (at(2), 5, 2);
INSERT INTO ur VALUES (at(1), 5, 1), (at(2), 5, 2);
CREATE FUNCTION upsert(rows text) RETURNS TABLE (name text, sensor int, inserted bool, count bigint) LANGUAGE plpgsql AS $$
BEGIN
    FOREACH name IN ARRAY ARRAY['ur_heap', 'ur'] LOOP
        RETURN QUERY EXECUTE format('WITH done AS (INSERT INTO %s %s ON CONFLICT (sensor, time) DO UPDATE SET value = EXCLUDED.value
            RETURNING sensor, xmax::text = ''0'' AS inserted) SELECT %L, sensor, inserted, count(*) FROM done GROUP BY 2, 3 ORDER BY 2, 3', name, rows, name);
    END LOOP;
END $$;
SELECT * FROM upsert('VALUES (at(7), 1, -1), (at(1), 5, -1), (at(1), 6, -1)');
-- Once more: what was compressed is in the tail now.
SELECT * FROM upsert('VALUES (at(7), 1, -2), (at(1), 5, -2), (at(1), 6, -2)');
-- So many rows that the chunk is locked instead of them.
SELECT * FROM upsert('SELECT at(t), s, -3 FROM generate_series(401, 600) t, generate_series(2, 3) s');
-- An update that has not locked its row before, and one that has.
UPDATE ur_heap SET value = 1 WHERE sensor = 4 AND time = at(3) RETURNING xmax;
UPDATE ur SET value = 1 WHERE sensor = 4 AND time = at(3) RETURNING xmax;
BEGIN;
UPDATE ur_heap SET value = 1 WHERE sensor = 4 AND time = at(9);
SELECT sensor FROM ur WHERE sensor = 4 AND time = at(9) FOR UPDATE;
UPDATE ur SET value = 1 WHERE sensor = 4 AND time = at(9) RETURNING xmax::text = '0' AS zero;
COMMIT;
-- A trigger that locks another row before the update.
CREATE FUNCTION lock_another() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE format('SELECT 1 FROM %I WHERE sensor = 4 AND time = at(100) FOR UPDATE', TG_TABLE_NAME); RETURN NEW; END $$;
CREATE TRIGGER lock_another BEFORE UPDATE ON ur_heap FOR EACH ROW EXECUTE FUNCTION lock_another();
CREATE TRIGGER lock_another BEFORE UPDATE ON ur FOR EACH ROW EXECUTE FUNCTION lock_another();
SELECT * FROM upsert('VALUES (at(8), 1, -4), (at(9), 1, -4), (at(9), 6, -4)');
SELECT * FROM ur_heap EXCEPT SELECT * FROM ur;
SELECT count(*) FROM ur;
SELECT * FROM varve.verify('ur');
DROP TABLE ur_heap, ur;
DROP FUNCTION at, upsert, lock_another;
