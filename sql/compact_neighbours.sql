-- A merge takes in a small neighbour of a series: no rows that a shared chunk holds of it may lie between.
CREATE TABLE v(device int, time timestamptz, value int) USING varve;
CREATE INDEX ON v USING varve (device, time);
SET varve.batch_rows = 1;
SET varve.chunk_rows = 100;
INSERT INTO v SELECT 1, '2026-01-01'::timestamptz + g * interval '1 s', g FROM generate_series(1, 100) g;
CALL varve.compact('v');
SET varve.chunk_rows = 8000;
INSERT INTO v SELECT 1, '2026-01-01'::timestamptz + g * interval '1 s', g FROM generate_series(201, 210) g;
INSERT INTO v SELECT 2 + g % 9, '2026-01-01'::timestamptz + 200 * interval '1 s' + g * interval '1 ms', g
    FROM generate_series(1, 7200) g;
CALL varve.compact('v');
INSERT INTO v SELECT 1, '2026-01-01'::timestamptz + g * interval '1 s', g FROM generate_series(5001, 6100) g;
CALL varve.compact('v');
SELECT one_series, keyed, rows, min_time, max_time FROM varve.chunks('v') ORDER BY min_time, rows;
SELECT count(*) AS faults FROM varve.verify('v');
SET enable_seqscan = off;
SET varve.enable_aggregate = off;
SELECT count(*), sum(value) FROM v WHERE device = 1 AND time > '2026-01-01 00:01:00';
DROP TABLE v;
