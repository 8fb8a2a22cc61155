-- What compact does where little is new: in proportion to that, whatever is there; a few pages of rows stay in the tail until there are more.
SET timezone = UTC;
CREATE TABLE v(time timestamptz NOT NULL, host int NOT NULL, a float8, b float8, PRIMARY KEY (host, time)) USING varve
    WITH (autovacuum_enabled = false);
CREATE TABLE v_heap(LIKE v);
INSERT INTO v SELECT '2026-01-01'::timestamptz + n / 100 * interval '10 s', n % 100, sin(n), cos(n) FROM generate_series(0, 149999) n;
INSERT INTO v_heap TABLE v;
CREATE PROCEDURE settle() LANGUAGE plpgsql AS $$
DECLARE before pg_lsn;
BEGIN
    FOR round IN 1..100 LOOP
        before := pg_current_wal_insert_lsn();
        CALL varve.compact('v');
        COMMIT;
        EXIT WHEN round > 1 AND pg_current_wal_insert_lsn() - before < 1000;
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;
CALL settle();
\set ECHO none
\i sql/include/asked_for.psql
\set ECHO all
CREATE FUNCTION state(OUT tail_rows bigint, OUT fresh bigint, OUT wrong_rows bigint, OUT faults bigint) LANGUAGE sql AS $$
    SELECT (SELECT tail_rows FROM varve.tables WHERE "table" = 'v'::regclass), (SELECT count(*) FROM varve.chunks('v') WHERE level = 0),
           (SELECT count(*) FROM ((TABLE v EXCEPT ALL TABLE v_heap) UNION ALL (TABLE v_heap EXCEPT ALL TABLE v)) w),
           (SELECT count(*) FROM varve.verify('v'))
$$;
SELECT pg_relation_size('v') / 8192 > 192 AS has_pages;

-- One row.
INSERT INTO v VALUES ('2026-02-01', 7, 1, 2);
INSERT INTO v_heap VALUES ('2026-02-01', 7, 1, 2);
SELECT FROM pg_stat_force_next_flush();
SELECT asked_for('v') AS before, pg_current_wal_insert_lsn() AS wal \gset
CALL varve.compact('v');
SELECT FROM pg_stat_force_next_flush();
SELECT asked_for('v') - :before <= 50 AS few_buffers, pg_current_wal_insert_lsn() - :'wal'::pg_lsn < 4000 AS little_wal;
SELECT * FROM state();
-- One row of a chunk is changed, and one deleted.
UPDATE v SET a = 5 WHERE host = 3 AND time = '2026-01-01 01:00:00';
UPDATE v_heap SET a = 5 WHERE host = 3 AND time = '2026-01-01 01:00:00';
DELETE FROM v WHERE host = 4 AND time = '2026-01-01 01:00:00';
DELETE FROM v_heap WHERE host = 4 AND time = '2026-01-01 01:00:00';
CALL varve.compact('v');
SELECT * FROM state();

-- A fresh chunk, which readers look at, is merged; and the rows go along.
INSERT INTO v SELECT '2026-02-02'::timestamptz + n * interval '1 s', n % 100, n, n FROM generate_series(1, 1000) n;
INSERT INTO v_heap SELECT '2026-02-02'::timestamptz + n * interval '1 s', n % 100, n, n FROM generate_series(1, 1000) n;
CALL varve.compact('v');
SELECT * FROM state();
-- So do the rows of more than a few pages.
SET varve.batch_rows = 1000000;
INSERT INTO v SELECT '2026-02-03'::timestamptz + n * interval '1 s', n % 100, n, n FROM generate_series(1, 5000) n;
INSERT INTO v_heap SELECT '2026-02-03'::timestamptz + n * interval '1 s', n % 100, n, n FROM generate_series(1, 5000) n;
RESET varve.batch_rows;
CALL varve.compact('v');
SELECT * FROM state();
-- What is gone from chunks gives its place back, whether a note on one page says so or new headers do.
DELETE FROM v WHERE host = 50 AND time < '2026-01-02';
DELETE FROM v_heap WHERE host = 50 AND time < '2026-01-02';
CALL varve.compact('v');
SELECT * FROM state();
SELECT sum(deleted) AS deleted FROM varve.chunks('v');
DELETE FROM v WHERE time < '2026-01-01 02:00';
DELETE FROM v_heap WHERE time < '2026-01-01 02:00';
CALL varve.compact('v');
SELECT * FROM state();
SELECT sum(deleted) AS deleted FROM varve.chunks('v');

-- A round looks at what has changed since the last survey: large batches beside all that is there, many times, read no header twice.
CREATE PROCEDURE feed(first int, last int) LANGUAGE plpgsql AS $$
BEGIN
    FOR round IN first..last LOOP
        INSERT INTO v SELECT '2026-02-10'::timestamptz + round * interval '100 s' + n / 100 * interval '1 s', n % 100, n, n
        FROM generate_series(0, 1999) n;
        INSERT INTO v_heap SELECT '2026-02-10'::timestamptz + round * interval '100 s' + n / 100 * interval '1 s', n % 100, n, n
        FROM generate_series(0, 1999) n;
        UPDATE v SET b = round WHERE host = round AND time > '2026-01-01 04:00';
        UPDATE v_heap SET b = round WHERE host = round AND time > '2026-01-01 04:00';
        COMMIT;
        CALL varve.compact('v');
    END LOOP;
END $$;
CALL feed(1, 12);
SELECT * FROM state();
DROP TABLE v, v_heap;
DROP PROCEDURE feed, settle;
DROP FUNCTION asked_for, state;
