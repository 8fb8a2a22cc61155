-- Rows of COPY and INSERT … SELECT go straight into chunks although they have keys, which are checked when the batch is written.
SET varve.batch_rows = 50;
CREATE FUNCTION at(seconds int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT timestamptz '2026-01-01 00:00:00Z' + seconds * interval '1 s' $$;
CREATE TABLE h(device text, time timestamptz NOT NULL, part int, value int, UNIQUE (device, time, part));
CREATE TABLE v(device text, time timestamptz NOT NULL, part int, value int, UNIQUE (device, time, part)) USING varve;
CREATE INDEX ON v USING varve (device, time);
CREATE PROCEDURE on_both(statement text) LANGUAGE plpgsql AS $$
DECLARE ended text[]; what text; rows bigint;
BEGIN
    FOREACH what IN ARRAY ARRAY['h', 'v'] LOOP
        BEGIN
            EXECUTE replace(statement, '{t}', what);
            GET DIAGNOSTICS rows = ROW_COUNT;
            ended := ended || (rows || ' rows');
        EXCEPTION WHEN unique_violation THEN
            GET STACKED DIAGNOSTICS what = PG_EXCEPTION_DETAIL;
            ended := ended || what;
        END;
    END LOOP;
    IF ended[1] <> ended[2] THEN RAISE EXCEPTION 'heap: %, varve: %', ended[1], ended[2]; END IF;
    RAISE NOTICE '%', ended[1];
END $$;
\set ECHO none
\i sql/include/differences.psql
\set ECHO all

CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), g % 2, g FROM generate_series(1, 5000) g$$);
SELECT part, rows FROM varve.stats('v') WHERE part IN ('tail', 'chunks');
SELECT pg_relation_size('v_device_time_part_key') AS bytes_of_the_key;
-- The first row that cannot be is named: of another statement, of this one, with another part, before and after compact.
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), g % 2, g FROM generate_series(4990, 6000) g$$);
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), g % 2, g FROM generate_series(6000, 4990, -1) g$$);
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(10000 + g % 100), 0, g FROM generate_series(1, 301) g$$);
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), g % 2 + 2, g FROM generate_series(1, 5000) g$$);
CALL on_both($$INSERT INTO {t} SELECT 'd1', at(1), p, p FROM generate_series(4, 200) p$$);
CALL on_both($$INSERT INTO {t} SELECT 'd1', at(1), p, p FROM generate_series(400, 100, -1) p$$);
CALL varve.compact('v');
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), g % 2, g FROM generate_series(4990, 6000) g$$);
CALL on_both($$INSERT INTO {t} SELECT 'd' || g % 5, at(g), g % 2, g FROM generate_series(5001, 6000) g$$);
SELECT differences();
-- A null is equal to nothing.
CALL on_both($$INSERT INTO {t} SELECT CASE WHEN g % 3 > 0 THEN 'n' END, at(1), NULLIF(g % 2, 1), g FROM generate_series(1, 4) g$$);
CALL on_both($$INSERT INTO {t} SELECT NULL, at(1), g % 2, g FROM generate_series(1, 100) g$$);
CALL on_both($$INSERT INTO {t} SELECT 'm', at(1), NULL, g FROM generate_series(1, 100) g$$);
SELECT differences();
-- Few rows go to the tail; those of the tail and of chunks are in each other's way.
CALL on_both($$INSERT INTO {t} SELECT 'd1', at(g), 0, g FROM generate_series(20000, 20020) g$$);
CALL on_both($$INSERT INTO {t} SELECT 'd1', at(g), 0, g FROM generate_series(19900, 20010) g$$);
CALL on_both($$INSERT INTO {t} SELECT 'd1', at(g), 0, g FROM generate_series(20010, 20030) g$$);
CALL on_both($$INSERT INTO {t} SELECT 'd1', at(g), 0, g FROM generate_series(20021, 20120) g$$);
CALL on_both($$INSERT INTO {t} SELECT 'd1', at(g), 0, g FROM generate_series(20119, 20125) g$$);
CALL on_both($$INSERT INTO {t} VALUES ('d1', at(20120), 0, 1)$$);
CALL on_both($$INSERT INTO {t} VALUES ('d1', at(20120), 0, 1), ('d1', at(20121), 0, 1) ON CONFLICT DO NOTHING$$);
SELECT differences();
-- Rows that the transaction itself has deleted, moved or brought.
BEGIN;
CALL on_both($$DELETE FROM {t} WHERE device = 'd2'$$);
CALL on_both($$INSERT INTO {t} SELECT 'd2', at(g), 0, -g FROM generate_series(1, 1000) g$$);
SAVEPOINT s;
CALL on_both($$INSERT INTO {t} SELECT 'd2', at(g), 0, -g FROM generate_series(1001, 3000) g$$);
CALL on_both($$INSERT INTO {t} SELECT 'd2', at(g), 0, -g FROM generate_series(2900, 3100) g$$);
ROLLBACK TO s;
CALL on_both($$INSERT INTO {t} SELECT 'd2', at(g), 0, -g FROM generate_series(1001, 3000) g$$);
CALL on_both($$UPDATE {t} SET time = time + interval '10000 s' WHERE device = 'd2' AND part = 0$$);
CALL on_both($$INSERT INTO {t} SELECT 'd2', at(g), 0, g FROM generate_series(1, 100) g$$);
CALL on_both($$INSERT INTO {t} SELECT 'd2', at(10000 + g), 0, g FROM generate_series(1, 100) g$$);
SELECT differences();
COMMIT;
CALL varve.compact('v');
CALL on_both($$INSERT INTO {t} SELECT 'd2', at(10000 + g), 0, g FROM generate_series(1, 100) g$$);
SELECT differences();
-- A statement larger than its memory, whose first rows are written before its last ones come.
SET varve.batch_memory = '1MB';
CALL on_both($$INSERT INTO {t} SELECT 'big', at(g % 60000), 0, g FROM generate_series(1, 60001) g$$);
CALL on_both($$INSERT INTO {t} SELECT 'big', at(g), 0, g FROM generate_series(1, 60000) g$$);
RESET varve.batch_memory;
SELECT differences();
-- What an error names.
DO $$
DECLARE s text; t text; c text;
BEGIN
    INSERT INTO v SELECT 'd1', at(g), 0, g FROM generate_series(20000, 20100) g;
