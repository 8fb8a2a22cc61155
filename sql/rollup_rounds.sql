-- A refresh goes on in several transactions where it takes long: what is stored and what is left is the query's answer after each.
SET timezone = 'UTC';
SET client_min_messages = warning;
\set SHOW_CONTEXT never
-- Each slice is a transaction of its own.
SET varve.refresh_round = 0;
CREATE TABLE cpu (time timestamptz NOT NULL, host text NOT NULL, n int) USING varve;
CREATE INDEX ON cpu USING varve (host, time);
INSERT INTO cpu SELECT '2026-01-01'::timestamptz + i * interval '30 minutes', 'h' || i % 5, i % 7 FROM generate_series(0, 1499) i;
-- Long gaps, and what has no time.
INSERT INTO cpu VALUES ('-infinity', 'h1', 1), ('-infinity', 'h2', 2), ('1900-01-01 10:00', 'h1', 3), ('1999-12-31 23:59:59', 'h1', 4),
    ('2000-01-01', 'h2', 5), ('2023-04-05', 'h3', 6);
CALL varve.compact('cpu');
SELECT varve.create_rollup('hourly', $$
    SELECT time_bucket('1 hour', time) AS bucket, host, count(*) AS rows, sum(n) AS sum FROM cpu WHERE n <> 6 GROUP BY bucket, host $$);
SELECT varve.create_rollup('monthly', $$
    SELECT time_bucket('1 month', bucket, 'Europe/Berlin') AS month, sum(rows) AS rows FROM hourly GROUP BY month $$);
CREATE VIEW truth AS
    SELECT time_bucket('1 hour', time) AS bucket, host, count(*) AS rows, sum(n) AS sum FROM cpu WHERE n <> 6 GROUP BY 1, 2;
CREATE VIEW differences AS
    SELECT line, sum(side) FROM (
        SELECT x::text AS line, 1 AS side FROM truth x UNION ALL SELECT x::text, -1 FROM hourly x
        UNION ALL SELECT x::text, 1 FROM (SELECT time_bucket('1 month', bucket, 'Europe/Berlin'), sum(rows) FROM truth GROUP BY 1) x
        UNION ALL SELECT x::text, -1 FROM monthly x) lines
    GROUP BY line HAVING sum(side) <> 0;
-- No worker comes first.
SELECT count(varve.alter_job(id, enabled => false)) FROM varve.jobs WHERE "table" IN ('hourly_stored'::regclass, 'monthly_stored'::regclass);
-- Step by step, as varve.refresh_rollup does it: everything is right after each step.
CREATE FUNCTION step_by_step(rollup regclass) RETURNS TABLE (steps text, wrong bigint) LANGUAGE plpgsql AS $$
DECLARE
    threshold bigint := varve.rollup_begin(varve.rollup_stored(rollup));
    done int := 0;
    has_more bool := true;
BEGIN
    wrong := 0;
    WHILE has_more LOOP
        has_more := varve.rollup_step(varve.rollup_stored(rollup), threshold);
        done := done + 1;
        wrong := wrong + (SELECT count(*) FROM differences);
    END LOOP;
    steps := CASE WHEN done < 3 THEN done::text WHEN done < 20 THEN 'several' ELSE 'many' END;
    RETURN NEXT;
END $$;
SELECT * FROM step_by_step('hourly');
SELECT * FROM step_by_step('monthly');
SELECT count(*) FROM hourly_stored;
SELECT count(*) FROM monthly_stored;
SELECT name, watermark, marked_ranges FROM varve.rollups ORDER BY name::text;
-- Nothing is due; a late row; all of it.
SELECT * FROM step_by_step('hourly');
INSERT INTO cpu VALUES ('2026-01-03 00:00:01', 'h1', 3);
SELECT * FROM step_by_step('hourly');
CALL varve.refresh_rollup('hourly', '-infinity'::timestamptz, 'infinity'::timestamptz);
TABLE differences;
DELETE FROM cpu WHERE host IN ('h1', 'h2') AND n < 3;
SELECT * FROM step_by_step('hourly');
SELECT * FROM step_by_step('monthly');
SELECT name, marked_ranges FROM varve.rollups ORDER BY name::text;
TABLE differences;
SELECT count(*) = (SELECT count(*) FROM truth WHERE bucket < (SELECT max(bucket) FROM truth)) AS all_are_stored FROM hourly_stored;

-- What retention has taken from the source is still below.
DROP VIEW differences;
SELECT varve.drop_rollup('monthly');
SELECT varve.set_retention('cpu', now() - '2026-01-05'::timestamptz) > 0 AS is_set;
CREATE TABLE hourly_before AS TABLE hourly;
CALL varve.expire('cpu');
SELECT varve.create_rollup('monthly', $$ SELECT time_bucket('1 month', bucket) AS month, sum(rows) AS rows FROM hourly GROUP BY month $$);
CALL varve.refresh_rollup('monthly');
(TABLE monthly EXCEPT SELECT time_bucket('1 month', bucket), sum(rows) FROM hourly_before GROUP BY 1)
UNION ALL (SELECT time_bucket('1 month', bucket), sum(rows) FROM hourly_before GROUP BY 1 EXCEPT TABLE monthly);
SELECT min(month) FROM monthly_stored;
SELECT count(*) FROM monthly_stored;

-- Times of other types.
CREATE TABLE ticks (at int NOT NULL, n int) USING varve;
INSERT INTO ticks SELECT i, i % 10 FROM generate_series(-3000, 3000) i;
INSERT INTO ticks VALUES (-2147483640, 1), (2147483647, 2), (2000000000, 3);
SELECT varve.create_rollup('by_ten', 'SELECT time_bucket(10, at) AS ten, sum(n) AS sum FROM ticks GROUP BY 1');
CREATE TABLE days (day date NOT NULL, n int) USING varve;
INSERT INTO days SELECT '2020-01-01'::date + i, i FROM generate_series(0, 999) i;
INSERT INTO days VALUES ('-infinity', 1), ('infinity', 2), ('0044-03-15 BC', 3);
SELECT varve.create_rollup('weekly', 'SELECT time_bucket(''7 days'', day) AS week, sum(n) AS sum FROM days GROUP BY 1');
CALL varve.refresh_rollup('by_ten');
CALL varve.refresh_rollup('weekly');
(TABLE by_ten EXCEPT ALL SELECT time_bucket(10, at), sum(n) FROM ticks GROUP BY 1)
UNION ALL (SELECT time_bucket(10, at), sum(n) FROM ticks GROUP BY 1 EXCEPT ALL TABLE by_ten);
(TABLE weekly EXCEPT ALL SELECT time_bucket('7 days', day), sum(n) FROM days GROUP BY 1)
UNION ALL (SELECT time_bucket('7 days', day), sum(n) FROM days GROUP BY 1 EXCEPT ALL TABLE weekly);
SELECT name, watermark FROM varve.rollups WHERE name::text IN ('by_ten', 'weekly') ORDER BY name::text;
DROP TABLE cpu, ticks, days, hourly_before CASCADE;
DROP FUNCTION step_by_step;
