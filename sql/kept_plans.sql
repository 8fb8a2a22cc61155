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
DROP OWNED BY regress_kept;
DROP ROLE regress_kept;
