-- Chunks of several series keep to windows of time: what is older than the end of one goes with whole chunks.

SET varve.chunk_rows = 4096;
SET timezone = UTC;
CREATE TABLE fed(time timestamptz NOT NULL, host int NOT NULL, a float8, b int, PRIMARY KEY (host, time)) USING varve
    WITH (autovacuum_enabled = false);
CREATE TABLE fed_heap(LIKE fed);
CREATE FUNCTION wrong_rows(name text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE wrong bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM ((TABLE %1$I EXCEPT ALL TABLE %1$I_heap) UNION ALL (TABLE %1$I_heap EXCEPT ALL TABLE %1$I)) w', name)
        INTO wrong;
    RETURN wrong;
END $$;
CREATE PROCEDURE idle(name text, OUT is_quiet bool) LANGUAGE plpgsql AS $$
DECLARE before pg_lsn;
BEGIN
    FOR round IN 1..2 LOOP
        CALL varve.compact(name::regclass);
        COMMIT;
    END LOOP;
    before := pg_current_wal_insert_lsn();
    CALL varve.compact(name::regclass);
    is_quiet := pg_current_wal_insert_lsn() - before < 4000;
END $$;
-- Six rows of each of 200 hosts a minute; some come a little later than a minute's end, and each tenth minute a row of the day before.
CREATE PROCEDURE feed(first int, last int) LANGUAGE plpgsql AS $$
BEGIN
    FOR minute IN first..last LOOP
        INSERT INTO fed_heap
            SELECT '2026-01-01'::timestamptz + minute * interval '60 s' + t * interval '10 s' + h % 7 * interval '1 s', h,
                   hashint4(t * 1000 + h) % 1000 / 10.0, minute + h
            FROM generate_series(1, 6) t, generate_series(1, 200) h;
        INSERT INTO fed SELECT * FROM fed_heap
            WHERE time > '2026-01-01'::timestamptz + minute * interval '60 s' + interval '9 s' AND b - host = minute;
        IF minute % 10 = 9 THEN
            INSERT INTO fed_heap SELECT '2025-12-31'::timestamptz + minute * interval '1 s', minute % 200, 1, minute;
            INSERT INTO fed SELECT * FROM fed_heap WHERE time = '2025-12-31'::timestamptz + minute * interval '1 s';
        END IF;
        COMMIT;
        CALL varve.compact('fed');
    END LOOP;
END $$;
CALL feed(0, 64);
-- Those that were merged twice lie in quarters of an hour, and the rows of the day before in chunks of their own.
CREATE VIEW windows AS
    SELECT CASE WHEN level > 1 THEN date_bin('15 min', min_time::timestamptz, '2000-01-01') END AS quarter,
           bool_and(level = 1 OR date_bin('15 min', min_time::timestamptz, '2000-01-01') =
                    date_bin('15 min', max_time::timestamptz, '2000-01-01')) AS is_inside,
           bool_and(keyed) AS keyed, sum(rows) AS rows
    FROM varve.chunks('fed') GROUP BY 1;
TABLE windows ORDER BY quarter;
SELECT count(*) AS chunks_of_two_days FROM varve.chunks('fed') WHERE min_time::timestamptz < '2026-01-01' AND max_time::timestamptz > '2026-01-01';
SELECT wrong_rows('fed'), (SELECT count(*) FROM varve.verify('fed')) AS faults;
CALL idle('fed', NULL);
-- What is old goes whole.
DELETE FROM fed WHERE time < '2026-01-01 00:30';
DELETE FROM fed_heap WHERE time < '2026-01-01 00:30';
SELECT count(*) AS chunks_with_gaps FROM varve.chunks('fed') WHERE deleted > 0 AND deleted < rows;
CALL varve.compact('fed');
SELECT wrong_rows('fed'), (SELECT count(*) FROM varve.verify('fed')) AS faults;
CALL idle('fed', NULL);
-- A worn window is written anew, in its place, and others stay.
DELETE FROM fed WHERE time < '2026-01-01 00:38' OR host % 20 = 0 AND time < '2026-01-01 00:50';
DELETE FROM fed_heap WHERE time < '2026-01-01 00:38' OR host % 20 = 0 AND time < '2026-01-01 00:50';
CALL varve.compact('fed');
TABLE windows ORDER BY quarter;
SELECT wrong_rows('fed'), (SELECT count(*) FROM varve.verify('fed')) AS faults;
CALL idle('fed', NULL);
-- Rows among older ones, of all hosts and of one.
INSERT INTO fed_heap SELECT time + interval '3 s', host, a, -b FROM fed_heap WHERE time BETWEEN '2026-01-01 00:45' AND '2026-01-01 00:50';
INSERT INTO fed SELECT * FROM fed_heap WHERE b < 0;
CALL varve.compact('fed');
INSERT INTO fed_heap SELECT time + interval '500 ms', host, 7, 0 FROM fed_heap WHERE host = 3;
INSERT INTO fed SELECT * FROM fed_heap WHERE a = 7 AND b = 0;
CALL varve.compact('fed');
SELECT wrong_rows('fed'), (SELECT count(*) FROM varve.verify('fed')) AS faults;
CALL idle('fed', NULL);
-- The rest of the day: series have rows for chunks of their own, which do not stay small.
CALL feed(65, 400);
SELECT wrong_rows('fed'), (SELECT count(*) FROM varve.verify('fed')) AS faults;
CALL idle('fed', NULL);
SELECT count(*) < 100 AS has_few_shared, bool_and(max_time::timestamptz - min_time::timestamptz <= '3 h' OR NOT keyed) AS is_bounded
    FROM varve.chunks('fed') WHERE NOT one_series;
SELECT count(*) AS own_chunks, min(rows) > 1500 AS is_large FROM varve.chunks('fed') WHERE one_series;

-- One load of everything is divided where rows are going to expire: windows are no more than an eighth of what is kept. Else it is not,
-- since series would be cut to pieces.
-- No worker finds anything that has expired.
CREATE TABLE loaded(time timestamptz NOT NULL, host int NOT NULL, a float8, b int, PRIMARY KEY (host, time)) USING varve
    WITH (autovacuum_enabled = false);
CREATE TABLE kept(LIKE loaded INCLUDING ALL) USING varve WITH (autovacuum_enabled = false);
SELECT varve.set_retention('kept', '100 years') > 0 AS is_set;
INSERT INTO loaded
    SELECT '2126-01-01'::timestamptz + m * interval '1 min', h, h, m FROM generate_series(0, 599) m, generate_series(1, 200) h;
CALL varve.compact('loaded');
SELECT count(DISTINCT min_time) AS windows FROM varve.chunks('loaded');
CALL idle('loaded', NULL);
SELECT varve.set_retention('kept', '8 hours') > 0 AS is_set;
INSERT INTO kept TABLE loaded;
CALL varve.compact('kept');
SELECT count(DISTINCT min_time) AS windows,
       bool_and(date_bin('1 h', min_time::timestamptz, '2000-01-01') = date_bin('1 h', max_time::timestamptz, '2000-01-01')) AS is_inside
    FROM varve.chunks('kept');
SELECT count(*) AS wrong FROM ((TABLE kept EXCEPT ALL TABLE loaded) UNION ALL (TABLE loaded EXCEPT ALL TABLE kept)) w;
SELECT count(*) AS faults FROM varve.verify('kept');
CALL idle('kept', NULL);
-- So it does with chunks of one series, which grow no longer than that.
CREATE TABLE few(time timestamptz NOT NULL, host int NOT NULL, a float8, PRIMARY KEY (host, time)) USING varve WITH (autovacuum_enabled = false);
CREATE TABLE few_kept(LIKE few INCLUDING ALL) USING varve WITH (autovacuum_enabled = false);
CREATE TABLE few_loaded(LIKE few INCLUDING ALL) USING varve WITH (autovacuum_enabled = false);
SELECT varve.set_retention('few_kept', '16 days') > 0 AND varve.set_retention('few_loaded', '16 days') > 0 AS is_set;
DO $$
BEGIN
    FOR part IN 0..19 LOOP
        INSERT INTO few SELECT '2126-01-01'::timestamptz + (part * 1500 + n) * interval '1 min', h, n FROM generate_series(0, 1499) n, generate_series(1, 3) h;
        INSERT INTO few_kept SELECT '2126-01-01'::timestamptz + (part * 1500 + n) * interval '1 min', h, n FROM generate_series(0, 1499) n, generate_series(1, 3) h;
        COMMIT;
        CALL varve.compact('few');
        CALL varve.compact('few_kept');
    END LOOP;
    INSERT INTO few_loaded TABLE few;
    COMMIT;
    CALL varve.compact('few_loaded');
END $$;
SELECT count(*) AS chunks, max(max_time::timestamptz - min_time::timestamptz) AS longest FROM varve.chunks('few');
SELECT count(*) AS chunks, max(max_time::timestamptz - min_time::timestamptz) AS longest FROM varve.chunks('few_kept');
SELECT count(*) AS chunks, max(max_time::timestamptz - min_time::timestamptz) AS longest FROM varve.chunks('few_loaded');
CALL idle('few_kept', NULL);
SELECT count(*) AS wrong FROM ((TABLE few EXCEPT ALL TABLE few_kept) UNION ALL (TABLE few_loaded EXCEPT ALL TABLE few)) w;
SELECT count(*) AS faults FROM varve.verify('few_kept');
-- A rule that is taken away bounds nothing any more.
SELECT varve.remove_retention('few_kept');
INSERT INTO few_kept VALUES ('2126-06-01', 1, 1);
CALL varve.compact('few_kept');
SELECT count(*) AS chunks, max(rows) AS most_rows FROM varve.chunks('few_kept') WHERE one_series;
SELECT count(*) AS rows FROM few_kept;
SELECT count(*) AS faults FROM varve.verify('few_kept');

-- Dates, numbers, infinities, rows without a time, series before 2000.
CREATE TABLE dated(day date, host text, a int) USING varve WITH (autovacuum_enabled = false);
CREATE TABLE dated_heap(LIKE dated);
CREATE INDEX ON dated USING varve (host, day);
CREATE TABLE numbered(at bigint, host int, a int) USING varve WITH (autovacuum_enabled = false);
CREATE TABLE numbered_heap(LIKE numbered);
CREATE INDEX ON numbered USING varve (host, at);
DO $$
BEGIN
    FOR round IN 0..40 LOOP
        INSERT INTO dated_heap
            SELECT CASE WHEN h = 7 AND round = 5 THEN 'infinity' WHEN h = 8 AND round = 6 THEN NULL WHEN h = 9 AND round = 7 THEN '-infinity'
                   ELSE '1999-12-01'::date + round * 3 + d END, 'h' || h, round
            FROM generate_series(0, 2) d, generate_series(1, 400) h;
        INSERT INTO dated SELECT * FROM dated_heap WHERE a = round;
        INSERT INTO numbered_heap
            SELECT CASE WHEN h = 7 AND round = 5 THEN 9223372036854775807 WHEN h = 8 AND round = 6 THEN NULL
                   WHEN h = 9 AND round = 7 THEN -9223372036854775808 ELSE -2000 + round * 100 + n * 10 END, h, round
            FROM generate_series(0, 9) n, generate_series(1, 100) h;
        INSERT INTO numbered SELECT * FROM numbered_heap WHERE a = round;
        COMMIT;
        CALL varve.compact('dated');
        CALL varve.compact('numbered');
    END LOOP;
END $$;
SELECT wrong_rows('dated'), wrong_rows('numbered'),
       (SELECT count(*) FROM varve.verify('dated')) + (SELECT count(*) FROM varve.verify('numbered')) AS faults;
CALL idle('dated', NULL);
CALL idle('numbered', NULL);
SELECT count(*) <= 48 AS has_few FROM varve.chunks('dated');
SELECT count(*) <= 48 AS has_few FROM varve.chunks('numbered');
-- All at one time: no window is ever over, and chunks do not pile up.
CREATE TABLE still(time timestamptz NOT NULL, host int NOT NULL, a int) USING varve WITH (autovacuum_enabled = false);
CREATE TABLE still_heap(LIKE still);
CREATE INDEX ON still USING varve (host, time);
DO $$
BEGIN
    FOR round IN 1..50 LOOP
        INSERT INTO still_heap SELECT '2026-01-01', h, round FROM generate_series(1, 600) h;
        INSERT INTO still SELECT * FROM still_heap WHERE a = round;
        COMMIT;
        CALL varve.compact('still');
    END LOOP;
END $$;
SELECT wrong_rows('still'), (SELECT count(*) FROM varve.verify('still')) AS faults, (SELECT count(*) < 40 FROM varve.chunks('still')) AS has_few;
CALL idle('still', NULL);

DROP VIEW windows;
DROP PROCEDURE idle, feed;
DROP TABLE fed, fed_heap, loaded, kept, few, few_kept, few_loaded, dated, dated_heap, numbered, numbered_heap, still, still_heap;
DROP FUNCTION wrong_rows;
