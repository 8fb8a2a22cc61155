-- Plans that a session keeps for statements that it is sent as text: the second one of a kind runs with the first one's plan.
CREATE TABLE kept(time timestamptz NOT NULL, sensor int, value float8, note varchar(5), PRIMARY KEY (sensor, time)) USING varve;
-- Others' messages may make plans go, but for the last statement's.
CREATE VIEW plans AS SELECT count(*) > 0 AS are_kept FROM pg_backend_memory_contexts WHERE name = 'varve kept plan';
SET DateStyle = 'ISO';

-- Values of any kind, NULL in any place, and errors of each.
INSERT INTO kept VALUES ('2026-01-01Z', 1, 1.5, 'a');
INSERT INTO kept VALUES ('2026-01-01 00:01Z', 2, NULL, NULL);
INSERT INTO kept VALUES ('2026-01-01 00:02Z', 1, 'NaN', 'b');
INSERT INTO kept VALUES ('2026-01-01 00:02Z', 1, 0, 'c');
INSERT INTO kept VALUES (NULL, 1, 0, 'c');
INSERT INTO kept VALUES ('2026-01-01 00:03Z', 1, -0.0, 'too long');
INSERT INTO kept VALUES ('2026-01-01 00:03Z', 1, 7 / 2.0, 'd'), ('2026-01-01 00:04Z', 1, 8 / 2.0, 'e');
INSERT INTO kept VALUES ('infinity', 3, '-Infinity', 'f');
INSERT INTO kept VALUES ('2026-01-01'::timestamptz + 5 * interval '1 min', 1, 9 / 2.0);
INSERT INTO kept VALUES ('2026-01-01'::timestamptz + 6 * interval '1 min', 1, 9 / 0.0);
INSERT INTO kept VALUES ('2026-01-01'::timestamptz + 6 * interval '1 min', 1, 9 / 4.0) RETURNING value, value + 1 AS more;
INSERT INTO kept VALUES ('2026-01-01'::timestamptz + 7 * interval '1 min', 1, 9 / 5.0) RETURNING value, value + 1 AS more;
INSERT INTO kept VALUES ('2026-01-01 00:02Z', 1, 2, 'g') ON CONFLICT (sensor, time) DO UPDATE SET value = EXCLUDED.value, note = kept.note || EXCLUDED.note;
INSERT INTO kept VALUES ('2026-01-01 00:02Z', 1, 3, 'h') ON CONFLICT (sensor, time) DO UPDATE SET value = EXCLUDED.value, note = kept.note || EXCLUDED.note;
INSERT INTO kept VALUES ('2026-01-01 00:02Z', 1, 4, 'i') ON CONFLICT DO NOTHING;
INSERT INTO kept VALUES ('2026-01-01 00:03Z', 4, 4, 'i') ON CONFLICT DO NOTHING;
SELECT * FROM kept ORDER BY sensor, time;
TABLE plans;

