-- A long series has an entry of the series index for each 1,024 rows. The planner takes these for no chunks: it has one of them opened for a
-- day of a series, and folds the day from columns.
SET max_parallel_workers_per_gather = 0;
CREATE TABLE long_series (time timestamptz NOT NULL, sensor int NOT NULL, value float8) USING varve WITH (autovacuum_enabled = off);
CREATE INDEX ON long_series USING varve (sensor, time);
INSERT INTO long_series SELECT '2026-01-01Z'::timestamptz + n / 10 * interval '1 minute', n % 10, hashint8(n) / 7.0 FROM generate_series(0, 299999) n;
CALL varve.compact('long_series');
VACUUM ANALYZE long_series;
EXPLAIN (COSTS OFF) SELECT max(value) FROM long_series WHERE sensor = 7 AND time >= '2026-01-03Z' AND time < '2026-01-04Z';
EXPLAIN (COSTS OFF) SELECT max(value) FROM long_series WHERE sensor = 7;
-- Rows themselves are chosen by columns too; those of an hour come by the index.
EXPLAIN (COSTS OFF) SELECT * FROM long_series WHERE sensor = 7 AND time >= '2026-01-03Z' AND time < '2026-01-04Z';
EXPLAIN (COSTS OFF) SELECT * FROM long_series WHERE sensor = 7 AND time >= '2026-01-03 10:00Z' AND time < '2026-01-03 11:00Z';

-- The same of four thousand short series that share chunks: one is looked for in the chunk that has it.
CREATE TABLE shared_chunks (time timestamptz NOT NULL, sensor int NOT NULL, value float8) USING varve WITH (autovacuum_enabled = off);
CREATE INDEX ON shared_chunks USING varve (sensor, time);
INSERT INTO shared_chunks SELECT '2026-01-01Z'::timestamptz + n / 4000 * interval '1 minute', n % 4000, hashint8(n) / 7.0 FROM generate_series(0, 299999) n;
CALL varve.compact('shared_chunks');
VACUUM ANALYZE shared_chunks;
EXPLAIN (COSTS OFF) SELECT * FROM shared_chunks WHERE sensor = 7;
EXPLAIN (COSTS OFF) SELECT max(value) FROM shared_chunks WHERE sensor < 3000;
DROP TABLE long_series, shared_chunks;
