-- A series index of a table of another access method is a plain btree: so tools that copy definitions find what they made. It is a
-- series index when the table becomes a varve table.
CREATE TABLE elsewhere(host text, t timestamptz, v int) USING heap;
INSERT INTO elsewhere SELECT 'h' || g % 3, timestamptz '2026-01-01 00:00Z' + g * interval '1 s', g FROM generate_series(1, 3000) g;
INSERT INTO elsewhere VALUES (NULL, '2026-01-01 00:00Z', 0), ('h1', NULL, -1);
CREATE INDEX elsewhere_series ON elsewhere USING varve (host, t);
CREATE INDEX CONCURRENTLY elsewhere_later ON elsewhere USING varve_series (t);
-- Rules of a series index hold there too.
CREATE INDEX ON elsewhere USING varve (host, t DESC);
CREATE INDEX ON elsewhere USING varve (t, host);
UPDATE elsewhere SET v = v + 1 WHERE v % 10 = 0;
DELETE FROM elsewhere WHERE v % 7 = 0;
INSERT INTO elsewhere VALUES ('h1', '2026-01-01 00:00:05.5Z', -2);
VACUUM elsewhere;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT v FROM elsewhere WHERE host = 'h1' AND t < '2026-01-01 00:00:20Z' ORDER BY t;
SELECT v FROM elsewhere WHERE host = 'h1' AND t < '2026-01-01 00:00:20Z' ORDER BY t;
SELECT v FROM elsewhere WHERE host = 'h1' ORDER BY t DESC LIMIT 3;
SELECT count(*), sum(v) FROM elsewhere WHERE host IN ('h0', 'h2');
SELECT v FROM elsewhere WHERE host IS NULL;
SELECT count(*) FROM elsewhere WHERE t >= '2026-01-01 00:40Z';
REINDEX TABLE elsewhere;
SELECT count(*) FROM elsewhere WHERE t >= '2026-01-01 00:40Z';
RESET enable_seqscan;
ALTER TABLE elsewhere SET ACCESS METHOD varve;
CALL varve.compact('elsewhere');
SELECT sum(rows - deleted) AS compressed, bool_and(keyed) AS keyed FROM varve.chunks('elsewhere');
EXPLAIN (COSTS OFF) SELECT v FROM elsewhere WHERE host = 'h1' AND t < '2026-01-01 00:00:20Z' ORDER BY t;
SELECT v FROM elsewhere WHERE host = 'h1' AND t < '2026-01-01 00:00:20Z' ORDER BY t;
SELECT * FROM varve.verify('elsewhere');
-- And back.
ALTER TABLE elsewhere SET ACCESS METHOD heap;
SELECT v FROM elsewhere WHERE host = 'h1' AND t < '2026-01-01 00:00:20Z' ORDER BY t;
DROP TABLE elsewhere;

-- What a dump without access methods says: the index that a key has brought is made for a heap, and serves the key when the table
-- becomes a varve table.
CREATE TABLE restored(host text, t timestamptz, v int) USING heap;
ALTER TABLE restored ADD CONSTRAINT restored_pkey PRIMARY KEY (host, t);
CREATE INDEX restored_pkey_series ON restored USING varve_series (host, t) WITH (of_key='on');
COMMENT ON INDEX restored_pkey_series IS 'is there';
SELECT indexdef FROM pg_indexes WHERE tablename = 'restored' ORDER BY 1;
INSERT INTO restored SELECT 'h' || g % 3, timestamptz '2026-01-01 00:00Z' + g * interval '1 s', g FROM generate_series(1, 3000) g;
ALTER TABLE restored SET ACCESS METHOD varve;
CALL varve.compact('restored');
INSERT INTO restored VALUES ('h0', timestamptz '2026-01-01 00:00:03Z', 0);
SELECT sum(rows - deleted) AS compressed, bool_and(keyed) AS keyed FROM varve.chunks('restored');
SELECT indexdef FROM pg_indexes WHERE tablename = 'restored' ORDER BY 1;
ALTER TABLE restored DROP CONSTRAINT restored_pkey;
SELECT indexdef FROM pg_indexes WHERE tablename = 'restored' ORDER BY 1;
DROP TABLE restored;
-- Partitions that a template gave the index.
CREATE TABLE parts(host text, t timestamptz) PARTITION BY RANGE (t);
CREATE INDEX ON parts USING varve (host, t);
CREATE TABLE parts_heap PARTITION OF parts FOR VALUES FROM ('2026-01-01') TO ('2026-02-01') USING heap;
CREATE TABLE parts_varve PARTITION OF parts FOR VALUES FROM ('2026-02-01') TO ('2026-03-01') USING varve;
INSERT INTO parts SELECT 'h' || g % 3, timestamptz '2026-01-31 23:50Z' + g * interval '1 s' FROM generate_series(1, 1200) g;
CALL varve.compact('parts_varve');
SELECT count(*), min(t), max(t) FROM parts WHERE host = 'h1' AND t > '2026-01-31 23:55Z';
DROP TABLE parts;
