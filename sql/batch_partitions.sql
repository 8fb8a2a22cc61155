-- Bulk loads that go from one partition to another and back keep a batch of each: all of it in chunks, whichever statement it was.
CREATE TABLE source(time timestamptz NOT NULL, host int NOT NULL, value float8);
INSERT INTO source
    SELECT '2026-01-01'::timestamptz + i / 100 * interval '10 s', i % 100, i % 17 FROM generate_series(0, 99999) i;
-- What a table holds, as a whole and in its tail.
CREATE FUNCTION loaded(parted regclass) RETURNS TABLE(tables bigint, rows bigint, in_chunks bigint, tables_with_chunks bigint, rows_a_chunk bigint)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format($q$
        SELECT count(*), (SELECT count(*) FROM %s), sum(c.rows)::bigint, count(*) FILTER (WHERE c.chunks > 0), min(c.rows / c.chunks)::bigint
        FROM pg_inherits i, LATERAL (SELECT count(*) AS chunks, sum(rows) AS rows FROM varve.chunks(i.inhrelid::regclass)) c
        WHERE i.inhparent = %L::regclass$q$, parted, parted);
END $$;
CREATE TABLE alternating(LIKE source, PRIMARY KEY (host, time)) PARTITION BY HASH (host);
CREATE TABLE alternating_0 PARTITION OF alternating FOR VALUES WITH (MODULUS 2, REMAINDER 0) USING varve;
CREATE TABLE alternating_1 PARTITION OF alternating FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING varve;
-- What is to be known of a table is found out once for a statement, not each time that the table turns.
CREATE FUNCTION catalog_scans() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT sum(pg_stat_get_xact_numscans(i.indexrelid)) FROM pg_index i WHERE i.indrelid = 'pg_index'::regclass $$;
BEGIN;
CREATE TEMPORARY TABLE before AS SELECT catalog_scans();
INSERT INTO alternating SELECT * FROM source WHERE time < '2026-01-01 02:00:00';
SELECT catalog_scans() - before.catalog_scans < 200 AS once FROM before;
COMMIT;
SELECT * FROM loaded('alternating');

-- COPY in the order of time into more partitions than core has buffers for.
CREATE TABLE copied(LIKE source, PRIMARY KEY (host, time)) PARTITION BY LIST (host);
SET client_min_messages = warning;
DO $$ BEGIN FOR i IN 0..99 LOOP EXECUTE format('CREATE TABLE copied_%s PARTITION OF copied FOR VALUES IN (%s) USING varve', i, i); END LOOP; END $$;
RESET client_min_messages;
\set file '/tmp/varve_batch_partitions.' :DBNAME
COPY source TO :'file';
COPY copied FROM :'file';
SELECT * FROM loaded('copied');
(TABLE copied EXCEPT ALL TABLE source) UNION ALL (TABLE source EXCEPT ALL TABLE copied);
-- Whatever comes after the COPY in its transaction sees its rows; an error in the last of them, found when batches are written, is the COPY's own.
TRUNCATE copied;
BEGIN;
COPY copied FROM :'file';
SELECT count(*), sum(value) FROM copied;
SELECT * FROM copied_7 ORDER BY time DESC LIMIT 1;
SAVEPOINT twice;
COPY copied FROM :'file';
ROLLBACK TO twice;
SELECT count(*), sum(value) FROM copied;
DELETE FROM copied WHERE host = 7 AND time < '2026-01-01 01:00:00';
COMMIT;
SELECT * FROM loaded('copied');
COPY copied FROM :'file';
SELECT count(*) FROM copied;
-- One budget for all of them: the largest are written first, so that few rows end in tails.
TRUNCATE copied;
SET varve.batch_memory = '1MB';
COPY copied FROM :'file';
SELECT * FROM loaded('copied');
(TABLE copied EXCEPT ALL TABLE source) UNION ALL (TABLE source EXCEPT ALL TABLE copied);
-- A partition among them whose trigger reads another one.
CREATE FUNCTION reads() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.time = '2026-01-01' THEN
        RAISE NOTICE 'partition 3 has % rows', (SELECT count(*) FROM copied_3);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER reads AFTER INSERT ON copied_5 FOR EACH ROW EXECUTE FUNCTION reads();
TRUNCATE copied;
COPY copied FROM :'file';
SELECT * FROM loaded('copied');
SELECT sum(faults) AS faults FROM generate_series(0, 99) i, LATERAL (SELECT count(*) AS faults FROM varve.verify(format('copied_%s', i)::regclass)) v;
DROP TABLE before, source, alternating, copied;
DROP FUNCTION loaded, catalog_scans, reads;
RESET varve.batch_memory;
