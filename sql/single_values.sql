-- Values of single rows, which are read without decoding their blocks, beside a heap: of all types that are passed by value, by all their codecs,
-- the same rows again, other rows of the same blocks, with deletes and updates, and columns of another type.
CREATE TABLE h (time timestamptz, host int, clock timestamptz, day date, walk bigint, coarse bigint, jumpy int, small smallint, flag boolean, state int, few bigint,
                decimal float8, odd float8, full_float float8, extreme float8, single real, wide bigint, holes int);
CREATE TABLE v (LIKE h) USING varve;
CREATE INDEX ON h (host, time);
CREATE INDEX ON v USING varve (host, time);
SELECT setseed(0.25);
INSERT INTO h
SELECT timestamptz '2026-01-01 00:00:00Z' + s * interval '10 s', n, timestamptz '2026-01-01 00:00:00Z' + s * interval '1 min', date '2026-01-01' + s / 50,
       sum((random() * 6)::int - 3) OVER series, 100000 + 250 * (random() * 40)::int,
       CASE WHEN s % 17 = n % 17 THEN (random() * 1000000)::int ELSE (random() * 15)::int END, (random() * 200)::int - 100, (s / 7 + n) % 2 = 0, s / 23 % 5,
       CASE (random() * 2)::int WHEN 0 THEN 5 WHEN 1 THEN 1::bigint << 40 ELSE 12345677 END,
       round((random() * 100)::numeric, 1), CASE WHEN s % 40 = 3 THEN random() ELSE round((random() * 10)::numeric, 2) END, random() * 1e6,
       CASE s % 30 WHEN 0 THEN 'NaN'::float8 WHEN 1 THEN '-0' WHEN 2 THEN '-Infinity' ELSE s END, (random() * 10)::real,
       (random() * 4e18)::bigint * CASE WHEN random() < 0.5 THEN 1 ELSE -1 END, CASE WHEN s % 9 <> n % 9 THEN s END
FROM generate_series(0, 299) s, generate_series(1, 60) n
WINDOW series AS (PARTITION BY n ORDER BY s);
INSERT INTO v TABLE h;
CALL varve.compact('v');
ANALYZE h, v;
SELECT count(*) FILTER (WHERE one_series), count(*) > 0 AS shared FROM varve.chunks('v');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
CREATE FUNCTION asked(query text) RETURNS text LANGUAGE plpgsql AS $$
  DECLARE answer text;
  BEGIN
    EXECUTE format('SELECT md5(string_agg(r::text, %L ORDER BY r.host, r.time)) FROM (%s) r', ',', query) INTO answer;
    RETURN answer;
  END $$;
CREATE FUNCTION compared() RETURNS TABLE (query text, alike boolean) LANGUAGE sql AS $$
  SELECT q, asked(format(q, 'v')) = asked(format(q, 'h'))
  FROM (VALUES (1, 'SELECT l.* FROM generate_series(0, 61) k, LATERAL (SELECT * FROM %s x WHERE x.host = k ORDER BY time DESC LIMIT 1) l'),
               (2, 'SELECT l.* FROM generate_series(0, 61) k, LATERAL (SELECT * FROM %s x WHERE x.host = k ORDER BY time LIMIT 1) l'),
               (3, 'SELECT l.* FROM generate_series(0, 61) k, LATERAL (SELECT * FROM %s x WHERE x.host = k AND time >= timestamptz ''2026-01-01 00:00:00Z'' + k * interval ''31 s'' ORDER BY time LIMIT 1) l'),
               (4, 'SELECT l.* FROM generate_series(0, 61) k, LATERAL (SELECT * FROM %s x WHERE x.host = k AND time >= timestamptz ''2026-01-01 00:00:00Z'' + k * interval ''31 s'' ORDER BY time LIMIT 2) l'),
               (5, 'SELECT l.* FROM generate_series(1, 400) k, LATERAL (SELECT * FROM %s x WHERE x.host = k * 7 %% 60 AND time < timestamptz ''2026-01-01 00:50:00Z'' - k * interval ''7 s'' ORDER BY time DESC LIMIT 1) l'),
               (6, 'SELECT * FROM %s WHERE host IN (3, 40) ORDER BY host, time DESC')) q (at, q)
  ORDER BY at $$;
SELECT * FROM compared();
BEGIN;
SELECT bool_and(alike) FROM compared();
SELECT bool_and(alike) FROM compared();
COMMIT;
-- The newest row of each of sixty series: ten columns have a piece in use each, and none of them is read again for the next series.
CREATE TABLE b (time timestamptz, host int, c0 bigint, c1 bigint, c2 bigint, c3 bigint, c4 bigint, c5 bigint, c6 bigint, c7 bigint, c8 bigint, c9 bigint) USING varve;
CREATE INDEX ON b USING varve (host, time);
INSERT INTO b SELECT timestamptz '2026-01-01 00:00:00Z' + s * interval '10 s', n, sum(r) OVER w, sum(r * 3 % 50) OVER w, sum(r * 3 % 47) OVER w, sum(r * 5 % 47) OVER w,
  sum(r * 3 % 46) OVER w, sum(r * 5 % 46) OVER w, sum(r * 3 % 41) OVER w, sum(r * 7 % 41) OVER w, sum(r * 5 % 49) OVER w, sum(r * 7 % 39) OVER w
FROM (SELECT s, n, (random() * 50)::int AS r FROM generate_series(0, 719) s, generate_series(1, 60) n) x WINDOW w AS (PARTITION BY n ORDER BY s);
CALL varve.compact('b');
ANALYZE b;
CREATE FUNCTION buffers(query text) RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE plan json;
  BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || query INTO plan;
    RETURN (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::bigint + (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::bigint;
  END $$;
SELECT buffers('SELECT sum(l.c0 + l.c1 + l.c2 + l.c3 + l.c4 + l.c5 + l.c6 + l.c7 + l.c8 + l.c9) FROM generate_series(1, 60) k,
                LATERAL (SELECT * FROM b x WHERE x.host = k ORDER BY time DESC LIMIT 1) l') AS asked \gset
SELECT :asked < 400 AS few_buffers, CASE WHEN :asked >= 400 THEN :asked END AS asked;
DROP TABLE b;
-- Changes of rows whose values are known.
DELETE FROM h WHERE host % 5 = 0 AND time >= timestamptz '2026-01-01 00:49:30Z';
DELETE FROM v WHERE host % 5 = 0 AND time >= timestamptz '2026-01-01 00:49:30Z';
UPDATE h SET walk = walk + 1, decimal = decimal + 0.1 WHERE host % 7 = 0 AND time >= timestamptz '2026-01-01 00:49:40Z';
UPDATE v SET walk = walk + 1, decimal = decimal + 0.1 WHERE host % 7 = 0 AND time >= timestamptz '2026-01-01 00:49:40Z';
SELECT bool_and(alike) FROM compared();
ALTER TABLE h ALTER jumpy TYPE bigint, DROP COLUMN small, ADD COLUMN later int DEFAULT 7;
ALTER TABLE v ALTER jumpy TYPE bigint, DROP COLUMN small, ADD COLUMN later int DEFAULT 7;
SELECT bool_and(alike) FROM compared();
CALL varve.compact('v');
SELECT bool_and(alike) FROM compared();
SELECT * FROM varve.verify('v');
DROP TABLE h, v;
DROP FUNCTION asked, buffers, compared;
