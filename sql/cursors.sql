-- A cursor over an index scan turns round wherever it is, declared SCROLL or not, as one on a heap does.
CREATE TABLE v(id int, time timestamptz NOT NULL, device text) USING varve;
CREATE TABLE h (LIKE v) USING heap;
CREATE INDEX ON v USING varve (device, time);
CREATE INDEX ON h USING btree (device, time);
INSERT INTO h SELECT g, '2026-01-01'::timestamptz + g * interval '1 s', 'd' || g % 3 FROM generate_series(1, 6000) g;
INSERT INTO v TABLE h;
CALL varve.compact('v');
INSERT INTO h SELECT g, '2026-01-01'::timestamptz + g * interval '1.5 s', 'd' || g % 4 FROM generate_series(6001, 8000) g;
INSERT INTO v SELECT * FROM h WHERE id > 6000;
INSERT INTO h VALUES (8001, '2026-01-01 00:10:00.3', 'd1'), (8002, '2026-01-01 00:10:00.3', 'd2');
INSERT INTO v SELECT * FROM h WHERE id > 8000;
DELETE FROM v WHERE id % 10 = 3;
DELETE FROM h WHERE id % 10 = 3;
SET enable_seqscan = off;
SET varve.enable_aggregate = off;
SET enable_sort = off;
SET enable_bitmapscan = off;

-- Random walks with both cursors, which must show the same.
CREATE FUNCTION walk(a refcursor, b refcursor, steps int) RETURNS TABLE (differences bigint, rows bigint, ends bigint) LANGUAGE plpgsql AS $$
DECLARE x record; y record; far boolean; forward boolean;
BEGIN
    differences := 0; rows := 0; ends := 0;
    FOR i IN 1..steps LOOP
        far := (hashint4(i) & 15) = 0;
        forward := (hashint4(i + 1000) & 7) < 4;
        IF far AND forward THEN MOVE FORWARD 700 IN a; MOVE FORWARD 700 IN b;
        ELSIF far THEN MOVE BACKWARD 600 IN a; MOVE BACKWARD 600 IN b;
        END IF;
        IF forward THEN FETCH NEXT FROM a INTO x; FETCH NEXT FROM b INTO y;
        ELSE FETCH PRIOR FROM a INTO x; FETCH PRIOR FROM b INTO y;
        END IF;
        rows := rows + (x.id IS NOT NULL)::int;
        ends := ends + (x.id IS NULL)::int;
        differences := differences + (x.id IS DISTINCT FROM y.id)::int;
    END LOOP;
    RETURN NEXT;
END $$;
BEGIN;
DECLARE v1 CURSOR FOR SELECT id FROM v WHERE device = 'd1' ORDER BY time;
DECLARE h1 CURSOR FOR SELECT id FROM h WHERE device = 'd1' ORDER BY time;
SELECT * FROM walk('v1', 'h1', 400);
DECLARE v2 SCROLL CURSOR FOR SELECT id FROM v WHERE device = 'd2' ORDER BY time DESC;
DECLARE h2 SCROLL CURSOR FOR SELECT id FROM h WHERE device = 'd2' ORDER BY time DESC;
SELECT * FROM walk('v2', 'h2', 400);
DECLARE v3 CURSOR FOR SELECT id FROM v WHERE device IN ('d0', 'd3') AND time > '2026-01-01 00:50:00' ORDER BY device, time;
DECLARE h3 CURSOR FOR SELECT id FROM h WHERE device IN ('d0', 'd3') AND time > '2026-01-01 00:50:00' ORDER BY device, time;
SELECT * FROM walk('v3', 'h3', 400);
COMMIT;

-- At the ends.
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM v WHERE device = 'd1' AND time < '2026-01-01 00:00:20' ORDER BY time;
FETCH BACKWARD 1 FROM c;
FETCH ALL FROM c;
FETCH BACKWARD ALL FROM c;
FETCH BACKWARD 1 FROM c;
FETCH 2 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH FORWARD ALL FROM c;
FETCH 1 FROM c;
FETCH BACKWARD 1 FROM c;
COMMIT;
EXPLAIN (COSTS OFF) DECLARE c SCROLL CURSOR FOR SELECT id FROM v WHERE device = 'd1' ORDER BY time;
DROP FUNCTION walk;
DROP TABLE v, h;
