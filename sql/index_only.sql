-- Where no column is asked for, the planner may scan a series index alone, though it returns none.
CREATE TABLE v(device int, time timestamptz, value int) USING varve;
CREATE INDEX ON v USING varve (device, time);
INSERT INTO v SELECT g % 10, '2026-01-01'::timestamptz + g * interval '1 s', g FROM generate_series(1, 5000) g;
CALL varve.compact('v');
INSERT INTO v SELECT 1, '2026-01-02'::timestamptz + g * interval '1 s', g FROM generate_series(1, 50) g;
DELETE FROM v WHERE value = 7;
VACUUM ANALYZE v;
SET enable_seqscan = off;
SET varve.enable_aggregate = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM v;
SELECT count(*) FROM v;
SELECT count(*) FROM v a, (VALUES (1), (2)) b(n);
DROP TABLE v;
