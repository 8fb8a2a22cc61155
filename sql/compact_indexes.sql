-- Indexes that were large when rows were in the tail become small with it, unless the table's vacuum_truncate says that no such locks
-- are to be taken; then the file keeps its empty end, too.

CREATE TABLE grown(time timestamptz NOT NULL, host int, value float8, PRIMARY KEY (host, time)) USING varve;
CREATE INDEX ON grown (value);
ALTER TABLE grown SET (vacuum_truncate = false);
SET varve.batch_rows = 1000000;
INSERT INTO grown SELECT '2026-01-01'::timestamptz + g * interval '1 s', g % 10, g % 100 FROM generate_series(1, 50000) g;
RESET varve.batch_rows;
SELECT pg_relation_size('grown') AS file, pg_total_relation_size('grown') AS total \gset
CALL varve.compact('grown');
SELECT pg_relation_size('grown') >= :file AS keeps_file, pg_total_relation_size('grown') >= :total AS keeps_indexes;
ALTER TABLE grown RESET (vacuum_truncate);
CALL varve.compact('grown');
SELECT pg_relation_size('grown') < :file / 5 AS file_shrinks, pg_total_relation_size('grown') AS compacted \gset
SELECT :'file_shrinks' AS file_shrinks;
SELECT relname, pg_relation_size(oid) <= 16384 AS is_small FROM pg_class
WHERE oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'grown'::regclass) ORDER BY relname;
-- They are what REINDEX makes of them, and work.
REINDEX TABLE grown;
SELECT :compacted <= pg_total_relation_size('grown') * 1.1 AS as_after_reindex;
SELECT count(*) AS faults FROM varve.verify('grown');
INSERT INTO grown VALUES ('2026-01-01 00:00:11Z', 1, 0);
INSERT INTO grown VALUES ('2026-01-01 00:00:11Z', 11, 0);
INSERT INTO grown VALUES ('2026-01-01 00:00:11Z', 11, 0);
SET enable_seqscan = off;
SELECT count(*), sum(value) FROM grown WHERE host = 3;
RESET enable_seqscan;
-- Nothing is built anew that is no larger than it has to be.
SELECT array_agg(relfilenode ORDER BY oid) AS files FROM pg_class WHERE relname LIKE 'grown%' \gset
CALL varve.compact('grown');
SELECT array_agg(relfilenode ORDER BY oid) = :'files' AS same_files FROM pg_class WHERE relname LIKE 'grown%';
DROP TABLE grown;
-- Keys that are known to be unique are not sorted for it: those that have entries of their own, as one that is checked later has.
CREATE TABLE keyed(time timestamptz NOT NULL, host int, PRIMARY KEY (host, time) DEFERRABLE) USING varve WITH (autovacuum_enabled = false);
SET varve.batch_rows = 1000000;
INSERT INTO keyed SELECT '2026-01-01'::timestamptz + g * interval '1 s', g % 10 FROM generate_series(1, 100000) g;
RESET varve.batch_rows;
SELECT pg_relation_filenode('keyed_pkey') AS key_file, pg_stat_force_next_flush() \gset
SELECT temp_bytes FROM pg_stat_database WHERE datname = current_database() \gset
SET maintenance_work_mem = '1MB';
CALL varve.compact('keyed');
SELECT pg_relation_filenode('keyed_pkey') <> :key_file AS is_built_again, pg_stat_force_next_flush();
SELECT temp_bytes - :temp_bytes AS sorted_in_files FROM pg_stat_database WHERE datname = current_database();
RESET maintenance_work_mem;
INSERT INTO keyed VALUES ('2026-01-01 00:00:11Z', 1);
DROP TABLE keyed;
-- Small entries of chunks that are merged again and again leave no large index behind.
CREATE TABLE steady(time timestamptz NOT NULL, host int, value int, PRIMARY KEY (host, time)) USING varve;
\set ECHO none
SELECT unnest(array_remove(ARRAY[
           format('INSERT INTO steady SELECT ''2026-01-01''::timestamptz + n / 4000 * interval ''10 s'', n %% 4000, n %% 7 FROM generate_series(%s, %s) n',
                  first, first + 499),
           CASE WHEN first % 24000 = 23500 THEN 'CALL varve.compact(''steady'')' END], NULL))
FROM generate_series(0, 287500, 500) first \gexec
\set ECHO all
SELECT pg_relation_size('steady_pkey_series') AS compacted \gset
REINDEX INDEX steady_pkey_series;
SELECT pg_relation_size('steady_pkey_series') = :compacted AS as_after_reindex;
SELECT count(*) AS faults FROM varve.verify('steady');
DROP TABLE steady;
-- Indexes of other kinds, too, where little is left of them.
CREATE TABLE kinds(time timestamptz NOT NULL, host int, name text, place point, words int[], PRIMARY KEY (host, time)) USING varve WITH (autovacuum_enabled = false);
CREATE INDEX kinds_hash ON kinds USING hash (name);
CREATE INDEX kinds_gist ON kinds USING gist (place);
CREATE INDEX kinds_spgist ON kinds USING spgist (name);
CREATE INDEX kinds_gin ON kinds USING gin (words);
CREATE INDEX kinds_brin ON kinds USING brin (time);
SET varve.batch_rows = 1000000;
INSERT INTO kinds SELECT '2026-01-01'::timestamptz + g * interval '1 s', g % 10, 'n' || g, point(g % 100, g), ARRAY[g % 1000, g] FROM generate_series(1, 20000) g;
RESET varve.batch_rows;
CALL varve.compact('kinds');
INSERT INTO kinds SELECT '2026-02-01'::timestamptz + g * interval '1 s', g, 'm' || g, point(g, 0), ARRAY[g] FROM generate_series(1, 3) g;
CREATE TEMP TABLE compacted AS SELECT relname, pg_relation_size(oid) AS bytes FROM pg_class WHERE relname ~ '^kinds_(hash|gist|spgist|gin|brin)$';
REINDEX TABLE kinds;
SELECT relname, bytes <= pg_relation_size(relname::regclass) + 16384 AS as_after_reindex FROM compacted ORDER BY relname;
SET enable_seqscan = off;
SELECT host FROM kinds WHERE name = 'n4711';
SELECT host FROM kinds WHERE name = 'm2';
SELECT host FROM kinds WHERE words @> ARRAY[4711];
SELECT host FROM kinds WHERE place <@ box '(10,4700),(12,4720)';
RESET enable_seqscan;
DROP TABLE kinds;
