-- A row of the tail has one entry: in the series index that has the columns of its key. The key's own btree stays empty.
\set VERBOSITY terse
SET timezone = 'UTC';
CREATE TABLE one (time timestamptz, sensor int, v float8, PRIMARY KEY (time, sensor)) USING varve;
INSERT INTO one SELECT '2026-01-01'::timestamptz + i * interval '1 s', i % 10, i FROM generate_series(1, 200) i;
SELECT pg_relation_size('one_pkey') AS bytes_of_key, pg_relation_size('one_pkey_series') > 8192 AS series_has_entries;
\set VERBOSITY default
INSERT INTO one VALUES ('2026-01-01 00:00:07', 7, 0);
\set VERBOSITY terse
INSERT INTO one VALUES ('2026-01-01 00:00:07', 8, 0);
INSERT INTO one VALUES ('2026-01-01 00:00:07', 8, 1) ON CONFLICT DO NOTHING;
INSERT INTO one VALUES ('2026-01-01 00:00:07', 8, 2) ON CONFLICT (sensor, time) DO UPDATE SET v = one.v + excluded.v;
INSERT INTO one VALUES ('2026-01-01 00:00:07', 7, 100) ON CONFLICT ON CONSTRAINT one_pkey DO UPDATE SET v = one.v + excluded.v;
SELECT * FROM one WHERE time = '2026-01-01 00:00:07' ORDER BY sensor;
UPDATE one SET sensor = 7 WHERE sensor = 8 AND time = '2026-01-01 00:00:07';
UPDATE one SET sensor = 6 WHERE sensor = 8 AND time = '2026-01-01 00:00:07';
DELETE FROM one WHERE sensor = 6 AND time = '2026-01-01 00:00:07';
INSERT INTO one VALUES ('2026-01-01 00:00:07', 6, 3);
-- Parts of a transaction that are undone, and keys that are free again.
BEGIN;
SAVEPOINT a;
INSERT INTO one VALUES ('2026-01-02', 1, 1);
ROLLBACK TO a;
INSERT INTO one VALUES ('2026-01-02', 1, 2);
SAVEPOINT b;
INSERT INTO one VALUES ('2026-01-02', 1, 3);
ROLLBACK TO b;
DELETE FROM one WHERE time = '2026-01-02';
INSERT INTO one VALUES ('2026-01-02', 1, 4);
COMMIT;
SELECT * FROM one WHERE time = '2026-01-02';
-- Among compressed rows.
CALL varve.compact('one');
INSERT INTO one VALUES ('2026-01-01 00:00:07', 6, 0);
INSERT INTO one VALUES ('2026-01-03', 6, 0), ('2026-01-03', 7, 0);
INSERT INTO one VALUES ('2026-01-03', 7, 0);
INSERT INTO one SELECT '2026-01-03'::timestamptz + i * interval '1 s', 7, i FROM generate_series(-5, 5) i;
INSERT INTO one SELECT '2026-01-03'::timestamptz + i * interval '1 s', 7, i FROM generate_series(-5, 5) i ON CONFLICT DO NOTHING;
SELECT count(*), sum(v) FROM one WHERE time > '2026-01-02 12:00';
SELECT * FROM varve.verify('one');
-- Builds give the btree what the tail has, and nobody misses it.
REINDEX TABLE one;
INSERT INTO one VALUES ('2026-01-03', 7, 0);
INSERT INTO one VALUES ('2026-01-04', 7, 0);
REINDEX INDEX CONCURRENTLY one_pkey;
INSERT INTO one VALUES ('2026-01-04', 7, 0);
INSERT INTO one VALUES ('2026-01-05', 7, 0);
INSERT INTO one VALUES ('2026-01-05', 7, 0) ON CONFLICT DO NOTHING;
INSERT INTO one VALUES ('2026-01-05', 7, 0);
REINDEX INDEX CONCURRENTLY one_pkey_series;
INSERT INTO one VALUES ('2026-01-05', 7, 0);
INSERT INTO one VALUES ('2026-01-06', 7, 0);
INSERT INTO one VALUES ('2026-01-06', 7, 0);
-- Two keys of the same columns, and one that includes another column.
CREATE UNIQUE INDEX CONCURRENTLY one_twice ON one (sensor, time) INCLUDE (v);
INSERT INTO one VALUES ('2026-01-06', 7, 0);
INSERT INTO one VALUES ('2026-01-07', 7, 0);
INSERT INTO one VALUES ('2026-01-07', 7, 0);
INSERT INTO one VALUES ('2026-01-07', 7, 5) ON CONFLICT (time, sensor) DO UPDATE SET v = excluded.v;
ALTER TABLE one DROP CONSTRAINT one_pkey;
INSERT INTO one VALUES ('2026-01-07', 7, 0);
INSERT INTO one VALUES ('2026-01-08', 7, 0);
INSERT INTO one VALUES ('2026-01-08', 7, 0);
SELECT * FROM varve.verify('one');
DROP TABLE one;