\c -
SET DateStyle = 'ISO';
-- Rows of a series, ranges, lists; another type, or another LIMIT, is another statement.
INSERT INTO kept SELECT '2026-02-01Z'::timestamptz + g * interval '1 min', g % 10, g, 'x' FROM generate_series(1, 20000) g;
CALL varve.compact('kept');
SELECT time, value FROM kept WHERE sensor = 1 ORDER BY time DESC LIMIT 1;
SELECT time, value FROM kept WHERE sensor = 2 ORDER BY time DESC LIMIT 1;
SELECT time, value FROM kept WHERE sensor = 2 ORDER BY time DESC LIMIT 2;
SELECT time, value FROM kept WHERE sensor = 77 ORDER BY time DESC LIMIT 1;
SELECT time, value FROM kept WHERE sensor = NULL ORDER BY time DESC LIMIT 1;
SELECT time, value FROM kept WHERE sensor = 3::bigint ORDER BY time DESC LIMIT 1;
SELECT time, value FROM kept WHERE sensor = 4::bigint ORDER BY time DESC LIMIT 1;
SELECT count(*), max(value) FROM kept WHERE sensor = 1 AND time >= '2026-02-01Z' AND time < '2026-02-02Z';
SELECT count(*), max(value) FROM kept WHERE sensor = 2 AND time >= '2026-02-03Z' AND time < '2026-02-04 12:00Z';
SELECT count(*), max(value) FROM kept WHERE sensor = 2 AND time >= '2026-02-03Z' AND time < '2026-02-13Z';
SELECT count(*), max(value) FROM kept WHERE sensor = 2 AND time >= '2026-02-04Z' AND time < '2026-02-03Z';
SELECT count(*), max(value) FROM kept WHERE sensor IN (1, 2, 3) AND time BETWEEN '2026-02-01Z' AND '2026-02-02Z';
SELECT count(*), max(value) FROM kept WHERE sensor IN (4, 4, NULL) AND time BETWEEN '2026-02-02Z' AND '2026-02-03Z';
SELECT count(*), max(value) FROM kept WHERE sensor IN (4, 5) AND time BETWEEN '2026-02-02Z' AND '2026-02-03Z';
CREATE TABLE names(id int PRIMARY KEY, name text);
INSERT INTO names SELECT g, 'sensor ' || g FROM generate_series(0, 9) g;
ANALYZE names;
SELECT time_bucket('6 hours', time) AS bucket, avg(value) FROM kept WHERE sensor IN (SELECT id FROM names WHERE name IN ('sensor 3'))
  AND time >= '2026-02-01Z' AND time < '2026-02-02Z' GROUP BY bucket ORDER BY bucket;
SELECT time_bucket('6 hours', time) AS bucket, avg(value) FROM kept WHERE sensor IN (SELECT id FROM names WHERE name IN ('sensor 4'))
  AND time >= '2026-02-05Z' AND time < '2026-02-06Z' GROUP BY bucket ORDER BY bucket;
TABLE plans;

-- What changes is seen: columns, functions, rights, the path of names, row security, another user, settings.
CREATE FUNCTION twice(float8) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT 2 * $1';
INSERT INTO kept VALUES ('2026-03-01Z', 1, twice(4), 'j') RETURNING value;
INSERT INTO kept VALUES ('2026-03-02Z', 1, twice(5), 'j') RETURNING value;
CREATE OR REPLACE FUNCTION twice(float8) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT 2 * $1 + 0.5';
INSERT INTO kept VALUES ('2026-03-03Z', 1, twice(6), 'j') RETURNING value;
SELECT * FROM kept WHERE sensor = 1 AND time >= '2026-03-01Z' AND time < '2026-03-02Z';
ALTER TABLE kept ADD COLUMN more int DEFAULT 7;
SELECT * FROM kept WHERE sensor = 1 AND time >= '2026-03-02Z' AND time < '2026-03-03Z';
ALTER TABLE kept ALTER note TYPE varchar(9);
SELECT * FROM kept WHERE sensor = 1 AND time >= '2026-03-03Z' AND time < '2026-03-04Z';
INSERT INTO kept VALUES ('2026-03-04Z', 1, 1, 'not long', 1);
INSERT INTO kept VALUES ('2026-03-05Z', 1, 1, 'not long', 2);
ALTER TABLE kept ADD CHECK (more < 3) NOT VALID;
INSERT INTO kept VALUES ('2026-03-06Z', 1, 1, 'not long', 3);
CREATE SCHEMA other CREATE TABLE kept(time timestamptz NOT NULL, sensor int, value float8) USING varve;
SELECT count(*), max(value) FROM kept WHERE sensor = 2 AND time >= '2026-02-03Z' AND time < '2026-02-04Z';
SET search_path = other, public;
SELECT count(*), max(value) FROM kept WHERE sensor = 2 AND time >= '2026-02-03Z' AND time < '2026-02-04Z';
RESET search_path;
CREATE ROLE regress_kept;
GRANT SELECT ON kept TO regress_kept;
CREATE POLICY others ON kept USING (sensor <> 2);
ALTER TABLE kept ENABLE ROW LEVEL SECURITY;
SELECT count(*), max(value) FROM kept WHERE sensor = 2 AND time >= '2026-02-03Z' AND time < '2026-02-04Z';
SET ROLE regress_kept;
SELECT count(*), max(value) FROM kept WHERE sensor = 2 AND time >= '2026-02-03Z' AND time < '2026-02-04Z';
SELECT count(*), max(value) FROM kept WHERE sensor = 3 AND time >= '2026-02-03Z' AND time < '2026-02-04Z';
RESET ROLE;
ALTER TABLE kept DISABLE ROW LEVEL SECURITY;
REVOKE SELECT ON kept FROM regress_kept;
SET ROLE regress_kept;
SELECT count(*), max(value) FROM kept WHERE sensor = 3 AND time >= '2026-02-03Z' AND time < '2026-02-04Z';
RESET ROLE;
SELECT count(*), max(value) FROM kept WHERE sensor = 3 AND time >= '2026-02-03Z' AND time < '2026-02-04Z';

