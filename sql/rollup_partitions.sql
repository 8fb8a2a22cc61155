-- Rollups of partitioned tables: what writers do to any partition is noted, and what becomes of partitions.
SET timezone = 'UTC';
SET client_min_messages = warning;
\set SHOW_CONTEXT never
CREATE TABLE cpu (time timestamptz NOT NULL, host text NOT NULL, n int) PARTITION BY RANGE (time);
CREATE TABLE cpu_1 PARTITION OF cpu FOR VALUES FROM ('2026-01-01') TO ('2026-01-04') USING varve;
-- Columns in another order, and one that is gone.
CREATE TABLE cpu_2 (n int, gone text, host text NOT NULL, time timestamptz NOT NULL) USING varve;
ALTER TABLE cpu_2 DROP COLUMN gone;
ALTER TABLE cpu ATTACH PARTITION cpu_2 FOR VALUES FROM ('2026-01-04') TO ('2026-01-07');
-- A level below, by another column.
CREATE TABLE cpu_3 PARTITION OF cpu FOR VALUES FROM ('2026-01-07') TO ('2026-01-10') PARTITION BY LIST (host);
CREATE TABLE cpu_3_a PARTITION OF cpu_3 FOR VALUES IN ('h0', 'h1') USING varve;
CREATE TABLE cpu_3_b PARTITION OF cpu_3 DEFAULT USING varve;
CREATE INDEX ON cpu_1 USING varve (host, time);
CREATE INDEX ON cpu_2 USING varve (host, time);
CREATE INDEX ON cpu_3_a USING varve (host, time);
CREATE INDEX ON cpu_3_b USING varve (host, time);
INSERT INTO cpu SELECT '2026-01-01'::timestamptz + i * interval '1 minute', 'h' || i % 5, i % 7 FROM generate_series(0, 12959) i;
CALL varve.compact('cpu_1');

SELECT varve.create_rollup('hourly', $$
    SELECT time_bucket('1 hour', time) AS bucket, host, count(*) AS rows, sum(n) AS sum FROM cpu GROUP BY bucket, host $$);
SELECT varve.create_rollup('daily', $$ SELECT time_bucket('1 day', bucket) AS day, sum(rows) AS rows FROM hourly GROUP BY day $$);
-- A partition can have rollups of its own besides.
SELECT varve.create_rollup('second', $$
    SELECT time_bucket('6 hours', time) AS bucket, max(n) AS most FROM cpu_2 GROUP BY bucket $$);
CREATE VIEW truth AS
    SELECT time_bucket('1 hour', time) AS bucket, host, count(*) AS rows, sum(n) AS sum FROM cpu GROUP BY 1, 2;
CREATE VIEW differences AS
    SELECT line, sum(side) FROM (
        SELECT x::text AS line, 1 AS side FROM truth x UNION ALL SELECT x::text, -1 FROM hourly x
        UNION ALL SELECT x::text, 1 FROM (SELECT time_bucket('1 day', bucket), sum(rows) FROM truth GROUP BY 1) x
        UNION ALL SELECT x::text, -1 FROM daily x
        UNION ALL SELECT x::text, 1 FROM (SELECT time_bucket('6 hours', time), max(n) FROM cpu_2 GROUP BY 1) x
        UNION ALL SELECT x::text, -1 FROM second x) lines
    GROUP BY line HAVING sum(side) <> 0;
CREATE VIEW marks AS
    SELECT stored, timestamptz '2000-01-01 00:00+00' + first * interval '1 us' AS first,
        timestamptz '2000-01-01 00:00+00' + last * interval '1 us' AS last, series, by_ddl
    FROM varve.rollup_mark WHERE first > -9223372036854775808 ORDER BY stored::text, first, series;
TABLE differences;
CALL varve.refresh_rollup('hourly');
CALL varve.refresh_rollup('daily');
CALL varve.refresh_rollup('second');
TABLE differences;
SELECT name, source, watermark, marked_ranges FROM varve.rollups ORDER BY name::text;
SELECT count(*) FROM hourly_stored;

-- Writers, through the table and to a partition.
BEGIN;
INSERT INTO cpu VALUES ('2026-01-02 00:00:01', 'h1', 100);
DELETE FROM cpu_2 WHERE time < '2026-01-04 12:00' AND host = 'h3';
TABLE differences;
ROLLBACK;
TABLE differences;
INSERT INTO cpu VALUES ('2026-01-02 00:00:01', 'h1', 100), ('2026-01-08 00:00:01', 'h4', 100);
INSERT INTO cpu_2 (time, host, n) VALUES ('2026-01-05 00:00:01', 'h1', 1000);
SELECT * FROM marks;
DELETE FROM cpu WHERE time BETWEEN '2026-01-03 20:00' AND '2026-01-04 05:00';
-- From one partition to another.
UPDATE cpu SET time = time + interval '3 days' WHERE time BETWEEN '2026-01-02 10:00' AND '2026-01-02 10:05';
UPDATE cpu SET host = 'h1' WHERE host = 'h4' AND time BETWEEN '2026-01-08 10:00' AND '2026-01-08 10:30';
COPY cpu FROM stdin;
2026-01-01 00:00:05+00	h9	5
2026-01-09 00:00:05+00	h9	5
\.
TABLE differences;
CALL varve.refresh_rollup('daily');
CALL varve.refresh_rollup('hourly');
CALL varve.refresh_rollup('second');
SELECT count(*) FROM varve.rollup_mark;
TABLE differences;

