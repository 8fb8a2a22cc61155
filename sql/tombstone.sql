-- A chunk whose rows were all updated keeps its header, so that whoever waits finds the new versions; but nothing is read
-- from it any more, by index or otherwise, and compact removes it.
CREATE TABLE t(time timestamptz NOT NULL, device int, value int) USING varve;
CREATE INDEX ON t USING varve (device, time);
INSERT INTO t SELECT '2026-01-01'::timestamptz + i * interval '1 s', i % 2, i FROM generate_series(1, 4000) i;
CALL varve.compact('t');
SELECT count(*), sum(rows) FROM varve.chunks('t');
UPDATE t SET value = -value WHERE device = 1;
VACUUM t;
SELECT count(*), sum(rows), sum(deleted) FROM varve.chunks('t');
SELECT * FROM varve.verify('t');
SET enable_seqscan = off;
SET varve.enable_aggregate = off;
SELECT count(*), sum(value) FROM t WHERE device = 1;
SELECT value FROM t WHERE device = 1 ORDER BY time DESC LIMIT 2;
RESET enable_seqscan;
SELECT count(*), sum(value) FROM t;
REINDEX INDEX t_device_time_idx;
SELECT * FROM varve.verify('t');
CALL varve.compact('t');
SELECT count(*), sum(rows), sum(deleted) FROM varve.chunks('t');
SELECT * FROM varve.verify('t');
SELECT count(*), sum(value) FROM t;
DROP TABLE t;
