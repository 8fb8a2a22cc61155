-- Rollups: what a view of a rollup gives is what its query gives, whatever is stored.
SET timezone = 'UTC';
SET client_min_messages = warning;
\set SHOW_CONTEXT never
CREATE TABLE cpu (time timestamptz NOT NULL, host text NOT NULL, usage float8, n int) USING varve;
CREATE INDEX ON cpu USING varve (host, time);
INSERT INTO cpu SELECT '2026-01-01'::timestamptz + i * interval '1 minute', 'h' || i % 5, i % 100 / 4.0, i % 7
FROM generate_series(0, 19999) i;
CALL varve.compact('cpu');

SELECT varve.create_rollup('cpu_hourly', $$
    SELECT time_bucket('1 hour', time) AS bucket, host, count(*) AS rows, avg(usage) AS mean, max(usage) AS most,
        sum(n) FILTER (WHERE n > 2) AS some, first(usage, time) AS first, percentile_agg(usage) AS sketch
    FROM cpu WHERE n <> 3 GROUP BY bucket, host $$);
SELECT varve.create_rollup('cpu_daily', $$
    SELECT time_bucket('1 day', bucket, 'Europe/Berlin') AS day, sum(rows) AS rows, max(most) AS most
    FROM cpu_hourly GROUP BY day $$);
CREATE VIEW truth AS
    SELECT time_bucket('1 hour', time) AS bucket, host, count(*) AS rows, avg(usage) AS mean, max(usage) AS most,
        sum(n) FILTER (WHERE n > 2) AS some, first(usage, time) AS first, percentile_agg(usage) AS sketch
    FROM cpu WHERE n <> 3 GROUP BY 1, 2;
CREATE VIEW daily_truth AS
    SELECT time_bucket('1 day', bucket, 'Europe/Berlin') AS day, sum(rows) AS rows, max(most) AS most FROM truth GROUP BY 1;
-- Lines that one has and the other has not.
CREATE VIEW differences AS
    SELECT line, sum(side) FROM (
        SELECT x::text AS line, 1 AS side FROM truth x UNION ALL SELECT x::text, -1 FROM cpu_hourly x
        UNION ALL SELECT x::text, 1 FROM daily_truth x UNION ALL SELECT x::text, -1 FROM cpu_daily x) lines
    GROUP BY line HAVING sum(side) <> 0;
\d+ cpu_hourly
\d cpu_hourly_stored

TABLE differences;
CALL varve.refresh_rollup('cpu_hourly');
CALL varve.refresh_rollup('cpu_daily');
SELECT count(*) FROM cpu_hourly_stored;
SELECT count(*) FROM cpu_daily_stored;
TABLE differences;
SELECT name, source, width, watermark, marked_ranges, bytes > 0 AS has_bytes FROM varve.rollups ORDER BY name;
-- A year's dashboard reads what is stored, and the rest from the source by its index.
SET varve.enable_aggregate = off;
-- Version 17 groups by no constants.
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        IF line !~ 'Group Key' THEN RETURN NEXT line; END IF;
    END LOOP;
END $$;
SELECT plan('SELECT bucket, mean FROM cpu_hourly WHERE host = ''h1'' AND bucket >= ''2026-01-10'' ORDER BY bucket');
DROP FUNCTION plan;
RESET varve.enable_aggregate;

-- One's own changes, before they are committed.
BEGIN;
INSERT INTO cpu VALUES ('2026-01-03 00:00:01', 'h1', 1000, 1);
TABLE differences;
SELECT bucket, rows, most FROM cpu_hourly WHERE most = 1000;
SAVEPOINT s;
DELETE FROM cpu WHERE host = 'h2' AND time < '2026-01-02';
TABLE differences;
ROLLBACK TO s;
TABLE differences;
ROLLBACK;
TABLE differences;
SELECT name, marked_ranges FROM varve.rollups ORDER BY name;

-- Late rows, deletes, updates that change times, a late batch.
INSERT INTO cpu VALUES ('2026-01-03 00:00:01', 'h1', 1000, 1);
DELETE FROM cpu WHERE time >= '2026-01-05' AND time < '2026-01-06';
UPDATE cpu SET time = time - interval '1 day' + interval '1 s', usage = -5 WHERE time = '2026-01-08 00:00:00Z';
INSERT INTO cpu SELECT '2025-12-31'::timestamptz + i * interval '1 s', 'late', i, 1 FROM generate_series(1, 700) i;
TABLE differences;
CALL varve.refresh_rollup('cpu_daily');
TABLE differences;
CALL varve.refresh_rollup('cpu_hourly');
TABLE differences;
SELECT name, marked_ranges FROM varve.rollups ORDER BY name;
CALL varve.refresh_rollup('cpu_hourly', '2026-01-01'::timestamptz, '2026-01-02'::timestamptz);
TABLE differences;