-- A session begins with none, and settings of the planner's make them go.
\c -
SELECT count(*), max(value) FROM kept WHERE sensor = 3 AND time >= '2026-02-03Z' AND time < '2026-02-04Z';
TABLE plans;
SET enable_sort = off;
SELECT count(*), max(value) FROM kept WHERE sensor = 4 AND time >= '2026-02-03Z' AND time < '2026-02-04Z';
TABLE plans;
RESET enable_sort;
SET plan_cache_mode = force_custom_plan;
SELECT count(*), max(value) FROM kept WHERE sensor = 5 AND time >= '2026-02-03Z' AND time < '2026-02-04Z';
RESET plan_cache_mode;

\c -
SET DateStyle = 'ISO';
-- Several statements of one text, savepoints, and what is prepared, declared, explained or run in functions.
BEGIN\; INSERT INTO kept VALUES ('2026-04-01Z', 1, 1, 'k', 1)\; INSERT INTO kept VALUES ('2026-04-02Z', 1, 2, 'l', 2)\; SELECT count(*) FROM kept WHERE sensor = 1 AND time >= '2026-04-01Z' AND time < '2026-04-03Z'\; COMMIT;
BEGIN;
INSERT INTO kept VALUES ('2026-04-03Z', 1, 1, 'm', 1);
SAVEPOINT s;
INSERT INTO kept VALUES ('2026-04-03Z', 1, 1, 'm', 1);
ROLLBACK TO s;
INSERT INTO kept VALUES ('2026-04-04Z', 1, 1, 'm', 1);
COMMIT;
PREPARE p AS SELECT count(*) FROM kept WHERE sensor = 1 AND time >= '2026-04-01Z' AND time < '2026-04-03Z';
EXECUTE p;
EXECUTE p;
DECLARE c CURSOR WITH HOLD FOR SELECT count(*) FROM kept WHERE sensor = 1 AND time >= '2026-04-01Z' AND time < '2026-04-04Z';
FETCH c;
CLOSE c;
EXPLAIN (COSTS OFF) SELECT time, value FROM kept WHERE sensor = 1 ORDER BY time DESC LIMIT 1;
DO $$
DECLARE found bigint;
BEGIN
    FOR day IN 1..3 LOOP
        EXECUTE format('SELECT count(*) FROM kept WHERE sensor = 1 AND time >= %L AND time < %L', '2026-04-01Z'::timestamptz, '2026-04-01Z'::timestamptz + day * interval '1 day') INTO found;
        RAISE NOTICE '% rows', found;
    END LOOP;
END $$;
COPY (SELECT sensor, count(*) FROM kept WHERE sensor = 1 AND time >= '2026-04-01Z' AND time < '2026-04-03Z' GROUP BY 1) TO STDOUT;
COPY (SELECT sensor, count(*) FROM kept WHERE sensor = 1 AND time >= '2026-04-02Z' AND time < '2026-04-04Z' GROUP BY 1) TO STDOUT;
SELECT sensor, count(*) INTO made FROM kept WHERE sensor = 1 AND time >= '2026-04-02Z' AND time < '2026-04-04Z' GROUP BY 1;
TABLE made;

