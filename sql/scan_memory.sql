-- Ordered scans of wide text: a session takes memory for some blocks, not for all that it reads, and every value is right.
SET varve.batch_memory = '8MB';
CREATE TABLE wide(time timestamptz NOT NULL, device int NOT NULL, seq int, state text) USING varve;
CREATE INDEX wide_series ON wide USING varve (device, time);
INSERT INTO wide
    SELECT '2026-01-01'::timestamptz + i * interval '1 s', i % 3, i, repeat(md5(i::text), 80) FROM generate_series(1, 40000) i;
CREATE FUNCTION peak_kb() RETURNS bigint LANGUAGE sql AS
$$SELECT (regexp_match(pg_read_file('/proc/self/status'), 'VmHWM:\s+(\d+)'))[1]::bigint$$;
CREATE FUNCTION ordered(direction text, OUT rows bigint, OUT wrong bigint, OUT disordered bigint, OUT grows boolean) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_sort = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE before bigint := peak_kb();
BEGIN
    EXECUTE format('SELECT count(*), count(*) FILTER (WHERE state IS DISTINCT FROM repeat(md5(seq::text), 80)),
                           count(*) FILTER (WHERE (device, time) < before) FROM (
                        SELECT *, lag((device, time)) OVER (ORDER BY device %1$s, time %1$s) AS before FROM wide) w', direction)
        INTO rows, wrong, disordered;
    grows := peak_kb() - before > 80000;
END $$;
-- Chunks as they were inserted, with rows of all series in each; one session for each scan, since peaks stay.
\c -
SELECT * FROM ordered('ASC');
SET varve.batch_memory = '8MB';
CALL varve.compact('wide');
SELECT sum(rows), bool_and(one_series), count(*) >= 4 AS many FROM varve.chunks('wide');
\c -
SELECT * FROM ordered('ASC');
\c -
SELECT rows, wrong, disordered = rows - 1 AS backward, grows FROM ordered('DESC');

-- More than one slot in a chunk: both sides of a merge join, and rows that are fetched to and fro.
SET enable_seqscan = off;
SET varve.enable_aggregate = off;
SET enable_sort = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_nestloop = off;
EXPLAIN (COSTS OFF) SELECT count(a.state = b.state) FROM wide a JOIN wide b USING (device, time);
SELECT count(*) FROM wide a JOIN wide b USING (device, time) WHERE a.state = b.state AND b.state = repeat(md5(a.seq::text), 80);
RESET enable_nestloop;
SET enable_mergejoin = off;
SELECT count(*), count(*) FILTER (WHERE a.state = repeat(md5(a.seq::text), 80) AND b.state = repeat(md5(b.seq::text), 80)) AS right
FROM wide a JOIN wide b ON b.device = a.device AND b.time = a.time + interval '3000 s' WHERE a.seq % 11 = 0;
-- A cursor's rows stay as they are while others of the same chunks are read.
BEGIN;
DECLARE first SCROLL CURSOR FOR SELECT seq, state = repeat(md5(seq::text), 80) AS right FROM wide ORDER BY device, time;
DECLARE second CURSOR FOR SELECT seq, state = repeat(md5(seq::text), 80) AS right FROM wide ORDER BY device, time;
MOVE 5000 IN first;
FETCH 2 FROM first;
FETCH 2 FROM second;
MOVE 4000 IN second;
FETCH 2 FROM second;
FETCH 2 FROM first;
FETCH BACKWARD 3 FROM first;
COMMIT;
-- A node that begins again for each row of another relation gives back what it had.
\c -
CREATE FUNCTION context_bytes() RETURNS bigint LANGUAGE sql AS $$SELECT sum(used_bytes) FROM pg_backend_memory_contexts$$;
SELECT max(bytes) - min(bytes) < 300000 AS steady, count(last) AS found
FROM (SELECT found.last, CASE WHEN g IN (1, 20000) THEN context_bytes() END AS bytes
      FROM generate_series(1, 20000) g, LATERAL (SELECT max(seq) AS last FROM wide WHERE device = g % 3 AND time > '2026-01-01 11:00'::timestamptz) found) one_by_one;
DROP FUNCTION ordered, peak_kb, context_bytes;
DROP TABLE wide;
