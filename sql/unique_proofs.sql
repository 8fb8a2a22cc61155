-- What core makes of unique indexes besides paths: joins that are removed or stop at the first match. The planner is not shown those of a table that is
-- alone in its query.
CREATE TABLE k (host int, time timestamptz, v int, PRIMARY KEY (host, time)) USING varve;
INSERT INTO k SELECT h, timestamptz '2026-01-01 00:00:00Z' + s * interval '1 s', s FROM generate_series(1, 20) h, generate_series(0, 499) s;
CALL varve.compact('k');
CREATE TABLE o (host int, time timestamptz);
INSERT INTO o SELECT host, time FROM k WHERE v % 100 = 0;
ANALYZE k, o;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
EXPLAIN (COSTS OFF) SELECT o.* FROM o LEFT JOIN k ON k.host = o.host AND k.time = o.time;
EXPLAIN (COSTS OFF, VERBOSE) SELECT k.v FROM o JOIN k ON k.host = o.host AND k.time = o.time;
EXPLAIN (COSTS OFF) SELECT * FROM k WHERE host = 3 AND time = timestamptz '2026-01-01 00:00:07Z';
EXPLAIN (COSTS OFF) SELECT * FROM k WHERE host = 3 ORDER BY time DESC LIMIT 1;
CREATE FUNCTION estimate(query text) RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE plan json;
  BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
    RETURN plan -> 0 -> 'Plan' ->> 'Plan Rows';
  END $$;
SELECT estimate('SELECT * FROM k WHERE host = 3') BETWEEN 400 AND 600 AS by_host;
SELECT count(*) FROM o JOIN k ON k.host = o.host AND k.time = o.time;
-- An expression's statistics, and the newest time, of which ANALYZE has not heard, are taken from such indexes.
CREATE TABLE e (time timestamptz NOT NULL, host int, v int) USING varve;
CREATE INDEX ON e USING varve (host, time);
INSERT INTO e SELECT timestamptz '2026-01-01 00:00:00Z' + s * interval '1 s', h, s % 10 FROM generate_series(0, 999) s, generate_series(1, 10) h;
CREATE INDEX ON e ((v * 2 % 4));
CREATE INDEX ON e (time);
ANALYZE e;
SELECT estimate('SELECT * FROM e WHERE v * 2 % 4 = 0') BETWEEN 4000 AND 6000 AS by_expression;
INSERT INTO k SELECT host, time + interval '1 h', v FROM k WHERE v < 3 ON CONFLICT DO NOTHING;
UPDATE k SET v = -1 WHERE host = 3 AND time = timestamptz '2026-01-01 00:00:07Z';
DELETE FROM k WHERE host = 4 AND time < timestamptz '2026-01-01 00:00:07Z';
INSERT INTO k VALUES (3, timestamptz '2026-01-01 00:00:07Z', 5) ON CONFLICT (host, time) DO UPDATE SET v = EXCLUDED.v RETURNING v;
INSERT INTO k VALUES (3, timestamptz '2026-01-01 00:00:09Z', 5);
SELECT count(*), sum(v) FROM k;
DROP TABLE k, o, e;
DROP FUNCTION estimate;
