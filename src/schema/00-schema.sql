\echo Use "CREATE EXTENSION varve" to load this file. \quit

-- Administration (compact, verify, chunks, stats …) lives here; functions that people type in queries live in the schema that
-- CREATE EXTENSION was given.
CREATE SCHEMA varve;
GRANT USAGE ON SCHEMA varve TO PUBLIC;
