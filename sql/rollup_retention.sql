-- Retention takes rows away, and rollups keep their buckets; jobs refresh rollups.
SET timezone = 'UTC';
SET client_min_messages = warning;
\set SHOW_CONTEXT never
CREATE TABLE cpu (time timestamptz NOT NULL, host text NOT NULL, n int) USING varve;
CREATE INDEX ON cpu USING varve (host, time);
INSERT INTO cpu SELECT '2026-01-01'::timestamptz + i * interval '1 minute', 'h' || i % 5, i % 7 FROM generate_series(0, 19999) i;
CALL varve.compact('cpu');
SELECT varve.create_rollup('hourly', $$
    SELECT time_bucket('1 hour', time) AS bucket, host, count(*) AS rows, sum(n) AS sum FROM cpu GROUP BY bucket, host $$);
SELECT varve.create_rollup('daily', $$ SELECT time_bucket('1 day', bucket) AS day, sum(rows) AS rows FROM hourly GROUP BY day $$);
CREATE TABLE hourly_before AS TABLE hourly;
CREATE TABLE daily_before AS TABLE daily;
CREATE VIEW differences AS
    SELECT line, sum(side) FROM (
        SELECT x::text AS line, 1 AS side FROM hourly_before x UNION ALL SELECT x::text, -1 FROM hourly x
        UNION ALL SELECT x::text, 1 FROM daily_before x UNION ALL SELECT x::text, -1 FROM daily x) lines
    GROUP BY line HAVING sum(side) <> 0;
SELECT varve.set_retention('cpu', now() - '2026-01-05 12:30'::timestamptz) > 0 AS is_set;

-- What no rollup has stored yet stays.
CALL varve.expire('cpu');
SELECT count(*) FROM cpu;
SELECT "table", kind, enabled FROM varve.jobs ORDER BY "table"::text, kind;
SELECT id FROM varve.jobs WHERE kind = 'refresh' AND "table" = 'hourly_stored'::regclass \gset
CALL varve.run_job(:id);
SELECT name, marked_ranges FROM varve.rollups ORDER BY name::text;
CALL varve.expire('cpu');
SELECT count(*) < 14000 AS are_gone, min(time) >= '2026-01-05 12:30' AS is_exact FROM cpu;
TABLE differences;
CALL varve.refresh_rollup('daily');
TABLE differences;
-- Removal is no change: neither are rows that a user deletes with it, in buckets that are kept.
CALL varve.refresh_rollup('hourly', '2026-01-01'::timestamptz, '2026-01-04'::timestamptz);
TABLE differences;
INSERT INTO cpu VALUES ('2026-01-02', 'h1', 1);
-- Or it is let in, counted, and taken by the next run.
SELECT varve.alter_rollup('hourly', ignore_late_rows => true);
BEGIN;
INSERT INTO cpu SELECT '2026-01-02', 'h1', 1 FROM generate_series(1, 3);
ROLLBACK;
INSERT INTO cpu SELECT '2026-01-02', 'h1', 1 FROM generate_series(1, 3);
INSERT INTO cpu VALUES ('2026-01-03', 'h1', 1);
TABLE differences;
SELECT name, ignored_rows FROM varve.rollups ORDER BY name::text;
CALL varve.expire('cpu');
CALL varve.refresh_rollup('hourly');
TABLE differences;
SELECT count(*) FROM cpu WHERE time < '2026-01-04';
SELECT ignored_rows, (SELECT count(*) FROM varve.rollup_late) AS counts FROM varve.rollups WHERE name = 'hourly'::regclass;
SELECT varve.alter_rollup('hourly', ignore_late_rows => false);
INSERT INTO cpu VALUES ('2026-01-02', 'h1', 1);
-- A late row is computed again for its series.
INSERT INTO cpu VALUES ('2026-01-07 03:00:30', 'h2', 1), ('2026-01-08 03:00:30', 'h3', 1);
SELECT stored, series FROM varve.rollup_mark ORDER BY stored::text, first;
DELETE FROM cpu WHERE time IN ('2026-01-07 03:00:30', '2026-01-08 03:00:30');
CALL varve.refresh_rollup('hourly');
CALL varve.refresh_rollup('daily');
TABLE differences;
INSERT INTO cpu VALUES ('2026-01-06 00:00:30', 'h1', 1);
TABLE differences;
DELETE FROM cpu WHERE time = '2026-01-06 00:00:30';
TABLE differences;
CALL varve.refresh_rollup('hourly');
CALL varve.refresh_rollup('daily');
TABLE differences;
-- What is above a rollup keeps what retention takes from it.
SELECT varve.set_retention('hourly_stored', now() - '2026-01-04'::timestamptz) > 0 AS is_set;
CALL varve.expire('hourly_stored');
SELECT min(bucket) >= '2026-01-04' AS is_exact FROM hourly;
CALL varve.refresh_rollup('daily', '2026-01-01'::timestamptz, '2026-01-10'::timestamptz);
(TABLE daily_before EXCEPT TABLE daily) UNION ALL (TABLE daily EXCEPT TABLE daily_before);
SELECT varve.set_retention('cpu', '1 year', 'host = ''h1''');
DROP TABLE cpu, hourly_before, daily_before CASCADE;
