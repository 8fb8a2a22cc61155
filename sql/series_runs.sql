-- Searches for series of a shared chunk: each of them, in any order, and those that are not there; last rows that are deleted.
CREATE FUNCTION at(seconds int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS
  $$ SELECT timestamptz '2026-01-01 00:00:00Z' + seconds * interval '1 s' $$;
SET enable_seqscan = off;
CREATE TABLE s (a smallint, b bigint, time timestamptz, v int) USING varve;
CREATE INDEX ON s USING varve (a, b, time);
INSERT INTO s SELECT a, b * 10000000000, at(g), a * b + g FROM generate_series(-3, 3) a, generate_series(-5, 5) b, generate_series(1, 60) g
WHERE a <> 1 AND b <> 2;
CALL varve.compact('s');
DELETE FROM s WHERE time > at(58) AND b > 0;
INSERT INTO s SELECT a, 30000000000, at(59), 0 FROM generate_series(-3, 0) a;
CREATE TABLE h (LIKE s);
INSERT INTO h TABLE s;
CREATE INDEX ON h (a, b, time);
SELECT count(*) FROM varve.chunks('s') WHERE NOT one_series;
CREATE FUNCTION asked(shown text) RETURNS TABLE (rows bigint, hash text) LANGUAGE plpgsql AS $$
  BEGIN
    RETURN QUERY EXECUTE format($q$
      SELECT count(l.v), md5(string_agg(l::text, ',' ORDER BY k.a, k.b, l.time))
      FROM (SELECT a, b FROM generate_series(-4, 4) a, generate_series(-6, 6) b ORDER BY md5((a * 100 + b)::text)) k,
           LATERAL (SELECT * FROM %s) l $q$, replace(shown, 'KEY', 'x.a = k.a AND x.b = k.b * 10000000000'));
  END $$;
SELECT shown, ours.rows, ours = theirs AS alike
FROM (VALUES ('%s x WHERE KEY ORDER BY time DESC LIMIT 1'), ('%s x WHERE KEY ORDER BY time LIMIT 2'), ('%s x WHERE KEY AND time <= at(59) ORDER BY time DESC LIMIT 2'),
             ('%s x WHERE KEY AND time < at(20) ORDER BY time DESC LIMIT 3'), ('%s x WHERE KEY AND time = at(60)')) q (shown),
     LATERAL asked(replace(shown, '%s', 's')) ours, LATERAL asked(replace(shown, '%s', 'h')) theirs;
SELECT (SELECT count(*) FROM s x JOIN s y USING (a, b, time)) = (SELECT count(*) FROM h x JOIN h y USING (a, b, time)) AS joined;
DROP TABLE s, h;
DROP FUNCTION at, asked;
