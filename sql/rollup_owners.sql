-- Rollups among objects of others: what takes a rollup along, who may make one, whose code runs when its source changes.
SET timezone = 'UTC';
SET client_min_messages = warning;
\set SHOW_CONTEXT never
CREATE TABLE s (time timestamptz NOT NULL, host text NOT NULL, n int) USING varve;
CREATE INDEX ON s USING varve (host, time);
INSERT INTO s SELECT '2026-01-01'::timestamptz + i * interval '1 minute', 'h' || i % 3, i FROM generate_series(0, 999) i;

-- A rollup goes with whatever its view goes with.
CREATE FUNCTION short(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT left($1, 1)';
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, short(host) h, count(*) c FROM s GROUP BY b, h');
CALL varve.refresh_rollup('r');
DROP FUNCTION short CASCADE;
SELECT count(*) FROM varve.rollups;
SELECT to_regclass('r'), to_regclass('r_stored');
CREATE TYPE colour AS ENUM ('red', 'green');
ALTER TABLE s ADD colour colour;
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, colour, count(*) c FROM s GROUP BY b, colour');
DROP TYPE colour CASCADE;
SELECT count(*) FROM varve.rollups;
SELECT to_regclass('r'), to_regclass('r_stored');

SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM s GROUP BY b');
SET session_replication_role = replica;
DROP VIEW r;
RESET session_replication_role;
SELECT to_regclass('r_stored');

-- Tables that inherit from a source would have rows of which nobody tells. What is wrong with one rollup is no matter of other tables.
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, host, count(*) c FROM s GROUP BY b, host');
CREATE TABLE heir () INHERITS (s);
CREATE SCHEMA heirs CREATE TABLE heir () INHERITS (public.s);
CREATE TABLE heir (LIKE s);
ALTER TABLE heir INHERIT s;
ALTER EVENT TRIGGER varve_after_source_ddl DISABLE;
ALTER TABLE heir INHERIT s;
ALTER EVENT TRIGGER varve_after_source_ddl ENABLE ALWAYS;
ALTER TABLE s ALTER n SET STATISTICS 100;
CREATE TABLE elsewhere (a int);
ALTER TABLE elsewhere ADD b int;
DROP TABLE heir, elsewhere;
ANALYZE s;
ALTER TABLE s ALTER n SET STATISTICS 100;

-- The view is the rollup's own.
CREATE OR REPLACE VIEW r AS SELECT b, host, c FROM r_stored;
CREATE OR REPLACE RULE "_RETURN" AS ON SELECT TO r DO INSTEAD SELECT b, host, c FROM r_stored;

-- Rows of a dump without definitions: they are not shown, and not there twice when they are computed.
INSERT INTO r_stored SELECT time_bucket('1 hour', time), host, count(*) FROM s GROUP BY 1, 2;
CREATE VIEW truth AS SELECT time_bucket('1 hour', time) b, host, count(*) c FROM s GROUP BY 1, 2;
CALL varve.refresh_rollup('r');
SELECT count(*), sum(c) FROM r_stored;
(TABLE r EXCEPT ALL TABLE truth) UNION ALL (TABLE truth EXCEPT ALL TABLE r);
-- Its columns may get other names.
ALTER TABLE r_stored RENAME host TO machine;
ALTER TABLE r_stored RENAME b TO bucket;
ALTER TABLE s RENAME host TO who;
ALTER TABLE s RENAME time TO at;
INSERT INTO s VALUES ('2026-01-01 03:00:30', 'h1', 1);
CALL varve.refresh_rollup('r');
SELECT marked_ranges FROM varve.rollups;
(TABLE r EXCEPT ALL TABLE truth) UNION ALL (TABLE truth EXCEPT ALL TABLE r);
ALTER TABLE s RENAME at TO time;
DROP VIEW truth, r;

-- A label on a view that is no rollup's: the table that it names has other columns, or gets them later.
CREATE TABLE kept (b text NOT NULL, c bigint) USING varve;
INSERT INTO kept VALUES ('a', 1);
CREATE VIEW forged AS SELECT computed.* FROM varve.rollup_live('kept', NULL::timestamptz) live,
    LATERAL (SELECT time_bucket('1 hour', time) b, count(*) c FROM s GROUP BY 1) computed;
SECURITY LABEL FOR varve ON VIEW forged
IS '{"watermark": 0, "removed": 0, "ignores_late": false, "stored_has_index": false, "source_has_index": false}';
ALTER TABLE kept ALTER b TYPE timestamptz USING '2000-01-01';
SECURITY LABEL FOR varve ON VIEW forged
IS '{"watermark": 0, "removed": 0, "ignores_late": false, "stored_has_index": false, "source_has_index": false}';
ALTER TABLE kept ALTER b TYPE text;
SELECT count(*) FROM forged;
CALL varve.refresh_rollup('forged');
DROP VIEW forged;
SELECT count(*) FROM varve.rollups;

-- Nor is the view of all rollups an error for everybody's sake who has a long one.
SELECT varve.create_rollup('aeons', 'SELECT time_bucket(''290000 years'', time) b, count(*) c FROM s GROUP BY b');
SELECT name, width FROM varve.rollups;
DROP VIEW aeons;

-- A rollup has those who write to its source do something, as a trigger has; to see the source is not enough.
CREATE ROLE regress_rollup_owner;
CREATE ROLE regress_rollup_guest;
CREATE SCHEMA guest AUTHORIZATION regress_rollup_guest;
ALTER TABLE s OWNER TO regress_rollup_owner;
GRANT SELECT ON s TO regress_rollup_guest;
SET ROLE regress_rollup_guest;
SELECT varve.create_rollup('guest.r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM s GROUP BY b');
CREATE TABLE guest.kept (b timestamptz NOT NULL, c bigint) USING varve;
CREATE VIEW guest.forged AS SELECT computed.* FROM varve.rollup_live('guest.kept', NULL::timestamptz) live,
    LATERAL (SELECT time_bucket('1 hour', time) b, count(*) c FROM s GROUP BY 1) computed;
SECURITY LABEL FOR varve ON VIEW guest.forged
IS '{"watermark": 0, "removed": 0, "ignores_late": false, "stored_has_index": false, "source_has_index": false}';
SET ROLE regress_rollup_owner;
GRANT TRIGGER ON s TO regress_rollup_guest;
SET ROLE regress_rollup_guest;
SELECT varve.create_rollup('guest.r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM s GROUP BY b');
CALL varve.refresh_rollup('guest.r');

-- Code of its owner runs with the owner's rights only when the source is emptied, and nothing of it is left for the commit.
CREATE TABLE guest.seen (who text);
CREATE TABLE guest.late (a int);
CREATE FUNCTION guest.look() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO guest.seen VALUES (current_user); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER look AFTER INSERT ON guest.late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION guest.look();
CREATE FUNCTION guest.emptied() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO guest.late VALUES (1); RETURN NULL; END $$;
CREATE TRIGGER emptied AFTER TRUNCATE ON guest.r_stored EXECUTE FUNCTION guest.emptied();
RESET ROLE;
\set VERBOSITY terse
TRUNCATE s;
\set VERBOSITY default
TABLE guest.seen;
DROP TRIGGER emptied ON guest.r_stored;
TRUNCATE s;
SELECT count(*) FROM guest.r;

-- Operators that the search path has before the server's own are none of the view's.
CREATE SCHEMA others;
CREATE FUNCTION others.never(timestamptz, timestamptz) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT false';
CREATE OPERATOR others.< (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = others.never);
CREATE OPERATOR others.<= (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = others.never);
CREATE OPERATOR others.>= (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = others.never);
CREATE TABLE own (time timestamptz NOT NULL) USING varve;
INSERT INTO own SELECT '2026-01-01'::timestamptz + i * interval '1 minute' FROM generate_series(1, 1000) i;
SET search_path = others, pg_catalog, public;
SELECT varve.create_rollup('public.mine', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM public.own GROUP BY b');
RESET search_path;
SELECT sum(c) FROM mine;
CALL varve.refresh_rollup('mine');
SELECT sum(c) FROM mine;
SELECT varve.drop_rollup('mine');
DROP SCHEMA others CASCADE;
DROP TABLE own;
DROP TABLE s CASCADE;
DROP SCHEMA guest CASCADE;
DROP ROLE regress_rollup_owner, regress_rollup_guest;
SELECT count(*) FROM varve.rollup;
