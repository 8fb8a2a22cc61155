-- Hundreds of short series, each with a chunk whose storage tuples are small: only so many headers fit on a page, and the file
-- must not grow by that.
CREATE TABLE v(series int, time timestamptz, value float8) USING varve;
CREATE INDEX ON v USING varve (series, time);
INSERT INTO v SELECT g % 300, '2026-01-01'::timestamptz + g / 300 * interval '1 s' + g % 7 * interval '1 ms',
        CASE WHEN g % 2 = 0 THEN 0 ELSE ('x' || substr(md5(g::text), 1, 3))::bit(12)::int / 10.0 END
    FROM generate_series(0, 389999) g;
CREATE TEMP TABLE fresh AS SELECT pg_total_relation_size('v') AS bytes;
CALL varve.compact('v');
SELECT count(*) AS chunks, sum(rows) AS rows, bool_and(one_series AND keyed) AS apart FROM varve.chunks('v');
CREATE VIEW live AS SELECT sum(bytes) AS bytes FROM varve.stats('v') WHERE part IN ('tail', 'chunks', 'headers');
SELECT pg_relation_size('v') <= 1.15 * live.bytes AS dense, pg_total_relation_size('v') <= fresh.bytes AS not_larger
    FROM live, fresh;
-- Deleted and replaced headers leave holes; compact fills them.
DELETE FROM v WHERE time < '2026-01-01 00:02:00';
UPDATE v SET value = value + 0.5 WHERE time < '2026-01-01 00:04:00';
CALL varve.compact('v');
SELECT pg_relation_size('v') <= 1.15 * live.bytes AS dense FROM live;
SELECT count(*), sum((value * 10)::bigint) FROM v;
SELECT count(*) AS faults FROM varve.verify('v');
DROP VIEW live;
DROP TABLE v;
