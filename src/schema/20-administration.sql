-- Administration of varve tables: docs/reference/administration.md.
CREATE PROCEDURE varve.compact("table" regclass)
AS 'MODULE_PATHNAME', 'varve_compact' LANGUAGE C;
COMMENT ON PROCEDURE varve.compact(regclass) IS
'seals the rows of a table, merges its chunks, and gives the space back; not inside a transaction block';
