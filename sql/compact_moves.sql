-- Chunks move down in the file where that is worth what it writes: not into holes that DELETE has left and the next rows fill.
CREATE TABLE moved(time timestamptz NOT NULL, host int NOT NULL, value float8, PRIMARY KEY (host, time)) USING varve
    WITH (autovacuum_enabled = false);
CREATE PROCEDURE load(first int, last int) LANGUAGE plpgsql AS $$
BEGIN
    FOR day IN first..last LOOP
        INSERT INTO moved
            SELECT '2026-01-01'::timestamptz + day * interval '1 day' + n / 500 * interval '1 s', n % 500, hashint8extended(n, day) / 7.0::float8
            FROM generate_series(0, 39999) n;
        COMMIT;
        CALL varve.compact('moved');
    END LOOP;
END $$;
CALL load(0, 7);
SELECT pg_relation_size('moved') AS loaded, pg_relation_size('moved') / 8192 > 256 AS is_large \gset
SELECT :'is_large' AS is_large;
-- A few new rows do not make compact vacuum all of it more than once, and it knows how many rows there are.
SELECT pg_stat_get_vacuum_count('moved'::regclass) AS vacuums \gset
INSERT INTO moved SELECT '2026-01-20'::timestamptz, n, n FROM generate_series(1, 1000) n;
CALL varve.compact('moved');
SELECT pg_stat_get_vacuum_count('moved'::regclass) - :vacuums AS vacuums, (SELECT reltuples FROM pg_class WHERE oid = 'moved'::regclass);
DELETE FROM moved WHERE time = '2026-01-20';
-- The older half goes, and the other one stays where it is.
CREATE TEMP TABLE kept AS SELECT header FROM varve.chunks('moved') WHERE min_time::timestamptz >= '2026-01-05';
DELETE FROM moved WHERE time < '2026-01-05';
CALL varve.compact('moved');
SELECT count(*) AS chunks, count(kept.header) AS at_their_places FROM varve.chunks('moved') c LEFT JOIN kept ON kept.header::text = c.header::text;
-- As much again fills the holes.
CALL load(8, 11);
SELECT pg_relation_size('moved') <= :loaded * 1.1 AS is_no_larger, count(*), count(DISTINCT value) FROM moved;
-- Where most goes the file gets shorter.
DELETE FROM moved WHERE time < '2026-01-12';
CALL varve.compact('moved');
SELECT pg_relation_size('moved') < :loaded / 4 AS is_short, count(*), count(DISTINCT value) FROM moved;
SELECT count(*) AS faults FROM varve.verify('moved');
-- What compact has left behind itself is not left there: it writes a chunk anew before it can use the old one's place.
CALL load(12, 18);
UPDATE moved SET value = value + 1;
CALL varve.compact('moved');
SELECT pg_relation_size('moved') <= 1.2 * sum(bytes) AS is_dense FROM varve.stats('moved') WHERE part IN ('tail', 'chunks', 'headers');
SELECT count(*), count(DISTINCT value) FROM moved;
SELECT count(*) AS faults FROM varve.verify('moved');
-- Others' VACUUM does not make the kept half move either: what compact had left behind was put down when it ended.
TRUNCATE moved;
CALL load(0, 7);
DROP TABLE kept;
CREATE TEMP TABLE kept AS SELECT header FROM varve.chunks('moved') WHERE min_time::timestamptz >= '2026-01-05';
DELETE FROM moved WHERE time < '2026-01-05';
VACUUM moved;
SELECT pg_relation_size('moved') / 8192 > 128 AS is_large, pg_current_wal_insert_lsn() AS wal FROM moved LIMIT 1 \gset
CALL varve.compact('moved');
SELECT :'is_large' AS is_large, count(*) > 0 AND count(*) = count(kept.header) AS at_their_places, pg_current_wal_insert_lsn() - :'wal'::pg_lsn < 20000 AS little_wal
FROM varve.chunks('moved') c LEFT JOIN kept ON kept.header::text = c.header::text;
SELECT count(*), count(DISTINCT value) FROM moved;
SELECT count(*) AS faults FROM varve.verify('moved');
-- What compact could not move down, since nothing could be cut off, it does not forget: with a vacuum of others, and without.
CREATE FUNCTION is_dense(of_table regclass) RETURNS boolean LANGUAGE sql AS $$
    SELECT pg_relation_size(of_table) <= 1.2 * sum(bytes) FROM varve.stats(of_table) WHERE part IN ('tail', 'chunks', 'headers')
$$;
ALTER TABLE moved SET (vacuum_truncate = off);
UPDATE moved SET value = value + 1;
CALL varve.compact('moved');
VACUUM moved;
DELETE FROM moved WHERE host = 499;
CALL varve.compact('moved');
SELECT is_dense('moved');
ALTER TABLE moved RESET (vacuum_truncate);
VACUUM moved;
CALL varve.compact('moved');
SELECT is_dense('moved');
ALTER TABLE moved SET (vacuum_truncate = off);
UPDATE moved SET value = value + 1;
CALL varve.compact('moved');
DELETE FROM moved WHERE host = 498;
CALL varve.compact('moved');
SELECT is_dense('moved');
ALTER TABLE moved RESET (vacuum_truncate);
DELETE FROM moved WHERE host = 497;
CALL varve.compact('moved');
SELECT is_dense('moved');
SELECT count(*), count(DISTINCT value) FROM moved;
SELECT count(*) AS faults FROM varve.verify('moved');
-- The same of a table that was compacted for the first time then.
CREATE TABLE young(LIKE moved, PRIMARY KEY (host, time)) USING varve WITH (autovacuum_enabled = false, vacuum_truncate = off);
INSERT INTO young SELECT '2026-01-01'::timestamptz + n / 500 * interval '1 s', n % 500, hashint8extended(n, 1) / 7.0::float8 FROM generate_series(0, 159999) n;
INSERT INTO young SELECT '2026-01-02'::timestamptz + n / 500 * interval '1 s', n % 500, hashint8extended(n, 2) / 7.0::float8 FROM generate_series(0, 159999) n;
CALL varve.compact('young');
ALTER TABLE young RESET (vacuum_truncate);
DELETE FROM young WHERE host = 499;
CALL varve.compact('young');
SELECT is_dense('young');
SELECT count(*), count(DISTINCT value) FROM young;
DROP TABLE young;
DROP FUNCTION is_dense;
DROP PROCEDURE load;
DROP TABLE moved, kept;