-- A series index that is older than the key is asked first.
CREATE TABLE other (sensor int, time timestamptz, v text) USING varve;
CREATE INDEX other_series ON other USING varve (sensor, time);
ALTER TABLE other ADD CONSTRAINT other_key UNIQUE (sensor, time);
INSERT INTO other VALUES (1, '2026-01-01', 'a'), (2, '2026-01-01', 'b'), (NULL, '2026-01-01', 'c'), (NULL, '2026-01-01', 'd'), (3, NULL, 'e'), (3, NULL, 'f');
INSERT INTO other VALUES (1, '2026-01-01', 'x');
INSERT INTO other VALUES (1, '2026-01-01', 'x') ON CONFLICT DO NOTHING;
INSERT INTO other VALUES (1, '2026-01-01', 'x') ON CONFLICT (sensor, time) DO UPDATE SET v = other.v || excluded.v;
-- Between the two, an index whose function has parts of the transaction of its own.
CREATE FUNCTION careful(v text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN v::int;
EXCEPTION WHEN others THEN
    RETURN length(v);
END $$;
CREATE INDEX other_careful ON other (careful(v));
CREATE UNIQUE INDEX other_last ON other (sensor, time);
ALTER TABLE other DROP CONSTRAINT other_key;
INSERT INTO other VALUES (4, '2026-01-01', '12'), (4, '2026-01-02', 'twelve');
INSERT INTO other VALUES (4, '2026-01-01', '12');
INSERT INTO other VALUES (4, '2026-01-02', 'twelve') ON CONFLICT DO NOTHING;
SELECT pg_relation_size('other_last') AS bytes_of_key;
SELECT * FROM other ORDER BY sensor, time, v;
SELECT count(*) FROM other WHERE sensor = 4;
SELECT * FROM varve.verify('other');
-- Without its series index the key has a btree again.
BEGIN;
DROP INDEX other_series;
INSERT INTO other VALUES (4, '2026-01-02', 'twelve');
ROLLBACK;
INSERT INTO other VALUES (4, '2026-01-02', 'twelve');
DROP INDEX CONCURRENTLY other_series;
SET client_min_messages = warning;
DROP INDEX other_series;
RESET client_min_messages;
INSERT INTO other VALUES (4, '2026-01-02', 'twelve');
INSERT INTO other VALUES (4, '2026-01-03', 'x');
INSERT INTO other VALUES (4, '2026-01-03', 'x');
SELECT * FROM varve.verify('other');
-- Also where no event trigger tells of it; what came meanwhile is looked at.
CREATE INDEX other_series ON other USING varve (sensor, time);
INSERT INTO other VALUES (5, '2026-01-01', 'x');
SET session_replication_role = replica;
BEGIN;
DROP INDEX other_series;
INSERT INTO other VALUES (5, '2026-01-01', 'y');
COMMIT;
DROP INDEX other_series;
INSERT INTO other VALUES (5, '2026-01-01', 'y');
RESET session_replication_role;
SELECT * FROM other WHERE sensor = 5;
SELECT * FROM varve.verify('other');
DROP TABLE other;
DROP FUNCTION careful;

-- A key that is checked later has its entries, and one too long is told by its name.
CREATE TABLE later (sensor text, time timestamptz, v int, UNIQUE (sensor, time) DEFERRABLE INITIALLY DEFERRED) USING varve;
BEGIN;
INSERT INTO later VALUES ('a', '2026-01-01', 1);
INSERT INTO later VALUES ('a', '2026-01-01', 2);
DELETE FROM later WHERE v = 1;
COMMIT;
BEGIN;
INSERT INTO later VALUES ('a', '2026-01-01', 3);
COMMIT;
SELECT pg_relation_size('later_sensor_time_key') > 8192 AS has_entries;
ALTER TABLE later ADD PRIMARY KEY (sensor, time);
INSERT INTO later SELECT string_agg(md5(i::text), ''), '2026-01-01' FROM generate_series(1, 200) i;
INSERT INTO later VALUES ('a', '2026-01-01', 3);
DROP TABLE later;

-- A place that comes again within a transaction has another row.
CREATE TABLE again (sensor int, time timestamptz, v int, PRIMARY KEY (sensor, time)) USING varve;
BEGIN;
INSERT INTO again VALUES (7, '2026-01-01', 1);
TRUNCATE again;
INSERT INTO again VALUES (7, '2026-01-01', 1);
INSERT INTO again VALUES (7, '2026-01-01', 2) ON CONFLICT DO NOTHING;
COMMIT;
INSERT INTO again VALUES (7, '2026-01-01', 1);
SELECT * FROM varve.verify('again');
INSERT INTO again SELECT i % 3, '2026-02-01'::timestamptz + i * interval '1 s', i FROM generate_series(1, 2000) i;
ALTER TABLE again ALTER v TYPE bigint;
BEGIN;
INSERT INTO again VALUES (1, '2026-03-01', 1);
ALTER TABLE again ALTER v TYPE int;
INSERT INTO again VALUES (1, '2026-03-02', 1);
COMMIT;
INSERT INTO again VALUES (1, '2026-03-01', 1);
INSERT INTO again VALUES (1, '2026-03-02', 1);
SELECT * FROM varve.verify('again');
-- An update that kept its key was at the place of a row that comes later.
INSERT INTO again SELECT 9, '2026-03-03'::timestamptz + i * interval '1 s', 1 FROM generate_series(1, 20) i;
BEGIN;
UPDATE again SET v = v + 1 WHERE sensor = 9 AND time = '2026-03-03 00:00:01' RETURNING ctid \gset kept_
TRUNCATE again;
INSERT INTO again SELECT i % 3, '2026-02-01'::timestamptz + i * interval '1 s', i FROM generate_series(1, 2000) i;
SELECT set_config('test.kept', :'kept_ctid', true) IS NOT NULL AS kept;
DO $$
DECLARE
    kept point := current_setting('test.kept')::text::point;
    place point;
BEGIN
    FOR i IN 1 .. 100 LOOP
        INSERT INTO again VALUES (20, '2026-03-04'::timestamptz + i * interval '1 s', 1) RETURNING ctid::text::point INTO place;
        EXIT WHEN place ~= kept - point '(0,1)';
    END LOOP;
    RAISE NOTICE 'the place comes next: %', place ~= kept - point '(0,1)';
END $$;
INSERT INTO again VALUES (1, '2026-02-01 00:00:01', 1);
ROLLBACK;
SELECT * FROM varve.verify('again');
-- What a transaction does after it has dropped the series index, without event triggers.
SET session_replication_role = replica;
BEGIN;
INSERT INTO again VALUES (7, '2026-04-01', 1);
DROP INDEX again_pkey_series;
INSERT INTO again VALUES (7, '2026-04-01', 2) ON CONFLICT DO NOTHING;
COMMIT;
RESET session_replication_role;
SELECT * FROM again WHERE sensor = 7;
SELECT * FROM varve.verify('again');
DROP TABLE again;