-- Rows in order mark nothing.
INSERT INTO cpu SELECT '2026-01-20'::timestamptz + i * interval '1 minute', 'h1', i, i % 7 FROM generate_series(0, 300) i;
SELECT name, marked_ranges FROM varve.rollups ORDER BY name;
CALL varve.refresh_rollup('cpu_hourly');
TABLE differences;
SELECT name, watermark FROM varve.rollups ORDER BY name;

-- A prepared transaction marks whatever it has changed; a refresh does not wait for it.
BEGIN;
INSERT INTO cpu VALUES ('2026-01-21', 'h9', 1, 1);
PREPARE TRANSACTION 'rollup';
INSERT INTO cpu VALUES ('2026-02-01', 'h1', 1, 1);
CALL varve.refresh_rollup('cpu_hourly');
COMMIT PREPARED 'rollup';
TABLE differences;
CALL varve.refresh_rollup('cpu_hourly');
TABLE differences;

-- One that was prepared before there is a rollup marks nothing for it, so that waits.
BEGIN;
INSERT INTO cpu VALUES ('2026-01-21', 'h10', 1, 1);
PREPARE TRANSACTION 'rollup';
SET lock_timeout = '100ms';
SELECT varve.create_rollup('cpu_early', 'SELECT time_bucket(''1 day'', time) AS day, count(*) AS rows FROM cpu GROUP BY day');
SELECT varve.create_rollup('cpu_early', 'SELECT time_bucket(''1 day'', bucket) AS day, sum(rows) AS rows FROM cpu_hourly GROUP BY day');
RESET lock_timeout;
COMMIT PREPARED 'rollup';
CREATE TABLE parted (time timestamptz NOT NULL) PARTITION BY RANGE (time);
CREATE TABLE parted_1 PARTITION OF parted DEFAULT USING varve;
BEGIN;
INSERT INTO parted_1 VALUES ('2026-01-21');
PREPARE TRANSACTION 'rollup';
SET lock_timeout = '100ms';
SELECT varve.create_rollup('parted_daily', 'SELECT time_bucket(''1 day'', time) AS day, count(*) AS rows FROM parted GROUP BY day');
RESET lock_timeout;
ROLLBACK PREPARED 'rollup';
DROP TABLE parted;

-- Plans that were made before a refresh.
PREPARE newest AS SELECT max(bucket), sum(rows) FROM cpu_hourly;
EXECUTE newest;
INSERT INTO cpu SELECT '2026-03-01'::timestamptz + i * interval '1 minute', 'h1', i, 1 FROM generate_series(0, 300) i;
EXECUTE newest;
CALL varve.refresh_rollup('cpu_hourly');
EXECUTE newest;
DELETE FROM cpu WHERE time >= '2026-03-01 02:00';
EXECUTE newest;
DEALLOCATE newest;

-- Dates, integers, months; rows that are newer than now are never stored.
CREATE TABLE days (day date NOT NULL, n int) USING varve;
CREATE TABLE ticks (at bigint NOT NULL, n int) USING varve;
CREATE INDEX ON ticks USING varve (at);
INSERT INTO days SELECT '2020-01-01'::date + i, i FROM generate_series(0, 999) i;
INSERT INTO days VALUES ('infinity', 1), ('-infinity', 2), ('4000-01-01', 3);
INSERT INTO ticks SELECT i, i % 10 FROM generate_series(-1000, 1000) i;
INSERT INTO ticks VALUES (9223372036854775807, 1);
SELECT varve.create_rollup('monthly', 'SELECT time_bucket(''1 month'', day) AS month, sum(n) AS sum FROM days GROUP BY month');
SELECT varve.create_rollup('by_hundred', 'SELECT time_bucket(100::bigint, at) AS hundred, sum(n) AS sum FROM ticks GROUP BY 1');
CALL varve.refresh_rollup('monthly');
CALL varve.refresh_rollup('by_hundred');
SELECT name, width, watermark FROM varve.rollups WHERE name::text IN ('monthly', 'by_hundred') ORDER BY name;
(SELECT time_bucket('1 month', day), sum(n) FROM days GROUP BY 1 EXCEPT TABLE monthly)
UNION ALL (TABLE monthly EXCEPT SELECT time_bucket('1 month', day), sum(n) FROM days GROUP BY 1);
(SELECT time_bucket(100::bigint, at), sum(n) FROM ticks GROUP BY 1 EXCEPT TABLE by_hundred)
UNION ALL (TABLE by_hundred EXCEPT SELECT time_bucket(100::bigint, at), sum(n) FROM ticks GROUP BY 1);

