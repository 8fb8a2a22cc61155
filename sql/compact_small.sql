-- A small table does not become much larger by compact: what is merged goes back into the pages that it came from.

CREATE TABLE small(time timestamptz NOT NULL, host int, a float8, b float8, c float8, d float8) USING varve;
CREATE INDEX ON small USING varve (host, time);
INSERT INTO small
    SELECT '2026-01-01'::timestamptz + t * interval '10 s', h, hashint4(t * 10 + h) % 100, hashint4(t * 11 + h) % 1000,
           hashint4(t * 12 + h) % 10000, hashint4(t * 13 + h) % 100000
    FROM generate_series(1, 2000) t, generate_series(1, 10) h;
CREATE TABLE twin AS TABLE small;
SELECT pg_relation_size('small') AS before \gset
CALL varve.compact('small');
SELECT count(*) AS chunks, bool_and(one_series) AS one_series, pg_relation_size('small') <= :before * 1.2 AS stays_small
FROM varve.chunks('small');
-- Not even what is left of some chunks after others went.
DELETE FROM small WHERE host IN (2, 5, 7);
DELETE FROM twin WHERE host IN (2, 5, 7);
CALL varve.compact('small');
SELECT count(*) AS chunks, pg_relation_size('small') <= :before * 0.9 AS gets_smaller FROM varve.chunks('small');
(TABLE small EXCEPT ALL TABLE twin) UNION ALL (TABLE twin EXCEPT ALL TABLE small);
SELECT count(*) AS faults FROM varve.verify('small');
DROP TABLE small, twin;
