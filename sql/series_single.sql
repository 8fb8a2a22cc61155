-- Fresh chunks of single series that share the first key, which all of them are entered under: a scan that names one series takes no rows of the others, and
-- comes to its own chunks when it comes to their times.
SET varve.batch_rows = 100;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET varve.enable_aggregate = off;
SET timezone = 'UTC';
CREATE TABLE h(region text, host text, number int, time timestamptz NOT NULL, value int);
CREATE INDEX ON h(region, host, number, time);
CREATE TABLE v(LIKE h) USING varve;
CREATE INDEX ON v USING varve (region, host, number, time);
CREATE FUNCTION load(region text, host text, number int, start int, rows int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO h SELECT $1, $2, $3, '2026-01-01'::timestamptz + (start + g) * interval '1 s', start + g FROM generate_series(1, rows) g;
    INSERT INTO v SELECT $1, $2, $3, '2026-01-01'::timestamptz + (start + g) * interval '1 s', start + g FROM generate_series(1, rows) g;
END $$;
SELECT load('north', 'a', 1, 0, 300), load('north', 'a', 2, 500, 300), load('north', 'b', 1, 1000, 300), load('north', 'a', 1, 200, 300), load('south', 'a', 1, 2000, 300);
SELECT load('north', 'c', 1, 100, 40), load('north', 'a', 1, 3000, 40), load('north', 'a', 2, 400, 150);
SELECT level, rows, one_series, keyed FROM varve.chunks('v') ORDER BY min_time, rows;
CREATE FUNCTION looked(t text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE answer text[];
BEGIN
    EXECUTE format($q$ SELECT array_agg(concat_ws(' ', s.*, newest.*, oldest.*, before.*, counted.*) ORDER BY s.region, s.host, s.number)
        FROM (SELECT region, host, number FROM unnest(ARRAY['north', 'south']) region, unnest(ARRAY['a', 'b', 'c', 'd']) host, generate_series(1, 2) number) s,
        LATERAL (SELECT array_agg(value) FROM (SELECT value FROM %1$s t WHERE (t.region, t.host, t.number) = (s.region, s.host, s.number) ORDER BY time DESC LIMIT 3) x) newest,
        LATERAL (SELECT array_agg(value) FROM (SELECT value FROM %1$s t WHERE (t.region, t.host, t.number) = (s.region, s.host, s.number) ORDER BY time LIMIT 3) x) oldest,
        LATERAL (SELECT array_agg(value) FROM (SELECT value FROM %1$s t WHERE (t.region, t.host, t.number) = (s.region, s.host, s.number) AND time < '2026-01-01 00:07Z' ORDER BY time DESC LIMIT 3) x) before,
        LATERAL (SELECT count(*), sum(value) FROM (SELECT value FROM %1$s t WHERE (t.region, t.host, t.number) = (s.region, s.host, s.number) ORDER BY time OFFSET 0) x) counted $q$, t) INTO answer;
    RETURN answer;
END $$;
SELECT looked('h') = looked('v') AS equal;
EXPLAIN (COSTS OFF) SELECT value FROM v WHERE region = 'north' AND host = 'a' AND number = 1 ORDER BY time DESC LIMIT 1;
SELECT value FROM v WHERE region = 'north' AND host = 'a' AND number = 2 ORDER BY time DESC LIMIT 1;
SELECT value FROM v WHERE region = 'north' AND host = 'd' AND number = 2 ORDER BY time DESC LIMIT 1;
-- Rows that are gone, and changed; then merged.
DELETE FROM h WHERE value % 7 = 0;
DELETE FROM v WHERE value % 7 = 0;
UPDATE h SET value = -value WHERE value % 5 = 0;
UPDATE v SET value = -value WHERE value % 5 = 0;
SELECT looked('h') = looked('v') AS equal;
CALL varve.compact('v');
SELECT looked('h') = looked('v') AS equal;
SELECT load('north', 'a', 1, 450, 300), load('north', 'b', 2, 0, 200);
SELECT looked('h') = looked('v') AS equal;
SELECT * FROM varve.verify('v');
DROP TABLE h, v;
DROP FUNCTION load, looked;
