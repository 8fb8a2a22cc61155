-- What logical decoding sees of a table with compressed rows.
SET client_min_messages = warning;
CREATE FUNCTION decoded() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT regexp_replace(data, '([0-9a-f]{32})+', '(long)', 'g') FROM pg_logical_slot_get_changes('varve_decoded', NULL, NULL)
    WHERE data !~ '^(BEGIN|COMMIT)' AND data !~ 'no-tuple-data'
$$;
CREATE TABLE sent (time timestamptz NOT NULL, k int, v float8, s text) USING varve;
CREATE INDEX ON sent USING varve (k, time);
CREATE INDEX ON sent (v);
ALTER TABLE sent REPLICA IDENTITY FULL;
SET varve.batch_rows = 5;
INSERT INTO sent SELECT '2026-01-01'::timestamptz + g * interval '1 s', g % 2, g, 'x' FROM generate_series(1, 4) g;
CALL varve.compact('sent');
SELECT slot_name FROM pg_create_logical_replication_slot('varve_decoded', 'test_decoding');

-- Every change of a compressed row, once.
DELETE FROM sent WHERE v = 1;
SELECT decoded();
UPDATE sent SET s = 'y' WHERE v = 2;
SELECT decoded();
UPDATE sent SET s = s WHERE v = 3;
SELECT decoded();
UPDATE sent SET s = (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 150) i), time = time + interval '1 h' WHERE v = 4;
SELECT decoded();
SELECT time, k, v, left(s, 5) AS s FROM sent ORDER BY v;

-- Nothing for what merely moves.
CALL varve.compact('sent');
VACUUM FULL sent;
SELECT rows FROM varve.chunks('sent');
SELECT decoded();
UPDATE sent SET v = 40 WHERE v = 4;
SELECT decoded();
CALL varve.compact('sent');

-- Nothing for what is rolled back.
BEGIN;
SAVEPOINT s;
DELETE FROM sent WHERE v = 2;
UPDATE sent SET v = 30 WHERE v = 3;
ROLLBACK TO s;
UPDATE sent SET v = 31 WHERE v = 3;
SELECT v FROM sent ORDER BY v;
COMMIT;
SELECT decoded();
SELECT v FROM sent ORDER BY v;

-- In order: an old key may be taken again in the same statement.
CALL varve.compact('sent');
WITH gone AS (DELETE FROM sent WHERE v = 31 RETURNING *) INSERT INTO sent SELECT time, k, v, 'again' FROM gone;
SELECT decoded();

-- Cursors, triggers and functions see what they see on a heap.
CALL varve.compact('sent');
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE total float8;
BEGIN
    SELECT sum(v) INTO total FROM sent;
    RAISE WARNING '% % -> %, sum %', TG_OP, OLD.v, CASE WHEN TG_OP = 'UPDATE' THEN NEW.v END, total;
    RETURN NULL;
END $$;
CREATE TRIGGER note AFTER UPDATE OR DELETE ON sent FOR EACH ROW EXECUTE FUNCTION note();
BEGIN;
DECLARE before CURSOR FOR SELECT v FROM sent ORDER BY v;
UPDATE sent SET v = v + 1000 RETURNING v;
DECLARE after CURSOR FOR SELECT v FROM sent ORDER BY v;
DELETE FROM sent WHERE v = 1002;
FETCH ALL before;
FETCH ALL after;
UPDATE sent SET v = v + 1 FROM generate_series(1, 2) WHERE v > 1030;
COMMIT;
SELECT decoded();
SELECT * FROM varve.verify('sent');
DROP TRIGGER note ON sent;

-- With another plugin's slot, or in a publication, a bulk load takes the row path.
INSERT INTO sent SELECT '2026-01-02'::timestamptz + g * interval '1 s', g % 2, g, 'bulk' FROM generate_series(1, 5) g;
SELECT count(*) FROM decoded();
SELECT pg_drop_replication_slot('varve_decoded');
CREATE FUNCTION goes_to(name text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('TRUNCATE %s', name);
    EXECUTE format('INSERT INTO %s SELECT ''2026-01-02''::timestamptz + g * interval ''1 s'', g %% 2, g, ''bulk'' FROM generate_series(1, 5) g', name);
    RETURN (SELECT CASE count(*) WHEN 0 THEN 'tail' ELSE 'chunks' END FROM varve.chunks(name::regclass));
END $$;
CREATE TABLE quiet (time timestamptz NOT NULL, k int, v float8, s text) USING varve;
CREATE SCHEMA replicated;
CREATE TABLE parent (time timestamptz NOT NULL, k int, v float8, s text) PARTITION BY RANGE (time);
CREATE TABLE child PARTITION OF parent DEFAULT USING varve;
SELECT goes_to('quiet'), goes_to('child');
CREATE PUBLICATION one FOR TABLE quiet;
SELECT goes_to('quiet'), goes_to('child');
ALTER PUBLICATION one SET TABLE parent;
SELECT goes_to('quiet'), goes_to('child');
DROP PUBLICATION one;
CREATE PUBLICATION one FOR TABLES IN SCHEMA replicated;
SELECT goes_to('quiet'), goes_to('child');
ALTER TABLE quiet SET SCHEMA replicated;
SELECT goes_to('replicated.quiet'), goes_to('child');
DROP PUBLICATION one;
SELECT goes_to('replicated.quiet'), goes_to('child');
CREATE PUBLICATION one FOR ALL TABLES WITH (publish = 'insert');
SELECT goes_to('replicated.quiet'), goes_to('child');
SELECT tablename FROM pg_publication_tables WHERE schemaname = 'varve';
CREATE UNLOGGED TABLE unsent (time timestamptz NOT NULL, k int, v float8, s text) USING varve;
CREATE TEMP TABLE own (time timestamptz NOT NULL, k int, v float8, s text) USING varve;
SELECT goes_to('unsent'), goes_to('own');
-- A session that knew the table before.
PREPARE load AS INSERT INTO child SELECT '2026-01-02'::timestamptz + g * interval '1 s', g % 2, g, 'bulk' FROM generate_series(1, 5) g;
DROP PUBLICATION one;
TRUNCATE child;
EXECUTE load;
SELECT count(*) FROM varve.chunks('child');
CREATE PUBLICATION one FOR TABLE child;
TRUNCATE child;
EXECUTE load;
SELECT count(*) FROM varve.chunks('child');

-- Without an identity core refuses what it refuses on a heap.
CALL varve.compact('child');
DELETE FROM child;
ALTER TABLE child REPLICA IDENTITY NOTHING;
UPDATE child SET v = 1;
ALTER TABLE child REPLICA IDENTITY FULL;
DELETE FROM child;
SELECT * FROM varve.verify('child');
DROP PUBLICATION one;
DROP TABLE sent, parent, replicated.quiet, unsent, own;
DROP SCHEMA replicated;
DROP FUNCTION decoded, note, goes_to;
