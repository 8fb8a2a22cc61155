-- The extension is there, in the version that its control file names.
SELECT extname, extversion = (SELECT default_version FROM pg_available_extensions WHERE name = 'varve') AS current
FROM pg_extension WHERE extname = 'varve';

-- What somebody has put into the schema before is none of the extension's business.
SELECT current_database() AS here \gset
CREATE DATABASE varve_early TEMPLATE template0;
\c varve_early
CREATE FUNCTION forged(bigint, interval) RETURNS interval LANGUAGE sql AS 'SELECT $2';
CREATE OPERATOR * (FUNCTION = forged, LEFTARG = bigint, RIGHTARG = interval);
CREATE FUNCTION forged(bigint, numeric) RETURNS bool LANGUAGE sql AS 'SELECT true';
CREATE OPERATOR = (FUNCTION = forged, LEFTARG = bigint, RIGHTARG = numeric);
CREATE EXTENSION varve;
SHOW search_path;
SELECT o.oid::regoperator AS forged, count(*) FROM pg_depend d JOIN pg_operator o ON o.oid = d.refobjid
WHERE d.refclassid = 'pg_operator'::regclass AND d.classid <> 'pg_extension'::regclass AND o.oprnamespace = 'public'::regnamespace GROUP BY o.oid;
-- Where there are no rollups, DDL does not load PL/pgSQL, which parallel workers of the session would load, too.
\c
CREATE TABLE there (time timestamptz NOT NULL) USING varve;
ALTER TABLE there ADD COLUMN host text;
DROP TABLE there;
SELECT count(*) FROM pg_settings WHERE name LIKE 'plpgsql.%';
CREATE TABLE gone (time timestamptz NOT NULL, host text) USING varve;
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM gone GROUP BY b');
SET client_min_messages = warning;
DROP EXTENSION varve CASCADE;
SELECT count(*) FROM pg_event_trigger;
\c :here
DROP DATABASE varve_early;