-- A table that grows beside its plan.
CREATE TABLE grows(time timestamptz NOT NULL, sensor int, value float8) USING varve;
CREATE INDEX ON grows USING varve (sensor, time);
INSERT INTO grows VALUES ('2026-01-01Z', 1, 1);
\c -
SELECT max(value) FROM grows WHERE sensor = 1;
SELECT max(value) FROM grows WHERE sensor = 2;
INSERT INTO grows SELECT '2026-01-01Z'::timestamptz + g * interval '1 s', g % 10, g FROM generate_series(1, 300000) g;
SELECT max(value) FROM grows WHERE sensor = 3;
ALTER TABLE grows SET ACCESS METHOD heap;
SELECT max(value) FROM grows WHERE sensor = 4;
INSERT INTO grows VALUES ('2026-01-01Z', 5, 1e6);
SELECT max(value) FROM grows WHERE sensor = 5;

-- Functions run while a statement is planned, and triggers at the end of a transaction: what they execute is kept, too, and in use.
\c -
CREATE TABLE limits(k int, most float8) USING varve;
INSERT INTO limits VALUES (1, 5), (2, 6);
CREATE FUNCTION most(int) RETURNS float8 LANGUAGE plpgsql STABLE AS $$
DECLARE found float8;
BEGIN
    EXECUTE 'SELECT most FROM limits WHERE k = ' || $1 INTO found;
    RETURN found;
END $$;
SELECT count(*), sum(value) FROM kept WHERE sensor = 1 AND value < most(1);
SELECT count(*), sum(value) FROM kept WHERE sensor = 1 AND value < most(1);
SELECT most FROM limits WHERE k = 1;
SELECT most FROM limits WHERE k = 2;
CREATE FUNCTION other_user(float8) RETURNS bool LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE found int;
BEGIN
    IF $1::int % 500 = 3 THEN
        EXECUTE 'SELECT count(*) FROM kept WHERE value = 5' INTO found;
    END IF;
    RETURN true;
END $$;
GRANT SELECT ON kept TO regress_kept;
ALTER FUNCTION other_user OWNER TO regress_kept;
CREATE TABLE watched(k int);
CREATE FUNCTION count_later() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE found int;
BEGIN
    EXECUTE 'SELECT count(*) FROM kept WHERE other_user(value) AND sensor = ' || NEW.k INTO found;
    RAISE NOTICE '% rows', found;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER later AFTER INSERT ON watched DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION count_later();
INSERT INTO watched VALUES (5), (6), (7);
CREATE TABLE with_rule(time timestamptz NOT NULL, k int, value float8) USING varve;
CREATE TABLE logged(k int, value float8);
CREATE RULE logs AS ON INSERT TO with_rule DO ALSO INSERT INTO logged SELECT NEW.k, most FROM limits WHERE most < most(2) AND k = 1;
INSERT INTO with_rule VALUES ('2026-01-01Z', 1, 1);
INSERT INTO with_rule VALUES ('2026-01-02Z', 2, 2);
INSERT INTO with_rule VALUES ('2026-01-03Z', 3, 3);
TABLE logged;

-- Bodies of functions in SQL are read under settings that nobody watches: their statements are planned each time.
\c -
CREATE FUNCTION midnight() RETURNS timestamptz LANGUAGE sql STABLE AS $$SELECT '2026-06-01 00:00'::timestamptz$$;
SET TimeZone = 'UTC';
INSERT INTO limits VALUES (extract(epoch FROM midnight()), 1);
INSERT INTO limits VALUES (extract(epoch FROM midnight()), 2);
SET TimeZone = 'Asia/Tokyo';
INSERT INTO limits VALUES (extract(epoch FROM midnight()), 3);
RESET TimeZone;
SELECT * FROM limits ORDER BY most;
CREATE FUNCTION zone() RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$BEGIN RETURN current_setting('TimeZone'); END $$;
SET TimeZone = 'UTC';
SELECT most, zone() FROM limits WHERE k = 1;
SELECT most, zone() FROM limits WHERE k = 2;
SET TimeZone = 'Asia/Tokyo';
SELECT most, zone() FROM limits WHERE k = 1;
RESET TimeZone;