-- Partitions come and go; marks are as wide as these.
CREATE TABLE late (LIKE cpu) USING varve;
INSERT INTO late SELECT '2025-12-31'::timestamptz + i * interval '1 minute', 'late', 1 FROM generate_series(0, 700) i;
BEGIN;
ALTER TABLE cpu ATTACH PARTITION late FOR VALUES FROM ('2025-12-31') TO ('2026-01-01');
SELECT count(*) FROM hourly WHERE host = 'late';
TABLE differences;
INSERT INTO late VALUES ('2025-12-31 23:00', 'late', 2);
TABLE differences;
COMMIT;
SELECT * FROM marks;
TABLE differences;
CALL varve.refresh_rollup('hourly');
SELECT count(*) FROM hourly_stored WHERE host = 'late';
TABLE differences;
INSERT INTO late VALUES ('2025-12-31 22:00', 'late', 2);
SELECT * FROM marks WHERE stored = 'hourly_stored'::regclass;
BEGIN;
ALTER TABLE cpu DETACH PARTITION late;
TABLE differences;
ROLLBACK;
TABLE differences;
CALL varve.refresh_rollup('hourly');
ALTER TABLE cpu DETACH PARTITION late CONCURRENTLY;
SELECT * FROM marks WHERE stored = 'hourly_stored'::regclass;
TABLE differences;
CALL varve.refresh_rollup('hourly');
INSERT INTO late VALUES ('2025-12-31 21:00', 'late', 2);
SELECT * FROM marks WHERE stored = 'hourly_stored'::regclass;
TABLE differences;
SELECT count(*) FROM hourly_stored WHERE host = 'late';
-- An empty one is no change.
CREATE TABLE cpu_4 PARTITION OF cpu FOR VALUES FROM ('2026-01-10') TO ('2026-01-12') USING varve;
DROP TABLE cpu_4;
SELECT * FROM marks WHERE stored = 'hourly_stored'::regclass;
TRUNCATE cpu_3_a;
SELECT * FROM marks WHERE stored = 'hourly_stored'::regclass;
TABLE differences;
BEGIN;
DROP TABLE cpu_3;
TABLE differences;
ROLLBACK;
TABLE differences;
DROP TABLE cpu_3;
TABLE differences;
CALL varve.refresh_rollup('hourly');
CALL varve.refresh_rollup('daily');
TABLE differences;
SELECT max(bucket) FROM hourly;

-- What rollups would not know of is refused.
CREATE TABLE plain PARTITION OF cpu FOR VALUES FROM ('2026-02-01') TO ('2026-02-02') USING heap;
CREATE UNLOGGED TABLE plain PARTITION OF cpu FOR VALUES FROM ('2026-02-01') TO ('2026-02-02') USING varve;
CREATE TABLE plain (LIKE cpu) USING heap;
ALTER TABLE cpu ATTACH PARTITION plain FOR VALUES FROM ('2026-02-01') TO ('2026-02-02');
CREATE TABLE tree (LIKE cpu) PARTITION BY LIST (host);
CREATE TABLE tree_1 PARTITION OF tree DEFAULT USING heap;
ALTER TABLE cpu ATTACH PARTITION tree FOR VALUES FROM ('2026-02-01') TO ('2026-02-02');
ALTER TABLE cpu_1 SET ACCESS METHOD heap;
ALTER TABLE cpu_1 SET UNLOGGED;
ALTER TABLE cpu ENABLE ROW LEVEL SECURITY;
ALTER TABLE cpu ALTER time DROP NOT NULL;
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM tree GROUP BY b');
CREATE UNLOGGED TABLE unlogged (LIKE cpu) USING varve;
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM unlogged GROUP BY b');
DROP TABLE plain, tree, unlogged;

-- Retention of partitions takes rows, and their buckets stay. An empty partition can be dropped then.
CREATE TABLE hourly_before AS TABLE hourly;
CREATE VIEW changed AS
    (TABLE hourly EXCEPT TABLE hourly_before) UNION ALL (TABLE hourly_before EXCEPT TABLE hourly);
SELECT varve.set_retention('cpu_1', now() - '2026-01-10'::timestamptz) > 0 AS is_set;
SELECT varve.set_retention('cpu_2', now() - '2026-01-05'::timestamptz, 'host = ''h1''');
CALL varve.expire('cpu_1');
SELECT count(*) FROM cpu_1;
TABLE changed;
DROP TABLE cpu_1;
TABLE changed;
CALL varve.refresh_rollup('hourly');
TABLE changed;
-- Other partitions have lost nothing.
INSERT INTO cpu VALUES ('2026-01-05', 'h1', 1);
SELECT count(*) FROM changed;
DELETE FROM cpu WHERE time = '2026-01-05' AND host = 'h1';
TABLE changed;
ALTER TABLE cpu ATTACH PARTITION late FOR VALUES FROM ('2025-12-31') TO ('2026-01-01');
SELECT varve.alter_rollup('hourly', ignore_late_rows => true);
ALTER TABLE cpu ATTACH PARTITION late FOR VALUES FROM ('2025-12-31') TO ('2026-01-01');
TABLE changed;
TRUNCATE cpu;
SELECT count(*) FROM hourly;
SELECT name FROM varve.rollups ORDER BY name::text;
\set VERBOSITY terse
DROP TABLE cpu, hourly_before CASCADE;
\set VERBOSITY default
SELECT count(*) FROM varve.rollup;
SELECT count(*) FROM varve.rollup_mark;
