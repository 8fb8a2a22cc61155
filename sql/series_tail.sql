-- A series with a long tail, where keyed chunks of other series end later, beside a heap: rows before the tail, among it and behind it are found, keys are
-- unique, and all come out in order. Also where a chunk of the same series follows the tail, and where it was deleted; and by keys of text.
SET varve.worker = off;
CREATE TABLE h (time timestamptz NOT NULL, host int NOT NULL, name text NOT NULL, v int, PRIMARY KEY (host, time), UNIQUE (name, time));
CREATE TABLE v (LIKE h, PRIMARY KEY (host, time)) USING varve WITH (autovacuum_enabled = off);
CREATE TABLE w (LIKE h, PRIMARY KEY (name, time)) USING varve WITH (autovacuum_enabled = off);
CREATE FUNCTION at(second int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT timestamptz '2026-02-01 00:00:00Z' + second * interval '1 s' $$;
CREATE PROCEDURE do_all(statement text) LANGUAGE plpgsql AS $$
  DECLARE name text; said text; first text;
  BEGIN
    FOREACH name IN ARRAY ARRAY['h', 'v', 'w'] LOOP
      BEGIN
        EXECUTE replace(statement, '$t', name);
        said := 'done';
      EXCEPTION WHEN unique_violation THEN said := 'duplicate';
      END;
      first := coalesce(first, said);
      IF said <> first THEN RAISE EXCEPTION '%: % by %', statement, said, name; END IF;
    END LOOP;
    RAISE NOTICE '%: %', statement, first;
  END $$;
CREATE FUNCTION unequal() RETURNS bigint LANGUAGE sql AS $$
  SELECT (SELECT count(*) FROM (TABLE h EXCEPT TABLE v) x) + (SELECT count(*) FROM (TABLE v EXCEPT TABLE h) x)
       + (SELECT count(*) FROM (TABLE h EXCEPT TABLE w) x) + (SELECT count(*) FROM (TABLE w EXCEPT TABLE h) x)
       + (SELECT count(*) FROM varve.verify('v')) + (SELECT count(*) FROM varve.verify('w')) $$;
-- A chunk in the future: its clock is wrong.
CALL do_all('INSERT INTO $t SELECT at(9000000 + i), 4, ''d'', i FROM generate_series(1, 2000) i');
CALL varve.compact('v');
CALL varve.compact('w');
-- Tails, row by row: batches would be chunks.
CREATE PROCEDURE tail(host int, name text, first int, rows int) LANGUAGE plpgsql AS $$
  BEGIN
    FOR i IN first..first + rows - 1 LOOP
      INSERT INTO h VALUES (at(i), host, name, i);
      INSERT INTO v VALUES (at(i), host, name, i);
      INSERT INTO w VALUES (at(i), host, name, i);
    END LOOP;
  END $$;
CALL tail(3, 'c', 10000, 3000);
CALL tail(2, 'b', 10000, 300);
CALL do_all('INSERT INTO $t VALUES (at(5), 3, ''c'', 5)');
CALL do_all('INSERT INTO $t VALUES (at(5), 3, ''c'', 6)');
CALL do_all('INSERT INTO $t VALUES (at(10007), 3, ''c'', 7)');
CALL do_all('INSERT INTO $t VALUES (at(20000), 3, ''c'', 7)');
CALL do_all('INSERT INTO $t SELECT at(9990 + i), 3, ''c'', -1 FROM generate_series(1, 20) i ON CONFLICT DO NOTHING');
CALL do_all('UPDATE $t SET v = v + 1 WHERE host = 3 AND time = at(12000)');
CALL do_all('DELETE FROM $t WHERE host = 3 AND time = at(12001)');
SELECT unequal();
-- A chunk of the same series behind the tail, and one among it.
CALL do_all('INSERT INTO $t SELECT at(100000 + i), 3, ''c'', i FROM generate_series(1, 2000) i');
CALL do_all('INSERT INTO $t SELECT at(100000 + i), 2, ''b'', i FROM generate_series(1, 2000) i');
CALL varve.compact('v');
CALL varve.compact('w');
CALL tail(3, 'c', 50000, 2000);
CALL tail(3, 'c', 60000, 600);
CALL tail(3, 'c', 200000, 1000);
CALL do_all('INSERT INTO $t VALUES (at(100007), 3, ''c'', 7)');
CALL do_all('INSERT INTO $t VALUES (at(51000), 3, ''c'', 7)');
CALL do_all('INSERT INTO $t VALUES (at(40000), 3, ''c'', 7)');
CALL do_all('INSERT INTO $t VALUES (at(99999), 3, ''c'', 7)');
CALL do_all('INSERT INTO $t VALUES (at(200500), 3, ''c'', 7)');
CALL do_all('UPDATE $t SET time = at(100100) WHERE host = 3 AND time = at(50500)');
CALL do_all('UPDATE $t SET time = at(99000) WHERE host = 3 AND time = at(50500)');
SELECT unequal();
-- All of them in order, forward and backward, from many places on.
CREATE FUNCTION orders(OUT compared bigint, OUT different bigint) LANGUAGE plpgsql AS $$
  DECLARE said text; first text; place int; bound text; name text; direction text; most text;
  BEGIN
    compared := 0; different := 0;
    FOREACH place IN ARRAY ARRAY[0, 4, 9995, 10256, 10300, 12000, 12999, 20000, 49999, 50256, 50257, 50300, 51990, 60000, 60300, 99999, 100001, 101500, 102000, 200000, 200500, 9000500] LOOP
      FOREACH bound IN ARRAY ARRAY['>=', '<', '<='] LOOP
        FOREACH direction IN ARRAY ARRAY['', 'DESC'] LOOP
          FOREACH most IN ARRAY ARRAY['1', '2', '700', 'ALL'] LOOP
            first := NULL;
            FOREACH name IN ARRAY ARRAY['h', 'v', 'w'] LOOP
              EXECUTE format('SELECT md5(string_agg(x::text, %L)) FROM (SELECT time, v FROM %I WHERE %s AND time %s at(%s) ORDER BY time %s LIMIT %s) x',
                             ',', name, CASE name WHEN 'w' THEN 'name = ''c''' ELSE 'host = 3' END, bound, place, direction, most) INTO said;
              said := coalesce(said, 'none');
              first := coalesce(first, said);
              compared := compared + 1;
              different := different + CASE WHEN said = first THEN 0 ELSE 1 END;
            END LOOP;
          END LOOP;
        END LOOP;
      END LOOP;
    END LOOP;
  END $$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT * FROM orders();
SET enable_sort = off;
SELECT * FROM orders();
-- The chunk behind the tail goes.
CALL do_all('DELETE FROM $t WHERE host = 3 AND time BETWEEN at(100000) AND at(103000)');
CALL do_all('INSERT INTO $t VALUES (at(100007), 3, ''c'', 8)');
CALL do_all('INSERT INTO $t VALUES (at(100007), 3, ''c'', 9)');
SELECT * FROM orders();
SELECT unequal();
CALL varve.compact('v');
CALL varve.compact('w');
SELECT * FROM orders();
SELECT unequal();
DROP TABLE h, v, w;
DROP FUNCTION at, unequal, orders;
DROP PROCEDURE do_all, tail;