-- A table that the planner alone has locked, since the statement names its parent.
CREATE TABLE parts(id int, name text) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (5);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (5) TO (10);
INSERT INTO parts SELECT g, 'p' || g % 2 FROM generate_series(0, 9) g;
BEGIN;
SELECT count(*) FROM kept WHERE sensor IN (SELECT id FROM parts WHERE id < 5 AND name = 'p1');
SELECT count(*) FROM kept WHERE sensor IN (SELECT id FROM parts WHERE id < 5 AND name = 'p0');
SELECT relation::regclass FROM pg_locks WHERE pid = pg_backend_pid() AND relation::regclass::text ~ '^parts' ORDER BY 1;
COMMIT;
BEGIN;
SELECT count(*) FROM kept WHERE sensor IN (SELECT id FROM parts WHERE id < 5 AND name = 'p2');
SELECT relation::regclass FROM pg_locks WHERE pid = pg_backend_pid() AND relation::regclass::text ~ '^parts' ORDER BY 1;
COMMIT;

-- Ranges with most of the rows, which have plans of their own.
\c -
ANALYZE kept;
SELECT count(*), max(value) FROM kept WHERE sensor IN (SELECT id FROM names WHERE name IN ('sensor 1', 'sensor 2')) AND time >= '2026-02-01Z' AND time < '2026-02-15Z';
SELECT count(*), max(value) FROM kept WHERE sensor IN (SELECT id FROM names WHERE name IN ('sensor 3', 'sensor 4')) AND time >= '2026-02-02Z' AND time < '2026-02-14Z';
SELECT count(*), max(value) FROM kept WHERE sensor IN (SELECT id FROM names WHERE name IN ('sensor 3', NULL)) AND time >= '2026-02-02Z' AND time < '2026-02-02 01:00Z';
SELECT count(*), max(value) FROM kept WHERE sensor IN (SELECT id FROM names WHERE name IN ('sensor 5', 'nobody')) AND time >= '2026-01-02Z' AND time < '2026-12-02Z';
SELECT count(*), max(value) FROM kept WHERE sensor IN (SELECT id FROM names WHERE name IN ('sensor 6', 'sensor 7')) AND time >= '2026-02-14Z' AND time < '2026-02-01Z';
-- WITH queries that are read once. Those that are read twice, are materialized, change rows or have others in them are planned each time.
WITH w AS (SELECT time_bucket('7 days', time) AS week, sensor, max(value) FROM kept WHERE time >= '2026-02-01Z' AND time < '2026-02-15Z' GROUP BY 1, 2)
  SELECT * FROM w JOIN names ON w.sensor = names.id WHERE id < 3 ORDER BY week, name;
WITH w AS (SELECT time_bucket('7 days', time) AS week, sensor, max(value) FROM kept WHERE time >= '2026-02-05Z' AND time < '2026-02-14Z' GROUP BY 1, 2)
  SELECT * FROM w JOIN names ON w.sensor = names.id WHERE id < 3 ORDER BY week, name;
WITH w AS (SELECT time_bucket('7 days', time) AS week, sensor, max(value) FROM kept WHERE time >= '2026-02-05Z' AND time < '2026-02-14Z' GROUP BY 1, 2)
  SELECT * FROM w JOIN names ON w.sensor = names.id WHERE id < 2 ORDER BY week, name;
