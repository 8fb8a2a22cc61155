-- What a session knows of a series that it has looked at before: its entries, and the chunks that may have rows of it. Whatever happens between two looks,
-- the second one finds what a heap has.
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET client_min_messages = warning;
-- Looks at the newest rows of some series, from the end: at one, at four, and at all of them. Differences from the heap.
CREATE FUNCTION looked(keys text[]) RETURNS int LANGUAGE plpgsql AS $$
DECLARE differences int := 0; key text; rows text; answers text[]; t text;
BEGIN
    FOREACH key IN ARRAY keys LOOP
        FOREACH rows IN ARRAY ARRAY['1', '4', 'ALL', '1'] LOOP
            answers := '{}';
            FOREACH t IN ARRAY ARRAY['h', 'v'] LOOP
                EXECUTE format('SELECT coalesce(array_agg(concat_ws('' '', coalesce(time::text, ''null''), value)), ''{}'')::text FROM (SELECT * FROM %s WHERE %s ORDER BY time DESC LIMIT %s) s', t, key, rows) INTO t;
                answers := answers || t;
            END LOOP;
            differences := differences + (answers[1] <> answers[2])::int;
        END LOOP;
    END LOOP;
    RETURN differences;
END $$;
CREATE PROCEDURE on_both(command text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE replace(command, '@', 'h');
    EXECUTE replace(command, '@', 'v');
END $$;
CREATE PROCEDURE live(keys text[], newer text) LANGUAGE plpgsql AS $$
DECLARE differences int := 0; looks int := 0; v int := 0;
BEGIN
    FOR step IN 0..139 LOOP
        v := v + 1000;
        CASE step % 14
            WHEN 0 THEN CALL on_both(format('INSERT INTO @ SELECT %s FROM generate_series(%s, %s) g', newer, v, v + 599));
            WHEN 1 THEN CALL on_both(format('INSERT INTO @ SELECT %s FROM generate_series(%s, %s) g', newer, v, v + step % 5));
            WHEN 2 THEN CALL on_both(format('DELETE FROM @ WHERE value > %s AND value %% 3 = 0', v - 2000));
            WHEN 3 THEN CALL varve.compact('v');
            WHEN 4 THEN CALL on_both(format('INSERT INTO @ SELECT %s FROM generate_series(%s, %s) g', newer, v, v));
            WHEN 5 THEN CALL on_both(format('UPDATE @ SET value = -value WHERE value %% 7 = %s', step % 7));
            WHEN 6 THEN
                BEGIN
                    CALL on_both(format('INSERT INTO @ SELECT %s FROM generate_series(%s, %s) g', newer, v, v + 20));
                    CALL on_both(format('DELETE FROM @ WHERE value %% 2 = 0'));
                    differences := differences + looked(keys);
                    RAISE 'back';
                EXCEPTION WHEN raise_exception THEN
                END;
            WHEN 7 THEN CALL on_both(format('INSERT INTO @ SELECT %s FROM generate_series(%s, %s) g', newer, v, v + 299));
            WHEN 8 THEN
                REINDEX TABLE v;
            WHEN 9 THEN
                -- Rows come one by one, and are deleted again.
                FOR i IN 1..30 LOOP
                    CALL on_both(format('INSERT INTO @ SELECT %s FROM generate_series(%s, %s) g', newer, v + i, v + i));
                    differences := differences + looked(keys[1:1]);
                END LOOP;
                CALL on_both(format('DELETE FROM @ WHERE value BETWEEN %s AND %s', v, v + 20));
            WHEN 10 THEN CALL on_both(format('DELETE FROM @ WHERE %s', keys[1 + step % array_length(keys, 1)]));
            WHEN 11 THEN CALL varve.compact('v');
            WHEN 12 THEN EXECUTE format('ALTER TABLE v ADD COLUMN c%s int', step);
            ELSE
                IF step > 120 THEN
                    TRUNCATE h, v;
                END IF;
        END CASE;
        IF step % 3 = 0 THEN
            COMMIT;
        END IF;
        differences := differences + looked(keys);
        looks := looks + 1;
    END LOOP;
    RAISE WARNING '% times looked, % differences', looks, differences;
END $$;
-- One key, which is enough for cells; two keys; small integers; dates, and a first key that is not passed by value.
CREATE TABLE h(id int, time timestamptz, value int, PRIMARY KEY (id, time));
CREATE TABLE v(LIKE h INCLUDING ALL) USING varve;
CALL live(ARRAY['id = 1', 'id = 70', 'id = 7::bigint', 'id = 12345'], $$g % 100, timestamptz '2026-01-01' + g * interval '1 s', g$$);
SELECT * FROM varve.verify('v');
DROP TABLE h, v;
CREATE TABLE h(a int2, b int8, time timestamp, value int, PRIMARY KEY (a, b, time));
CREATE TABLE v(LIKE h INCLUDING ALL) USING varve;
CALL live(ARRAY['a = 1 AND b = 1', 'a = 2 AND b = 0', 'a = 0 AND b = 2', 'a = 0 AND b = 7'], $$g % 3, g / 3 % 3, timestamp '2026-01-01' + g * interval '1 s', g$$);
SELECT * FROM varve.verify('v');
DROP TABLE h, v;
CREATE TABLE h(day int, time date, value int, PRIMARY KEY (day, time));
CREATE TABLE v(LIKE h INCLUDING ALL) USING varve;
CALL live(ARRAY['day = 1', 'day = 3'], $$g % 5, CASE WHEN g % 1000 = 3 AND g < 4000 THEN '-infinity' ELSE date '1900-01-01' + g END, g$$);
SELECT * FROM varve.verify('v');
DROP TABLE h, v;
CREATE TABLE h(host text, time timestamptz, value int, PRIMARY KEY (host, time));
CREATE TABLE v(LIKE h INCLUDING ALL) USING varve;
CALL live(ARRAY['host = ''1''', 'host = ''none'''], $$(g % 7)::text, timestamptz '2026-01-01' + g * interval '1 s', g$$);
SELECT * FROM varve.verify('v');
DROP TABLE h, v;
-- Times that are null come first from the end; equal times.
CREATE TABLE h(id int, time timestamptz, value int);
CREATE INDEX ON h(id, time);
CREATE TABLE v(LIKE h) USING varve;
CREATE INDEX ON v USING varve (id, time);
CALL live(ARRAY['id = 1', 'id = 2'], $$g % 5, CASE WHEN g % 50 < 5 THEN NULL ELSE timestamptz '2026-01-01' + g * interval '1 s' END, CASE WHEN g % 50 < 5 THEN 1 ELSE g END$$);
SELECT * FROM varve.verify('v');
EXPLAIN (COSTS OFF) SELECT time FROM v WHERE id = 1 ORDER BY time DESC LIMIT 1;
DROP TABLE h, v;
-- A join looks at several series while all rows of a chunk that they share are deleted. Whoever sees them again afterwards finds them.
CREATE TABLE v(id int, time timestamptz, value int, PRIMARY KEY (id, time)) USING varve;
INSERT INTO v SELECT g, timestamptz '2025-01-01', -g FROM generate_series(0, 9) g;
INSERT INTO v SELECT g % 1000, timestamptz '2026-01-01' + g * interval '1 s', g FROM generate_series(1, 30000) g;
SELECT value FROM v WHERE id = 9 ORDER BY time DESC LIMIT 1;
BEGIN;
DELETE FROM v WHERE value > 0;
SELECT s.id, x.value FROM generate_series(0, 3) s(id), LATERAL (SELECT value FROM v WHERE id = s.id ORDER BY time DESC LIMIT 1) x;
SELECT s.id, x.value FROM generate_series(0, 3) s(id), LATERAL (SELECT value FROM v WHERE id = s.id ORDER BY time DESC LIMIT 1) x;
ROLLBACK;
SELECT value FROM v WHERE id = 2 ORDER BY time DESC LIMIT 1;
SELECT s.id, x.value FROM generate_series(0, 3) s(id), LATERAL (SELECT value FROM v WHERE id = s.id ORDER BY time DESC LIMIT 1) x;
SELECT count(*) FROM (SELECT * FROM v WHERE id = 2 ORDER BY time DESC OFFSET 0) s;
DROP TABLE v;
DROP PROCEDURE live, on_both;
DROP FUNCTION looked;
