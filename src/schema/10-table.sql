-- The table access method: docs/design/0001.
CREATE FUNCTION varve.table_handler(internal) RETURNS table_am_handler
AS 'MODULE_PATHNAME', 'varve_table_handler' LANGUAGE C STRICT;
CREATE ACCESS METHOD varve TYPE TABLE HANDLER varve.table_handler;
COMMENT ON ACCESS METHOD varve IS 'rows and compressed column chunks in one relation';
