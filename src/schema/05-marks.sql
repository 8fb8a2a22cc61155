-- Which files of tables have, or once had, chunks: as long as a table has none, its ordinary indexes are complete and may
-- be used. Written by the library only; a mark that outlives its file does no harm (catalog/chunk_marker.rs).
-- A materialized view in name only, as others of varve: publications FOR ALL TABLES must not ask subscribers for it. Who refreshed it would empty it, so its
-- query is an error (60-rollups.sql) once all of them are there.
CREATE FUNCTION varve.is_refreshed() RETURNS bool LANGUAGE sql AS 'SELECT false';
REVOKE ALL ON FUNCTION varve.is_refreshed() FROM PUBLIC;
CREATE MATERIALIZED VIEW varve.chunk_files USING heap
AS SELECT 0::oid AS file, 0::oid AS tablespace, 0 AS backend WHERE varve.is_refreshed() WITH NO DATA;
CREATE INDEX chunk_files_file ON varve.chunk_files (file, tablespace, backend);
REVOKE ALL ON varve.chunk_files FROM PUBLIC;