-- Life: names, TRUNCATE, what would make a rollup wrong.
ALTER TABLE cpu RENAME COLUMN time TO at;
ALTER TABLE cpu RENAME TO processors;
ALTER VIEW cpu_hourly RENAME TO hourly;
INSERT INTO processors VALUES ('2026-01-03 00:00:02', 'h1', 1001, 1);
CALL varve.refresh_rollup('hourly');
SELECT bucket, most FROM hourly WHERE most > 999;
ALTER TABLE processors DROP COLUMN usage;
ALTER TABLE processors ALTER n TYPE bigint;
ALTER TABLE processors ENABLE ROW LEVEL SECURITY;
ALTER TABLE processors ALTER at DROP NOT NULL;
ALTER TABLE processors SET ACCESS METHOD heap;
ALTER TABLE processors ADD COLUMN more int DEFAULT 3;
BEGIN;
TRUNCATE processors;
SELECT count(*) FROM hourly;
ROLLBACK;
SELECT count(*) > 0 AS is_back FROM hourly;
TRUNCATE processors;
INSERT INTO processors VALUES ('2026-01-03 00:00:02', 'h1', 1, 1);
SELECT bucket, rows FROM hourly;
DROP TABLE processors;
SELECT varve.drop_rollup('hourly');
SELECT varve.drop_rollup('cpu_daily');
SELECT varve.drop_rollup('cpu_daily_stored');
SELECT name FROM varve.rollups ORDER BY name;
\set VERBOSITY terse
DROP TABLE processors CASCADE;
\set VERBOSITY default
SELECT name FROM varve.rollups ORDER BY name;
SELECT relname FROM pg_class WHERE relname ~ 'stored' AND relkind = 'r' ORDER BY relname;

-- What cannot be a rollup.
CREATE TABLE m (time timestamptz NOT NULL, host text, v float8, maybe timestamptz) USING varve;
CREATE TABLE h (time timestamptz NOT NULL, v float8) USING heap;
SELECT varve.create_rollup('r', 'SELECT 1');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b FROM m; SELECT 2');
SELECT varve.create_rollup('r', 'DELETE FROM m');
SELECT varve.create_rollup('r', 'SELECT nonsense');
SELECT varve.create_rollup('r', 'SELECT host, count(*) FROM m GROUP BY host');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) a, time_bucket(''1 day'', time) b FROM m GROUP BY 1, 2');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(DISTINCT v) c FROM m GROUP BY b');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, percentile_cont(0.5) WITHIN GROUP (ORDER BY v) c FROM m GROUP BY b');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM m GROUP BY b LIMIT 3');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM m GROUP BY b ORDER BY b');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM m GROUP BY b HAVING count(*) > 1');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(*) OVER () c FROM m GROUP BY b');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, random() * count(*) c FROM m GROUP BY b');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM m WHERE time < now() GROUP BY b');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 month 1 day'', time) b, count(*) c FROM m GROUP BY b');
SELECT varve.create_rollup('r', 'SELECT time_bucket(v * interval ''1 hour'', time) b, v, count(*) c FROM m GROUP BY b, v');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM m JOIN h USING (time) GROUP BY b');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM h GROUP BY b');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', maybe) b, count(*) c FROM m GROUP BY b');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(*), count(v) FROM m GROUP BY b');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c, max(ctid) t FROM m GROUP BY b');
SELECT varve.create_rollup('r', 'SELECT count(*) c FROM m GROUP BY time_bucket(''1 hour'', time)');
SELECT varve.create_rollup('h', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM m GROUP BY b');
SELECT varve.create_rollup(NULL, NULL);
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, (count(*), max(v)) c FROM m GROUP BY b');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM (TABLE m) m GROUP BY b');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM m WHERE time > CURRENT_TIMESTAMP GROUP BY b');
CALL varve.refresh_rollup('m');
CALL varve.refresh_rollup(NULL);
SELECT varve.drop_rollup(NULL);
BEGIN;
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM m GROUP BY b');
CALL varve.refresh_rollup('r');
ROLLBACK;
SELECT count(*) FROM varve.rollups;

