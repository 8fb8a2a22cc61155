-- A table with compressed rows that keeps its new rows in the tail (here: because of a key that no series index serves) has ordinary indexes
-- that cover only some of its rows. Whatever happens to its file, they stay out of plans.
SET client_min_messages = warning;
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE moves_space LOCATION '';
RESET allow_in_place_tablespaces;
CREATE TABLE moved (time timestamptz NOT NULL, device int, value float8) USING varve;
SET varve.chunk_rows = 1000;
INSERT INTO moved SELECT '2026-01-01'::timestamptz + g * interval '1 s', g % 10, g FROM generate_series(1, 5000) g;
CREATE INDEX moved_value ON moved (value);
ALTER TABLE moved ADD CONSTRAINT once UNIQUE (time, value);
CREATE FUNCTION uses_moved_value() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    line text;
    found bigint;
BEGIN
    SET LOCAL enable_seqscan = off;
    SELECT count(*) INTO found FROM moved WHERE value BETWEEN 100 AND 102;
    FOR line IN EXPLAIN (COSTS OFF) SELECT * FROM moved WHERE value BETWEEN 100 AND 102 LOOP
        IF line ~ 'moved_value' THEN RETURN found || ' rows, by the index'; END IF;
    END LOOP;
    RETURN found || ' rows';
END $$;
SELECT uses_moved_value();

-- The same bytes under another file number.
ALTER TABLE moved SET TABLESPACE moves_space;
SELECT uses_moved_value();
ALTER TABLE ALL IN TABLESPACE moves_space SET TABLESPACE pg_default;
SELECT uses_moved_value();
BEGIN;
ALTER TABLE moved SET TABLESPACE moves_space;
SELECT uses_moved_value();
ROLLBACK;
SELECT uses_moved_value();
BEGIN;
SAVEPOINT s;
ALTER TABLE moved SET TABLESPACE moves_space;
ROLLBACK TO s;
SELECT uses_moved_value();
COMMIT;
SELECT uses_moved_value();

-- Changes that are not written yet go with the rows.
BEGIN ISOLATION LEVEL REPEATABLE READ;
DELETE FROM moved WHERE value = 4000;
ALTER TABLE moved SET TABLESPACE moves_space;
SELECT count(*) FROM moved;
COMMIT;
SELECT count(*) FROM moved;
SELECT * FROM varve.verify('moved');

-- New files with old rows.
VACUUM FULL moved;
SELECT uses_moved_value();
CLUSTER moved USING moved_value;
SELECT uses_moved_value();

-- New files without compressed rows: the index is complete, and comes back with the old file where that is rolled back to.
BEGIN;
TRUNCATE moved;
INSERT INTO moved VALUES ('2026-01-01', 1, 101);
SELECT uses_moved_value();
ROLLBACK;
SELECT uses_moved_value();
ALTER TABLE moved SET UNLOGGED;
SELECT uses_moved_value();
ALTER TABLE moved SET LOGGED;
SELECT uses_moved_value();
TRUNCATE moved;
INSERT INTO moved SELECT '2026-01-01'::timestamptz + g * interval '1 s', g % 10, g FROM generate_series(1, 5000) g;
SELECT uses_moved_value();

-- A table of which an index alone says what its time is.
CREATE TABLE ticks (series int, tick bigint, value float8) USING varve;
CREATE INDEX ticks_value ON ticks (value);
INSERT INTO ticks SELECT g % 3, g, g FROM generate_series(1, 3000) g;
SET enable_seqscan = off;
SET varve.enable_aggregate = off;
EXPLAIN (COSTS OFF) SELECT * FROM ticks WHERE value = 7;
CREATE INDEX ON ticks USING varve (series, tick);
EXPLAIN (COSTS OFF) SELECT * FROM ticks WHERE value = 7;
CALL varve.compact('ticks');
SELECT * FROM ticks WHERE value = 7;
DROP INDEX ticks_series_tick_idx;
EXPLAIN (COSTS OFF) SELECT * FROM ticks WHERE value = 7;
SELECT * FROM ticks WHERE value = 7;
RESET enable_seqscan;

-- pg_class counts rows, whoever writes it.
CREATE TABLE counted (time timestamptz NOT NULL, host text, value float8) USING varve WITH (autovacuum_enabled = off);
CREATE FUNCTION rows_of_counted() RETURNS float8 LANGUAGE sql AS
$$ SELECT reltuples FROM pg_class WHERE oid = 'counted'::regclass $$;
INSERT INTO counted SELECT '2026-01-01'::timestamptz + g * interval '1 s', 'h' || g % 4, g FROM generate_series(1, 9000) g;
INSERT INTO counted SELECT '2026-01-02'::timestamptz + g * interval '1 s', 'h' || g % 4, g FROM generate_series(1, 100) g;
DELETE FROM counted WHERE value BETWEEN 101 AND 1000;
VACUUM counted;
SELECT rows_of_counted();
ANALYZE counted;
SELECT rows_of_counted();
CREATE INDEX counted_value ON counted (value);
SELECT rows_of_counted();
CREATE INDEX counted_series ON counted USING varve (host, time);
SELECT rows_of_counted();
VACUUM FULL counted;
SELECT rows_of_counted();
CALL varve.compact('counted');
SELECT rows_of_counted();
VACUUM (ANALYZE) counted;
SELECT rows_of_counted();
REINDEX TABLE counted;
SELECT rows_of_counted();
SELECT count(*) FROM counted;

-- An error in an index's expression or predicate arrives as it was raised.
CREATE FUNCTION picky(x float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS
$$ BEGIN IF x = 77 THEN RAISE EXCEPTION 'no sevens' USING ERRCODE = 'ZX777', DETAIL = 'seven', HINT = 'eight'; END IF; RETURN x; END $$;
INSERT INTO counted VALUES ('2026-01-03', 'h', 77);
CREATE FUNCTION tried(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    message text; detail text; hint text; context text;
BEGIN
    EXECUTE statement;
    RETURN 'done';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT,
        context = PG_EXCEPTION_CONTEXT;
    RETURN concat_ws(', ', SQLSTATE, message, detail, hint, replace(split_part(context, E'\n', 1), 'public.', ''));
END $$;
SELECT tried('CREATE INDEX counted_picky ON counted (picky(value))');
SELECT tried('CREATE INDEX counted_picky ON counted (value) WHERE picky(value) > 0');
SELECT tried('CREATE INDEX counted_picky ON counted (host) WHERE picky(value) = 1');
\set SHOW_CONTEXT never
CREATE INDEX CONCURRENTLY counted_picky ON counted (picky(value));
\set SHOW_CONTEXT errors
DROP INDEX counted_picky;
SELECT * FROM varve.verify('counted');

DROP TABLE moved, ticks, counted;
DROP FUNCTION uses_moved_value, rows_of_counted, picky, tried;
DROP TABLESPACE moves_space;
