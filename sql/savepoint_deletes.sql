-- Deletes of ten chunks' worth of rows in savepoints that are rolled back leave nothing behind: neither in the index, nor among
-- the headers, nor in the file but for two pages, which VACUUM cuts off.
CREATE TABLE sp(time timestamptz NOT NULL, host int, a float8) USING varve;
CREATE INDEX ON sp USING varve (host, time);
INSERT INTO sp
    SELECT '2026-01-01'::timestamptz + t * interval '10 s', h, hashint4(t * 10 + h) % 1000
    FROM generate_series(1, 5000) t, generate_series(1, 10) h;
CALL varve.compact('sp');
CREATE TABLE before AS SELECT * FROM varve.chunks('sp');
SELECT pg_relation_size('sp') AS file, pg_relation_size('sp_host_time_idx') AS index, count(*), sum(a) FROM sp \gset before_
CREATE VIEW changed AS
    SELECT pg_relation_size('sp') - :before_file <= 16384 AS file, pg_relation_size('sp_host_time_idx') - :before_index AS index,
           (SELECT count(*) FROM (TABLE before EXCEPT SELECT * FROM varve.chunks('sp')) gone) AS headers,
           (SELECT count(*) = :before_count AND sum(a) = :before_sum FROM sp) AS same_rows;

-- A chunk each.
DO $$ BEGIN
    FOR i IN 1..10 LOOP
        BEGIN
            DELETE FROM sp WHERE host = i AND a < 900;
            RAISE EXCEPTION 'back';
        EXCEPTION WHEN raise_exception THEN NULL;
        END;
    END LOOP;
END $$;
TABLE changed;

-- All of them at once: most rows, all rows, part by part in savepoints of savepoints.
BEGIN;
SAVEPOINT most;
DELETE FROM sp WHERE a < 900;
ROLLBACK TO most;
TABLE changed;
SAVEPOINT whole;
DELETE FROM sp;
SELECT count(*) FROM sp;
ROLLBACK TO whole;
TABLE changed;
SAVEPOINT parts;
DELETE FROM sp WHERE host < 6;
DELETE FROM sp WHERE host > 3 AND a < 500;
SAVEPOINT inner_part;
DELETE FROM sp WHERE host = 9;
RELEASE inner_part;
ROLLBACK TO parts;
TABLE changed;
COMMIT;
VACUUM sp;
SELECT pg_relation_size('sp') = :before_file AS file FROM changed;
TABLE changed;
SELECT count(*) AS faults FROM varve.verify('sp');
DROP VIEW changed;
DROP TABLE sp, before;
