-- Late rows between the last rows of a series in a shared chunk that are left and those that were deleted there.
CREATE TABLE v(device int, time timestamptz, value int) USING varve;
CREATE INDEX ON v USING varve (device, time);
INSERT INTO v SELECT g % 10, '2026-01-01'::timestamptz + g * interval '1 s', g FROM generate_series(0, 4999) g;
CALL varve.compact('v');
DELETE FROM v WHERE device = 3 AND value > 4500;
INSERT INTO v SELECT 3, '2026-01-01'::timestamptz + g * interval '1 s', g FROM generate_series(4700, 4720) g;
CALL varve.compact('v');
SET enable_seqscan = off;
SET varve.enable_aggregate = off;
SELECT count(*) FROM v WHERE device = 3 AND time = '2026-01-01'::timestamptz + interval '4003 s';
SELECT count(*), sum(value) FROM v WHERE device = 3 AND time >= '2026-01-01'::timestamptz + interval '4003 s';
SET enable_seqscan = on;
SET enable_indexscan = off;
SELECT count(*), sum(value) FROM v WHERE device = 3 AND time >= '2026-01-01'::timestamptz + interval '4003 s';
SELECT count(*) AS faults FROM varve.verify('v');
DROP TABLE v;