-- Rights: of the view as of any other; the rest is its owner's.
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM m GROUP BY b');
CALL varve.refresh_rollup('r', '2026-01-02'::timestamptz, '2026-01-01'::timestamptz);
CALL varve.refresh_rollup('r', NULL::timestamptz, '2026-01-01'::timestamptz);
CALL varve.refresh_rollup('r', 1, 2);
SELECT varve.alter_rollup('r', NULL);
-- View and stored table are the rollup's own.
CREATE OR REPLACE VIEW r AS SELECT now() AS b, 1::bigint AS c;
SELECT replace(pg_get_viewdef('r'), 'count(*)', 'count(*) + 1') AS other_query \gset
CREATE OR REPLACE VIEW r AS :other_query
CREATE RULE refused AS ON INSERT TO r DO INSTEAD NOTHING;
DROP RULE refused ON r;
ALTER TABLE r_stored SET ACCESS METHOD heap;
DROP TABLE r_stored;
-- What dumps say of a rollup is not for others to say.
CREATE VIEW no_rollup AS SELECT time_bucket('1 hour', time) b, count(*) c FROM m GROUP BY b;
SELECT objname, label::json ->> 'removed' AS removed FROM pg_seclabels WHERE objname = 'r';
SECURITY LABEL FOR varve ON VIEW r IS '{"watermark": 0, "removed": 0, "ignores_late": false, "stored_has_index": true, "source_has_index": true}';
SECURITY LABEL FOR varve ON VIEW no_rollup IS '{"watermark": 0, "removed": 0, "ignores_late": false, "stored_has_index": true, "source_has_index": true}';
SECURITY LABEL FOR varve ON VIEW no_rollup IS '[]';
CREATE VIEW thief AS SELECT l.low, c.* FROM varve.rollup_live('r_stored', NULL::timestamptz) l,
    LATERAL (SELECT time_bucket('1 hour', time) b, count(*) c FROM m GROUP BY b) c;
