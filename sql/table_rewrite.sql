-- VACUUM FULL and CLUSTER of a table with chunks, against a heap twin.
SET TIME ZONE 'UTC';
SET varve.chunk_rows = 1000;
CREATE FUNCTION rewrite_differs(a regclass, b regclass) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM ((TABLE %1$s EXCEPT ALL TABLE %2$s) UNION ALL (TABLE %2$s EXCEPT ALL TABLE %1$s)) d', a, b) INTO n;
    RETURN n;
END $$;
CREATE TABLE rewrite_h (host text, ts timestamptz, v double precision, n int, note text) USING heap;
CREATE TABLE rewrite_v (LIKE rewrite_h) USING varve;
INSERT INTO rewrite_h SELECT 'host' || i % 7, '2024-01-01'::timestamptz + i * interval '10 s', i / 8.0, NULLIF(i % 5, 0), repeat('x', i % 40)
  FROM generate_series(1, 6000) i;
INSERT INTO rewrite_v SELECT * FROM rewrite_h;
SELECT rewrite_differs('rewrite_h', 'rewrite_v');

VACUUM FULL rewrite_v;
SELECT rewrite_differs('rewrite_h', 'rewrite_v');
SELECT count(*) FROM varve.verify('rewrite_v');

-- Deleted and updated rows, tail rows, wide tail rows, a column with a wide default.
DELETE FROM rewrite_h WHERE host = 'host3' OR n = 2;
DELETE FROM rewrite_v WHERE host = 'host3' OR n = 2;
UPDATE rewrite_h SET v = v + 1 WHERE n = 1 AND host = 'host1';
UPDATE rewrite_v SET v = v + 1 WHERE n = 1 AND host = 'host1';
INSERT INTO rewrite_h VALUES ('tail', '2025-01-01', 1, 1, repeat('wide', 500000));
INSERT INTO rewrite_v VALUES ('tail', '2025-01-01', 1, 1, repeat('wide', 500000));
ALTER TABLE rewrite_h ADD COLUMN added int DEFAULT 7, ADD COLUMN wide text DEFAULT repeat('w', 3000);
ALTER TABLE rewrite_v ADD COLUMN added int DEFAULT 7, ADD COLUMN wide text DEFAULT repeat('w', 3000);
INSERT INTO rewrite_h SELECT 'later' || i % 3, '2024-06-01'::timestamptz + i * interval '1 s', i, i, 'n', i, 'mine' FROM generate_series(1, 1500) i;
INSERT INTO rewrite_v SELECT 'later' || i % 3, '2024-06-01'::timestamptz + i * interval '1 s', i, i, 'n', i, 'mine' FROM generate_series(1, 1500) i;
SELECT rewrite_differs('rewrite_h', 'rewrite_v');
VACUUM FULL rewrite_v;
SELECT rewrite_differs('rewrite_h', 'rewrite_v');
SELECT count(*) FROM rewrite_v WHERE added IS NULL OR wide IS NULL;
SELECT count(*) FROM varve.verify('rewrite_v');

-- A dropped column, CLUSTER on an ordinary and on a series index, REINDEX, changes afterwards.
ALTER TABLE rewrite_h DROP COLUMN note;
ALTER TABLE rewrite_v DROP COLUMN note;
SET client_min_messages = warning;
CREATE INDEX rewrite_plain ON rewrite_v (ts);
CLUSTER rewrite_v USING rewrite_plain;
SELECT rewrite_differs('rewrite_h', 'rewrite_v');
DROP INDEX rewrite_plain;
CREATE INDEX rewrite_series ON rewrite_v USING varve (host, ts);
CLUSTER rewrite_v USING rewrite_series;
RESET client_min_messages;
SELECT rewrite_differs('rewrite_h', 'rewrite_v');
SELECT count(*) FROM varve.verify('rewrite_v');
SET enable_seqscan = off;
SET varve.enable_aggregate = off;
SELECT count(*), sum(n) FROM rewrite_v WHERE host = 'host1' AND ts < '2024-01-01 08:00';
SET enable_seqscan = on;
SELECT count(*), sum(n) FROM rewrite_h WHERE host = 'host1' AND ts < '2024-01-01 08:00';
UPDATE rewrite_h SET n = n + 1 WHERE host = 'host1';
UPDATE rewrite_v SET n = n + 1 WHERE host = 'host1';
DELETE FROM rewrite_h WHERE host = 'host2' AND n > 2;
DELETE FROM rewrite_v WHERE host = 'host2' AND n > 2;
CALL varve.compact('rewrite_v');
VACUUM FULL rewrite_v;
SELECT rewrite_differs('rewrite_h', 'rewrite_v');
SELECT count(*) FROM varve.verify('rewrite_v');

-- All rows deleted and updated: nothing is left of the chunks.
UPDATE rewrite_v SET n = 0;
UPDATE rewrite_h SET n = 0;
VACUUM FULL rewrite_v;
SELECT rewrite_differs('rewrite_h', 'rewrite_v');
DELETE FROM rewrite_v;
VACUUM FULL rewrite_v;
SELECT pg_relation_size('rewrite_v');

-- Within a transaction: CLUSTER after changes of its own, and rolled back.
CREATE INDEX rewrite_h_ts ON rewrite_h (ts);
INSERT INTO rewrite_v SELECT * FROM rewrite_h;
BEGIN;
DELETE FROM rewrite_v WHERE host = 'host4';
SAVEPOINT a;
DELETE FROM rewrite_v WHERE host = 'host5';
ROLLBACK TO a;
CLUSTER rewrite_v USING rewrite_series;
SELECT count(*) FROM rewrite_v WHERE host IN ('host4', 'host5');
DELETE FROM rewrite_v WHERE host = 'host6';
COMMIT;
DELETE FROM rewrite_h WHERE host IN ('host4', 'host6');
SELECT rewrite_differs('rewrite_h', 'rewrite_v');
BEGIN;
CLUSTER rewrite_v;
DELETE FROM rewrite_v;
ROLLBACK;
SELECT rewrite_differs('rewrite_h', 'rewrite_v');
SELECT count(*) FROM varve.verify('rewrite_v');

-- Other ways to a new file.
ALTER TABLE rewrite_v SET UNLOGGED;
SELECT rewrite_differs('rewrite_h', 'rewrite_v');
ALTER TABLE rewrite_v SET LOGGED;
SELECT rewrite_differs('rewrite_h', 'rewrite_v');
ALTER TABLE rewrite_v SET ACCESS METHOD heap;
SELECT rewrite_differs('rewrite_h', 'rewrite_v');
DROP TABLE rewrite_v, rewrite_h;
DROP FUNCTION rewrite_differs;
