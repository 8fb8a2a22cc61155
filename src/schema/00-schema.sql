\echo Use "CREATE EXTENSION varve" to load this file. \quit

-- Administration (compact, verify, chunks, stats …) lives here; functions that people type in queries live in the schema that
-- CREATE EXTENSION was given.
-- Operators and functions in what follows are the server's own, whatever somebody has put into that schema before.
SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
CREATE SCHEMA varve;
GRANT USAGE ON SCHEMA varve TO PUBLIC;