TABLE plans;
WITH w AS (SELECT sensor, time FROM kept WHERE sensor = 1 AND time >= '2026-02-01Z' AND time < '2026-02-02Z') SELECT count(*) FROM w JOIN w AS other USING (time);
WITH w AS (SELECT sensor, time FROM kept WHERE sensor = 2 AND time >= '2026-02-01Z' AND time < '2026-02-03Z') SELECT count(*) FROM w JOIN w AS other USING (time);
WITH w AS MATERIALIZED (SELECT sensor, time FROM kept WHERE sensor = 1 AND time >= '2026-02-01Z' AND time < '2026-02-02Z') SELECT count(*) FROM w;
WITH w AS MATERIALIZED (SELECT sensor, time FROM kept WHERE sensor = 2 AND time >= '2026-02-01Z' AND time < '2026-02-03Z') SELECT count(*) FROM w;
WITH w AS (DELETE FROM kept WHERE sensor = 9 AND time = '2026-02-01 00:09Z' RETURNING time) SELECT * FROM w;
WITH w AS (DELETE FROM kept WHERE sensor = 9 AND time = '2026-02-01 00:19Z' RETURNING time) SELECT * FROM w;
WITH w AS (WITH v AS (SELECT * FROM kept WHERE sensor = 8) SELECT count(*) FROM v) SELECT * FROM w;
WITH w AS (WITH v AS (SELECT * FROM kept WHERE sensor = 9) SELECT count(*) FROM v) SELECT * FROM w;
-- Row security is seen, and another user's rights.
ALTER TABLE kept ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON kept TO regress_kept;
SET ROLE regress_kept;
WITH w AS (SELECT sensor, count(*) FROM kept WHERE time >= '2026-02-01Z' AND time < '2026-02-15Z' GROUP BY 1) SELECT count(*) FROM w;
RESET ROLE;
WITH w AS (SELECT sensor, count(*) FROM kept WHERE time >= '2026-02-01Z' AND time < '2026-02-15Z' GROUP BY 1) SELECT count(*) FROM w;
WITH w AS (SELECT sensor, count(*) FROM kept WHERE time >= '2026-02-02Z' AND time < '2026-02-15Z' GROUP BY 1) SELECT count(*) FROM w;
SET ROLE regress_kept;
WITH w AS (SELECT sensor, count(*) FROM kept WHERE time >= '2026-02-02Z' AND time < '2026-02-15Z' GROUP BY 1) SELECT count(*) FROM w;
WITH w AS (SELECT sensor, count(*) FROM kept WHERE time >= '2026-02-02Z' AND time < '2026-02-15Z' GROUP BY 1) SELECT count(*) FROM w JOIN names ON id = sensor;
RESET ROLE;
ALTER TABLE kept DISABLE ROW LEVEL SECURITY;
REVOKE SELECT ON kept FROM regress_kept;

-- Constants deep in an expression are values, too.
\c -
INSERT INTO kept (time, sensor, value, more) VALUES ('2027-04-01Z', 1, round((1 + 2 * sqrt(3 + 4 * sqrt(5 + 6 * sqrt(7 + 8 * (9 + 10 * (11 + 1))))))::numeric, 3)::float8, 1) RETURNING value;
INSERT INTO kept (time, sensor, value, more) VALUES ('2027-04-02Z', 2, round((1 + 2 * sqrt(3 + 4 * sqrt(5 + 6 * sqrt(7 + 8 * (9 + 10 * (11 + 2))))))::numeric, 3)::float8, 1) RETURNING value;
SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'varve kept plan';

-- Many constants are left to the planner.
SELECT count(*) FROM limits WHERE k IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70);
SELECT count(*) FROM limits WHERE k IN (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71);
DROP OWNED BY regress_kept CASCADE;
DROP ROLE regress_kept;

-- Other tests have tables of these names.
SET client_min_messages = warning;
DROP VIEW plans;
DROP SCHEMA other CASCADE;
DROP TABLE kept, names, made, grows, watched, with_rule, logged, limits, parts CASCADE;
DROP FUNCTION twice, most, count_later, midnight, zone;
