-- What would take rows from a rollup, or bring others, behind its back is refused: by DDL on the table that stores it, and on what varve keeps.
CREATE SCHEMA rollup_own_tables;
SET search_path = rollup_own_tables, public;
CREATE TABLE cpu (host text, time timestamptz NOT NULL, usage int, PRIMARY KEY (host, time)) USING varve;
INSERT INTO cpu SELECT 'h' || n % 2, timestamptz '2026-01-01' + n * interval '1 minute', n FROM generate_series(0, 2999) n;
SET client_min_messages = warning;
SELECT varve.create_rollup('r', $$SELECT time_bucket('1 hour', time) AS hour, host, count(*) AS rows FROM cpu GROUP BY 1, 2$$);
CALL varve.refresh_rollup('r');
RESET client_min_messages;

-- By DDL on the table.
ALTER TABLE r_stored SET UNLOGGED;
ALTER TABLE r_stored ENABLE ROW LEVEL SECURITY;
ALTER TABLE r_stored SET ACCESS METHOD heap;
CREATE TABLE child () INHERITS (r_stored);
CREATE OR REPLACE VIEW r AS SELECT hour, host, rows FROM r_stored;

-- A column comes and goes.
ALTER TABLE r_stored ADD COLUMN remark text;
ALTER TABLE r_stored DROP COLUMN remark;
SELECT count(*), sum(rows) FROM r;

-- By REFRESH of what varve keeps.
REFRESH MATERIALIZED VIEW varve.rollup;
REFRESH MATERIALIZED VIEW varve.rollup_mark;
REFRESH MATERIALIZED VIEW varve.rollup_late;
REFRESH MATERIALIZED VIEW varve.job_states;
REFRESH MATERIALIZED VIEW varve.chunk_files;
INSERT INTO cpu VALUES ('h0', '2026-01-01 00:30:30', 0);
CALL varve.refresh_rollup('r');
SELECT count(*), sum(rows) FROM r;

-- A deferred trigger of the table fires while its rows are written.
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER noted AFTER INSERT OR DELETE ON r_stored DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
EXECUTE FUNCTION rollup_own_tables.note();
INSERT INTO cpu VALUES ('h1', '2026-01-01 00:31:30', 0);
CALL varve.refresh_rollup('r');
SELECT count(*), sum(rows) FROM r;

-- Who may not read the columns makes no rollup.
CREATE ROLE rollup_own_tables_reader;
GRANT CREATE, USAGE ON SCHEMA rollup_own_tables TO rollup_own_tables_reader;
GRANT TRIGGER ON cpu TO rollup_own_tables_reader;
GRANT SELECT (host, time) ON cpu TO rollup_own_tables_reader;
SET ROLE rollup_own_tables_reader;
SET client_min_messages = warning;
SELECT varve.create_rollup('of_usage', $$SELECT time_bucket('1 hour', time) AS hour, sum(usage) AS sum FROM cpu GROUP BY 1$$);
SELECT varve.create_rollup('of_hosts', $$SELECT time_bucket('1 hour', time) AS hour, host, count(*) AS rows FROM cpu GROUP BY 1, 2$$);
CALL varve.refresh_rollup('of_hosts');
SELECT count(*), sum(rows) FROM of_hosts;
RESET ROLE;
DROP SCHEMA rollup_own_tables CASCADE;
DROP ROLE rollup_own_tables_reader;
