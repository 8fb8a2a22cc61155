-- Rows and batches beyond varve.batch_memory: what does not fit is written at once, and nothing is lost.
SET varve.batch_memory = '1MB';
CREATE TABLE h(time timestamptz NOT NULL, host text, note text, raw bytea);
CREATE TABLE v(LIKE h) USING varve;
CREATE INDEX ON v USING varve (host, time);
CREATE VIEW differences AS
    SELECT count(*) AS differences FROM ((TABLE h EXCEPT ALL TABLE v) UNION ALL (TABLE v EXCEPT ALL TABLE h)) d;
-- Random bytes of a given length, the same in each run.
CREATE FUNCTION noise(seed int, bytes int) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT substr(string_agg(sha512((seed || ' ' || i)::bytea), '' ORDER BY i), 1, bytes) FROM generate_series(0, bytes / 64) i $$;

-- Among small rows one of three times the memory, in the middle, and one that compresses well.
INSERT INTO h
    SELECT '2026-01-01'::timestamptz + i * interval '1 s', 'h' || i % 3, CASE i WHEN 700 THEN repeat('wide ', 1000000) END,
           CASE i WHEN 600 THEN noise(i, 3 << 20) ELSE noise(i, 10) END
    FROM generate_series(1, 1200) i;
INSERT INTO v TABLE h;
TABLE differences;
SELECT sum(rows) AS rows_in_chunks, count(*) > 1 AS in_parts FROM varve.chunks('v');
-- A batch of wide rows alone.
INSERT INTO h SELECT '2026-01-02'::timestamptz + i * interval '1 s', 'wide', NULL, noise(i, 20000) FROM generate_series(1, 600) i;
INSERT INTO v SELECT * FROM h WHERE host = 'wide';
TABLE differences;
CALL varve.compact('v');
TABLE differences;
-- Into two tables at once; each row alone is too large.
CREATE TABLE parted(LIKE h) PARTITION BY LIST (host);
CREATE TABLE parted_a PARTITION OF parted FOR VALUES IN ('a') USING varve;
CREATE TABLE parted_b PARTITION OF parted FOR VALUES IN ('b') USING varve;
SET varve.batch_rows = 1;
INSERT INTO parted SELECT '2026-01-01'::timestamptz + i * interval '1 s', CASE i % 2 WHEN 0 THEN 'a' ELSE 'b' END, NULL, noise(i, 1100000)
    FROM generate_series(1, 6) i;
SELECT tableoid::regclass, count(*), sum(length(raw)), bool_and(raw = noise(extract(second FROM time)::int, 1100000)) AS same
FROM parted GROUP BY 1 ORDER BY 1;
CALL varve.compact('parted_a');
SELECT sum(length(raw)), bool_and(raw = noise(extract(second FROM time)::int, 1100000)) AS same FROM parted_a;
SELECT (SELECT count(*) FROM varve.verify('v')) + (SELECT count(*) FROM varve.verify('parted_a'))
       + (SELECT count(*) FROM varve.verify('parted_b')) AS faults;
DROP VIEW differences;
DROP TABLE h, v, parted;
DROP FUNCTION noise;
RESET varve.batch_memory;
RESET varve.batch_rows;
