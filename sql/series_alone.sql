-- Rows of a series of which only one chunk has any come out without being compared with others, a block at a time: beside a heap, in both directions, with
-- bounds of time in the midst of blocks, deleted rows, late rows of the tail between those of a chunk, a second chunk, and cursors that turn round.
SET varve.worker = off;
CREATE TABLE h (time timestamptz NOT NULL, host int NOT NULL, v int, PRIMARY KEY (host, time));
CREATE TABLE v (LIKE h, PRIMARY KEY (host, time)) USING varve WITH (autovacuum_enabled = off);
CREATE FUNCTION at(second int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT timestamptz '2026-02-01 00:00:00Z' + second * interval '1 s' $$;
INSERT INTO h SELECT at(s * 10 + s % 7), n, s FROM generate_series(0, 4999) s, generate_series(1, 2) n;
INSERT INTO h SELECT at(s * 10), 3, s FROM generate_series(0, 2999) s;
INSERT INTO v TABLE h;
CALL varve.compact('v');
SELECT one_series, rows FROM varve.chunks('v') ORDER BY 1, 2;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET varve.enable_aggregate = off;
EXPLAIN (COSTS OFF) SELECT time, v FROM v WHERE host = 1 AND time >= at(100) ORDER BY time;
CREATE FUNCTION orders(OUT compared bigint, OUT different bigint) LANGUAGE plpgsql AS $$
  DECLARE said text; first text; host int; place int; bound text; name text; direction text; most text;
  BEGIN
    compared := 0; different := 0;
    FOR host IN 1..3 LOOP
    FOREACH place IN ARRAY ARRAY[-1, 0, 3, 10225, 10230, 10240, 10255, 20470, 20486, 25000, 29990, 40965, 49990, 49995, 60000] LOOP
      FOREACH bound IN ARRAY ARRAY['time >= at(%s)', 'time < at(%s)', 'time BETWEEN at(%s) AND at(31000)', 'time BETWEEN at(77) AND at(%s)', 'time <> at(%s)'] LOOP
        FOREACH direction IN ARRAY ARRAY['', 'DESC'] LOOP
          FOREACH most IN ARRAY ARRAY['1', '2', '1500', 'ALL'] LOOP
            first := NULL;
            FOREACH name IN ARRAY ARRAY['h', 'v'] LOOP
              EXECUTE format('SELECT md5(string_agg(x::text, %L)) FROM (SELECT time, v FROM %I WHERE host = %s AND %s ORDER BY time %s LIMIT %s) x',
                             ',', name, host, format(bound, place), direction, most) INTO said;
              said := coalesce(said, 'none');
              first := coalesce(first, said);
              compared := compared + 1;
              different := different + CASE WHEN said = first THEN 0 ELSE 1 END;
            END LOOP;
          END LOOP;
        END LOOP;
      END LOOP;
    END LOOP;
    END LOOP;
  END $$;
SELECT * FROM orders();
DELETE FROM h WHERE v % 5 = 2 OR v BETWEEN 1000 AND 2100;
DELETE FROM v WHERE v % 5 = 2 OR v BETWEEN 1000 AND 2100;
SELECT * FROM orders();
-- Late rows of the tail, some in the middle of blocks, and before and behind all.
DO $$
BEGIN
  FOR i IN 0..60 LOOP
    INSERT INTO h VALUES (at(i * 811) + interval '0.5 s', 1, -i), (at(-5 - i), 2, -i), (at(60000 + i), 3, -i);
    INSERT INTO v VALUES (at(i * 811) + interval '0.5 s', 1, -i), (at(-5 - i), 2, -i), (at(60000 + i), 3, -i);
  END LOOP;
END $$;
SELECT * FROM orders();
-- Changes of the transaction itself while a cursor is open, which goes back and forth.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT time, v FROM v WHERE host = 1 AND time >= at(10200) ORDER BY time;
MOVE FORWARD 20 IN c;
DELETE FROM v WHERE host = 1 AND v BETWEEN 2200 AND 2300;
FETCH 2 FROM c;
MOVE FORWARD 900 IN c;
FETCH 1 FROM c;
MOVE BACKWARD 905 IN c;
FETCH 2 FROM c;
ROLLBACK;
-- A second chunk of the same times: nothing is alone.
INSERT INTO h SELECT at(s * 10 + 8), 3, -s FROM generate_series(500, 900) s;
INSERT INTO v SELECT at(s * 10 + 8), 3, -s FROM generate_series(500, 900) s;
SELECT * FROM orders();
CALL varve.compact('v');
SELECT * FROM orders();
SELECT count(*) FROM varve.verify('v');
-- All series of one fresh chunk, which is sorted as the index is, beside rows of the tail, before it is compacted; by many series of one row, and a few of two hundred.
TRUNCATE h, v;
CREATE FUNCTION all_orders(OUT compared bigint, OUT different bigint) LANGUAGE plpgsql AS $$
  DECLARE said text; first text; name text; direction text; most text;
  BEGIN
    compared := 0; different := 0;
    FOREACH direction IN ARRAY ARRAY['host, time', 'host DESC, time DESC'] LOOP
      FOREACH most IN ARRAY ARRAY['1', '2', '1500', 'ALL', '3 OFFSET 777'] LOOP
        first := NULL;
        FOREACH name IN ARRAY ARRAY['h', 'v'] LOOP
          EXECUTE format('SELECT md5(string_agg(x::text, %L)) FROM (SELECT * FROM %I ORDER BY %s LIMIT %s) x', ',', name, direction, most) INTO said;
          said := coalesce(said, 'none');
          first := coalesce(first, said);
          compared := compared + 1;
          different := different + CASE WHEN said = first THEN 0 ELSE 1 END;
        END LOOP;
      END LOOP;
    END LOOP;
  END $$;
INSERT INTO h SELECT at(s % 60), s * 7 - 3000, s FROM generate_series(1, 3000) s;
INSERT INTO h SELECT at(s), n * 1001, s FROM generate_series(100, 300) s, generate_series(1, 3) n;
INSERT INTO v SELECT * FROM h ORDER BY v % 13;
SELECT count(*), bool_or(one_series) FROM varve.chunks('v');
EXPLAIN (COSTS OFF) SELECT * FROM v ORDER BY host DESC, time DESC;
SELECT * FROM all_orders();
DELETE FROM h WHERE v % 3 = 1 OR v BETWEEN 50 AND 90;
DELETE FROM v WHERE v % 3 = 1 OR v BETWEEN 50 AND 90;
SELECT * FROM all_orders();
DO $$
BEGIN
  FOR i IN 0..40 LOOP
    INSERT INTO h VALUES (at(2000 + i), 1001, -i), (at(-i), i * 500, -i), (at(i), -5000, -i);
    INSERT INTO v VALUES (at(2000 + i), 1001, -i), (at(-i), i * 500, -i), (at(i), -5000, -i);
  END LOOP;
END $$;
SELECT * FROM all_orders();
INSERT INTO h SELECT at(5000), s, s FROM generate_series(1, 300) s;
INSERT INTO v SELECT at(5000), s, s FROM generate_series(1, 300) s;
SELECT * FROM all_orders();
CALL varve.compact('v');
SELECT * FROM all_orders();
DROP TABLE h, v;
DROP FUNCTION at, orders, all_orders;
