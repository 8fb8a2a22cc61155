-- Rows of equal times have one order in a scan of a series index, however the index has their entries: as lists or each by itself, on one page or on two. So a
-- cursor that turns round shows each row that it has passed once.
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
CREATE TABLE v(id int, time timestamptz, value int) USING varve;
CREATE INDEX ON v USING varve (id, time);
CREATE FUNCTION at(second int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT timestamptz '2026-01-01' + second * interval '1 s' $$;
INSERT INTO v SELECT 1, at(g / 5), g FROM generate_series(0, 19) g;
-- A build makes lists.
REINDEX INDEX v_id_time_idx;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT value FROM v WHERE id = 1 ORDER BY time DESC;
FETCH 7 FROM c;
FETCH BACKWARD ALL FROM c;
FETCH 3 FROM c;
FETCH PRIOR FROM c;
FETCH NEXT FROM c;
FETCH ALL FROM c;
COMMIT;
SELECT array_agg(value) FROM (SELECT value FROM v WHERE id = 1 ORDER BY time DESC) s;
SELECT array_agg(value) FROM (SELECT value FROM v WHERE id = 1 ORDER BY time) s;
-- Goes to and fro with a cursor, after rows have come that it does not see, by which pages are split and lists made. What it fetches is compared with its
-- place in the whole. How many are wrong, of how many.
CREATE FUNCTION wander(query text, seed int) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE c refcursor; all_rows int[]; place int := 0; fetched int; wrong int := 0; steps int := 0;
BEGIN
    EXECUTE format('SELECT array_agg(value) FROM (%s) s', query) INTO all_rows;
    OPEN c SCROLL FOR EXECUTE query;
    FOR step IN 1..seed + 60 LOOP
        IF step = seed THEN
            INSERT INTO v SELECT id, at(g / 5 % 30), -g FROM generate_series(1, 3) id, generate_series(1, 450) g;
        END IF;
        IF step <= seed OR hashint4extended(step, seed) % 2 = 0 THEN
            FETCH NEXT FROM c INTO fetched;
            place := least(place + 1, array_length(all_rows, 1) + 1);
        ELSE
            FETCH PRIOR FROM c INTO fetched;
            place := greatest(place - 1, 0);
        END IF;
        wrong := wrong + (fetched IS DISTINCT FROM all_rows[place])::int;
        steps := steps + 1;
    END LOOP;
    CLOSE c;
    DELETE FROM v WHERE value < 0;
    RETURN ARRAY[wrong, steps];
END $$;
CREATE FUNCTION wander_all() RETURNS TABLE (query text, wrong bigint, of bigint) LANGUAGE sql AS $$
    SELECT query, sum(result[1]), sum(result[2])
    FROM unnest(ARRAY['WHERE id = 1 ORDER BY time DESC', 'WHERE id = 1 ORDER BY time', 'WHERE id = 2 AND time < at(9) ORDER BY time DESC', 'ORDER BY id DESC, time DESC', 'ORDER BY id, time']) query,
        generate_series(1, 18) seed, LATERAL wander('SELECT value FROM v ' || query, seed) result
    GROUP BY query ORDER BY query $$;
SELECT * FROM wander_all();
INSERT INTO v SELECT id, at(g / 5), 100 * id + g FROM generate_series(1, 3) id, generate_series(20, 70) g;
REINDEX INDEX v_id_time_idx;
SELECT * FROM wander_all();
CALL varve.compact('v');
INSERT INTO v SELECT id, at(g / 5), 1000 * id + g FROM generate_series(1, 3) id, generate_series(0, 70) g;
SELECT * FROM wander_all();
REINDEX INDEX v_id_time_idx;
SELECT * FROM wander_all();
SELECT * FROM varve.verify('v');
DROP TABLE v;
DROP FUNCTION wander_all, wander, at;
