-- What is asked above a query that fills gaps is asked of all its rows, filled ones too: by subqueries, views, WITH, EXISTS and IN.
CREATE SCHEMA functions_gapfill_above;
SET search_path = functions_gapfill_above, public;
SET timezone = 'UTC';
CREATE TABLE m (host text, time timestamptz NOT NULL, v int) USING varve;
CREATE INDEX ON m USING varve (host, time);
INSERT INTO m VALUES ('a', '2026-01-01 01:10', 10), ('a', '2026-01-01 04:10', 20), ('b', '2026-01-01 02:10', 5);
CREATE VIEW filled AS
SELECT time_bucket_gapfill('1 hour', time, '2026-01-01 00:00', '2026-01-01 06:00') AS hour, host, coalesce(sum(v), 0) AS sum, locf(sum(v)) AS last
FROM m GROUP BY 1, 2;

-- By the hour.
SELECT * FROM filled WHERE hour >= '2026-01-01 03:00' ORDER BY host, hour;
SELECT host, sum FROM filled WHERE hour = '2026-01-01 03:00' ORDER BY host;
-- By what is filled.
SELECT count(*) FROM filled WHERE sum = 0;
WITH q AS (TABLE filled) SELECT count(*) FROM q WHERE sum <= 5 AND host = 'a';
WITH q AS MATERIALIZED (TABLE filled) SELECT count(*) FROM q WHERE sum <= 5 AND host = 'a';
SELECT count(*) FROM filled WHERE last = 10;
SELECT count(*) FROM (SELECT time_bucket_gapfill('1 hour', time, '2026-01-01 00:00', '2026-01-01 06:00') AS hour, host, count(*) AS rows
                      FROM m GROUP BY 1, 2) q WHERE rows IS NULL;
-- In a join, a view of a view, and a query of another one.
SELECT f.host, count(*) FROM filled f JOIN m ON m.host = f.host AND f.sum < m.v GROUP BY 1 ORDER BY 1;
CREATE VIEW empty_hours AS SELECT hour, host FROM filled WHERE sum = 0;
SELECT count(*) FROM empty_hours WHERE host = 'b' AND hour < '2026-01-01 02:00';
SELECT host, (SELECT count(*) FROM filled f WHERE f.host = hosts.host AND f.sum = 0) FROM (VALUES ('a'), ('b')) hosts (host) ORDER BY 1;
-- Whether there are rows, without rows to group.
SELECT EXISTS (SELECT time_bucket_gapfill('1 hour', time, '2026-01-01 00:00', '2026-01-01 06:00') FROM m WHERE host = 'c' GROUP BY 1);
SELECT count(*) FROM (VALUES (1)) one WHERE NOT EXISTS (
    SELECT time_bucket_gapfill('1 hour', time, '2026-01-01 00:00', '2026-01-01 06:00') FROM m WHERE host = 'c' GROUP BY 1);
SELECT '2026-01-01 05:00' IN (SELECT time_bucket_gapfill('1 hour', time, '2026-01-01 00:00', '2026-01-01 06:00') FROM m WHERE host = 'c' GROUP BY 1);
-- In statements that are prepared, and that write.
PREPARE late(timestamptz) AS SELECT count(*) FROM filled WHERE hour >= $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE late('2026-01-01 04:00');
EXECUTE late('2026-01-01 05:00');
RESET plan_cache_mode;
CREATE TABLE kept AS SELECT * FROM filled WHERE sum = 0;
INSERT INTO kept SELECT * FROM filled WHERE hour < '2026-01-01 01:00';
SELECT count(*) FROM kept;
-- Other groups take conditions as ever.
SELECT * FROM (SELECT time_bucket('1 hour', time) AS hour, sum(v) AS sum FROM m GROUP BY 1) q WHERE sum > 5 ORDER BY hour;

-- Buckets of a constant time are sorted above.
SELECT * FROM (SELECT time_bucket_gapfill(1, 3, 0, 5) AS bucket, count(*) AS rows FROM m GROUP BY 1) q ORDER BY bucket DESC LIMIT 3;
DROP SCHEMA functions_gapfill_above CASCADE;
