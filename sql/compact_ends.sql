-- Compact comes to an end: chunks that are merged for their own sake become fewer by it.
SET statement_timeout = '100s';
-- Of long and short series in turns two do not fit a chunk, and the short ones have chunks of few rows.
CREATE TABLE turns(time timestamptz NOT NULL, host int NOT NULL, value int, PRIMARY KEY (host, time)) USING varve
    WITH (autovacuum_enabled = false);
SET varve.chunk_rows = 100;
INSERT INTO turns
    SELECT '2026-01-01'::timestamptz + g * interval '1 s', h, g FROM generate_series(1, 80) h, generate_series(1, 95) g WHERE h % 2 = 0 OR g % 10 = 0;
CALL varve.compact('turns');
SELECT count(*) AS chunks, count(*) FILTER (WHERE rows < 50) AS small, bool_and(keyed) AS keyed, max(level) AS level FROM varve.chunks('turns');
-- Where they fit they are merged, once.
RESET varve.chunk_rows;
INSERT INTO turns VALUES ('2026-01-02', 1, 0);
CALL varve.compact('turns');
SELECT count(*) AS chunks, max(level) AS level FROM varve.chunks('turns');
SELECT count(*), sum(value) FROM turns;
SELECT count(*) AS faults FROM varve.verify('turns');
DROP TABLE turns;
-- Neighbours of one series that are just as long together as retention wants chunks to be become one.
CREATE TABLE halves(time timestamptz NOT NULL, host int NOT NULL, value int, PRIMARY KEY (host, time)) USING varve
    WITH (autovacuum_enabled = false);
SELECT varve.set_retention('halves', '8 days') > 0 AS is_set;
INSERT INTO halves SELECT '2126-01-01'::timestamptz + g * interval '30 s', 1, g FROM generate_series(0, 1440) g;
CALL varve.compact('halves');
INSERT INTO halves SELECT '2126-01-01'::timestamptz + g * interval '30 s', 1, g FROM generate_series(1441, 2880) g;
CALL varve.compact('halves');
SELECT count(*) AS chunks, max(level) AS level, max(max_time::timestamptz - min_time::timestamptz) AS extent FROM varve.chunks('halves');
SELECT count(*), sum(value) FROM halves;
SELECT count(*) AS faults FROM varve.verify('halves');
DROP TABLE halves;
RESET statement_timeout;