EXCEPTION WHEN unique_violation THEN
    GET STACKED DIAGNOSTICS s = SCHEMA_NAME, t = TABLE_NAME, c = CONSTRAINT_NAME;
    RAISE WARNING '% % % %', SQLERRM, s, t, c;
END $$;
-- TRUNCATE, and a key that is made in a transaction with the table to itself, leave the way into chunks open.
TRUNCATE v;
INSERT INTO v TABLE h;
SELECT part, rows FROM varve.stats('v') WHERE part = 'tail';
ALTER TABLE v ADD UNIQUE (time, device, part);
TRUNCATE v;
INSERT INTO v TABLE h;
CALL on_both($$INSERT INTO {t} SELECT 'd1', at(g), 0, g FROM generate_series(20000, 20100) g$$);
SELECT part, rows FROM varve.stats('v') WHERE part = 'tail';
SELECT differences();
-- A key that may wait keeps rows in the tail, since they are not to be checked yet.
CREATE TABLE later(device text, time timestamptz, UNIQUE (device, time) DEFERRABLE INITIALLY DEFERRED) USING varve;
BEGIN;
INSERT INTO later SELECT 'd', at(g % 100) FROM generate_series(1, 101) g;
DELETE FROM later WHERE time = at(1);
COMMIT;
SELECT count(*) FROM later;
SELECT count(*) AS faults FROM varve.verify('v');
-- What the key includes goes into the entries of a few rows; a key that no entry has room for is refused as on a heap.
CREATE TABLE wide(device text, time timestamptz NOT NULL, note text, UNIQUE (device, time) INCLUDE (note)) USING varve;
INSERT INTO wide SELECT 'few', at(g), 'note ' || g FROM generate_series(1, 20) g;
INSERT INTO wide SELECT 'many', at(g), 'note ' || g FROM generate_series(1, 200) g;
SELECT part, rows FROM varve.stats('wide') WHERE part IN ('tail', 'chunks');
\set VERBOSITY sqlstate
INSERT INTO wide SELECT string_agg(md5(i::text), ''), at(g), 'long' FROM generate_series(1, 100) i, generate_series(1, 2) g GROUP BY g;
INSERT INTO wide SELECT string_agg(md5(i::text), ''), at(g), 'long' FROM generate_series(1, 100) i, generate_series(1, 60) g GROUP BY g;
INSERT INTO wide SELECT 'included', at(g), string_agg(md5(i::text), '') FROM generate_series(1, 100) i, generate_series(1, 60) g GROUP BY g;
\set VERBOSITY default
INSERT INTO wide SELECT repeat('compressible ', 400), at(g), 'long' FROM generate_series(1, 60) g;
INSERT INTO wide SELECT string_agg(md5(i::text), ''), at(g), 'fits' FROM generate_series(1, 80) i, generate_series(1, 60) g GROUP BY g;
SELECT count(*), count(DISTINCT (device, time)) FROM wide;
REINDEX TABLE wide;
-- Nor is it taken for one that rows of chunks could have.
CREATE TABLE later_wide(device text, time timestamptz NOT NULL) USING varve;
INSERT INTO later_wide SELECT string_agg(md5(i::text), ''), at(g) FROM generate_series(1, 100) i, generate_series(1, 60) g GROUP BY g;
\set VERBOSITY sqlstate
ALTER TABLE later_wide ADD PRIMARY KEY (device, time);
\set VERBOSITY default
SELECT count(*) AS faults FROM varve.verify('wide');
DROP TABLE v, h, later, wide, later_wide;
DROP PROCEDURE on_both;
DROP FUNCTION differences, at;
