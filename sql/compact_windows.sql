-- What compact writes when it merges a window of time: each row about once. The hole that it leaves is for the chunks that come next.
SET varve.chunk_rows = 1024;
SET timezone = UTC;
SELECT setseed(0.5) IS NOT NULL AS is_set;
CREATE TABLE wide(time timestamptz NOT NULL, host int NOT NULL, a float8, b float8, c float8, d float8, e float8, f float8, PRIMARY KEY (host, time))
    USING varve WITH (autovacuum_enabled = false);
INSERT INTO wide
    SELECT '2025-12-01'::timestamptz + t * interval '10 min', h, random(), random(), random(), random(), random(), random()
    FROM generate_series(1, 700) t, generate_series(1, 100) h;
CALL varve.compact('wide');
CREATE TABLE written(minute int, wal numeric, pages int);
CREATE PROCEDURE feed(first int, last int) LANGUAGE plpgsql AS $$
DECLARE before pg_lsn;
BEGIN
    FOR minute IN first..last LOOP
        INSERT INTO wide
            SELECT '2026-01-01'::timestamptz + minute * interval '60 s' + t * interval '10 s', h, random(), random(), random(), random(), random(), random()
            FROM generate_series(0, 5) t, generate_series(1, 100) h;
        COMMIT;
        before := pg_current_wal_insert_lsn();
        CALL varve.compact('wide');
        INSERT INTO written VALUES (minute, pg_current_wal_insert_lsn() - before, pg_relation_size('wide') / 8192);
        COMMIT;
    END LOOP;
END $$;
CALL feed(0, 30);
-- A quarter of an hour is merged when the next has begun.
SELECT sum(rows) AS rows, sum(payload_bytes) AS bytes FROM varve.chunks('wide') WHERE level = 2 AND min_time::timestamptz >= '2026-01-01 00:15' \gset second_
SELECT wal < 1.5 * :second_bytes AS is_written_once, :second_rows AS rows FROM written WHERE minute = 30;
SELECT pg_relation_size('wide') <= 1.25 * sum(bytes) AS is_short FROM varve.stats('wide') WHERE part IN ('tail', 'chunks', 'headers');
-- The next chunks go there, not to the end.
CALL feed(31, 40);
SELECT max(pages) - min(pages) AS grown FROM written WHERE minute >= 30;
SELECT sum(wal) < 600000 AS is_little FROM written WHERE minute > 30;
CALL varve.compact('wide');
SELECT pg_current_wal_insert_lsn() AS before \gset
CALL varve.compact('wide');
SELECT pg_current_wal_insert_lsn() - :'before' < 4000 AS is_quiet;
SELECT count(*), count(DISTINCT (host, time)) FROM wide;
SELECT count(*) AS faults FROM varve.verify('wide');
DROP PROCEDURE feed;
DROP TABLE wide, written;
