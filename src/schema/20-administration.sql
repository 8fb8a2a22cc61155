-- Administration of varve tables: docs/reference/administration.md.
CREATE PROCEDURE varve.compact("table" regclass)
AS 'MODULE_PATHNAME', 'varve_compact' LANGUAGE C;
COMMENT ON PROCEDURE varve.compact(regclass) IS
'seals the rows of a table, merges its chunks, and gives the space back; not inside a transaction block';

CREATE FUNCTION varve.chunks("table" regclass, OUT chunk text, OUT level int2, OUT rows int, OUT deleted int,
    OUT min_time text, OUT max_time text, OUT first_key text, OUT last_key text, OUT one_series bool, OUT keyed bool,
    OUT header_bytes bigint, OUT payload_bytes bigint, OUT codecs text, OUT header tid, OUT tuples int,
    OUT first_block bigint, OUT last_block bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'varve_chunks_wrapper' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION varve.chunks(regclass) IS 'the chunks of a table';

CREATE FUNCTION varve.stats("table" regclass, OUT part text, OUT name text, OUT rows bigint, OUT bytes bigint,
    OUT bytes_per_row float8, OUT codecs text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'varve_stats_wrapper' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION varve.stats(regclass) IS 'space of a table by part and column';

CREATE FUNCTION varve.verify("table" regclass, OUT kind text, OUT location text, OUT detail text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'varve_verify_wrapper' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION varve.verify(regclass) IS 'everything that is wrong with the storage of a table; nothing when all is well';

CREATE FUNCTION varve.table_state("table" regclass, OUT layout text, OUT tail_rows bigint, OUT chunks bigint,
    OUT chunk_rows bigint, OUT obstacle text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'varve_table_state_wrapper' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE ROWS 1;
COMMENT ON FUNCTION varve.table_state(regclass) IS 'how far a table is compressed; for its owner';

CREATE VIEW varve.tables AS
SELECT c.oid::regclass AS "table", s.layout, s.tail_rows, s.chunks, s.chunk_rows, pg_total_relation_size(c.oid) AS bytes, s.obstacle
FROM pg_class c JOIN pg_am a ON a.oid = c.relam AND a.amname = 'varve', LATERAL varve.table_state(c.oid) s
WHERE c.relkind IN ('r', 'm') AND pg_has_role(c.relowner, 'USAGE') AND NOT pg_is_other_temp_schema(c.relnamespace);
COMMENT ON VIEW varve.tables IS
'one''s varve tables: the columns by which rows are sorted, rows that wait to be compressed, chunks and their rows, bytes with
indexes, and what keeps rows uncompressed, if anything does';
GRANT SELECT ON varve.tables TO PUBLIC;