SECURITY LABEL FOR varve ON VIEW thief IS '{"watermark": 0, "removed": 0, "ignores_late": false, "stored_has_index": true, "source_has_index": true}';
DROP VIEW no_rollup, thief;
CREATE ROLE regress_rollup_reader;
GRANT SELECT ON r TO regress_rollup_reader;
SET ROLE regress_rollup_reader;
SELECT * FROM r;
SELECT * FROM m;
SELECT * FROM r_stored;
SELECT * FROM varve.rollup;
CALL varve.refresh_rollup('r');
SELECT varve.rollup_begin('r_stored');
SELECT varve.drop_rollup('r');
SELECT varve.create_rollup('mine', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM m GROUP BY b');
RESET ROLE;
DROP TABLE m, h, days, ticks CASCADE;
DROP ROLE regress_rollup_reader;
SELECT count(*) FROM varve.rollup;

-- Columns of the stored table have the lengths of the query's: char(n), bit(n) and others. char(n) is a key of its index, but as no key whose
-- length nobody knows.
CREATE DOMAIN regress_code AS char(3);
CREATE TABLE lengths (time timestamptz NOT NULL, c char(4), d regress_code, b bit(5), n numeric(6, 2), v varchar(7), i int) USING varve;
INSERT INTO lengths SELECT '2026-01-01'::timestamptz + i * interval '1 min', 'c' || i % 3, 'd' || i % 2, (i % 4)::bit(5), i / 7.0, 'v' || i % 2, i FROM generate_series(1, 1000) i;
SELECT varve.create_rollup('of_lengths', $$
    SELECT time_bucket('1 hour', time) AS bucket, c, d, b, v, c || 'x' AS e, max(c) AS mc, bit_and(b) AS ab, max(n) AS mn, count(*) AS rows
    FROM lengths WHERE i > 10 GROUP BY bucket, c, d, b, v, e $$);
CALL varve.refresh_rollup('of_lengths');
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'of_lengths_stored'::regclass AND attnum > 0 ORDER BY attnum;
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'of_lengths_stored'::regclass;
SELECT c, mc, ab, mn, rows FROM of_lengths WHERE bucket = '2026-01-01 05:00' AND c = 'c1' AND d = 'd1' ORDER BY b;
SELECT count(*), sum(rows) FROM of_lengths;
DROP TABLE lengths CASCADE;
DROP DOMAIN regress_code;

-- Triggers of one statement see more and more of its rows, by snapshots of one command.
CREATE TABLE watched (time timestamptz NOT NULL, n int) USING varve;
SELECT varve.create_rollup('of_watched', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM watched GROUP BY b');
INSERT INTO watched SELECT '2026-01-01'::timestamptz + i * interval '1 min', i FROM generate_series(1, 1000) i;
CALL varve.refresh_rollup('of_watched');
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE WARNING '% %: % of %', tg_when, new.n, (SELECT sum(c) FROM of_watched), (SELECT count(*) FROM watched);
    RETURN new;
END $$;
CREATE TRIGGER a BEFORE INSERT ON watched FOR EACH ROW EXECUTE FUNCTION look();
CREATE TRIGGER b AFTER INSERT ON watched FOR EACH ROW EXECUTE FUNCTION look();
INSERT INTO watched VALUES ('2026-01-01 03:00:01', 2001), ('2026-01-01 04:00:01', 2002);
DROP TABLE watched CASCADE;
DROP FUNCTION look;

-- Nothing temporary: no event trigger is told when a session's own objects go.
CREATE TABLE stays (time timestamptz NOT NULL, n int) USING varve;
CREATE TEMP TABLE goes (time timestamptz NOT NULL, n int) USING varve;
SELECT varve.create_rollup('pg_temp.r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM stays GROUP BY b');
SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 hour'', time) b, count(*) c FROM goes GROUP BY b');
DROP TABLE stays, goes;
SELECT count(*) FROM varve.rollup;

-- Dates whose buckets begin within a day: such a bucket is the day before.
CREATE TABLE days (day date NOT NULL, n int) USING varve;
INSERT INTO days SELECT date '2024-01-01' + i, i FROM generate_series(0, 99) i;
SELECT varve.create_rollup('by_day', 'SELECT time_bucket(''1 day'', day, "offset" => interval ''12 hours'') AS b, sum(n) AS s FROM days GROUP BY b');
SELECT varve.create_rollup('by_week', 'SELECT time_bucket(''7 days'', day, "offset" => interval ''1 day 12 hours'') AS b, sum(n) AS s FROM days GROUP BY b');
CREATE VIEW wrong AS
    SELECT b, sum(s) FROM (SELECT b, s FROM by_day UNION ALL SELECT time_bucket('1 day', day, "offset" => interval '12 hours'), -n FROM days) o
    GROUP BY b HAVING sum(s) <> 0
    UNION ALL
    SELECT b, sum(s) FROM (SELECT b, s FROM by_week UNION ALL SELECT time_bucket('7 days', day, "offset" => interval '1 day 12 hours'), -n FROM days) o
    GROUP BY b HAVING sum(s) <> 0;
CALL varve.refresh_rollup('by_day');
CALL varve.refresh_rollup('by_week');
TABLE wrong;
INSERT INTO days SELECT day, 1000 FROM days WHERE n % 10 = 3;
INSERT INTO days SELECT date '2024-01-01' + i, i FROM generate_series(100, 130) i;
TABLE wrong;
CALL varve.refresh_rollup('by_day');
CALL varve.refresh_rollup('by_week');
TABLE wrong;
DROP TABLE days CASCADE;

-- TRUNCATE as the first statement of a session: the library comes with it. Buckets whose rows retention has taken go too; not where a savepoint is undone.
CREATE TABLE emptied (time timestamptz NOT NULL, n int) USING varve;
INSERT INTO emptied SELECT '2026-01-01'::timestamptz + i * interval '1 min', i FROM generate_series(1, 10000) i;
SELECT varve.create_rollup('of_emptied', 'SELECT time_bucket(''1 day'', time) b, count(*) c FROM emptied GROUP BY b');
CALL varve.refresh_rollup('of_emptied');
SELECT varve.set_retention('emptied', now() - '2026-01-04'::timestamptz) > 0 AS is_set;
CALL varve.expire('emptied');
SELECT (SELECT count(*) < 10000 FROM emptied) AS has_less, sum(c) FROM of_emptied;
\c -
BEGIN;
SAVEPOINT s;
TRUNCATE emptied;
ROLLBACK TO s;
COMMIT;
SELECT (SELECT count(*) < 10000 FROM emptied) AS has_less, sum(c) FROM of_emptied;
\c -
TRUNCATE emptied;
SELECT count(*) FROM of_emptied;
SELECT count(*) FROM of_emptied_stored;
\set VERBOSITY terse
DROP TABLE emptied CASCADE;
\set VERBOSITY default
