-- Which files of tables have, or once had, chunks: as long as a table has none, its ordinary indexes are complete and may
-- be used. Written by the library only; a number that outlives its file does no harm (storage/marks.rs).
CREATE TABLE varve.chunk_files (file oid NOT NULL) USING heap;
CREATE INDEX chunk_files_file ON varve.chunk_files (file);
REVOKE ALL ON varve.chunk_files FROM PUBLIC;
