-- first, last, histogram: parallel plans and window frames give the serial answer; any types; errors.
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET max_parallel_workers_per_gather = 0;
CREATE TABLE samples AS
SELECT n AS id, n % 7 AS k, timestamptz '2024-01-01 00:00+00' + (n * 7919 % 20011) * interval '1 second' AS t,
       CASE WHEN n % 11 <> 0 THEN n * 1.5 END::float8 AS v, CASE WHEN n % 13 <> 0 THEN repeat('x', n % 300) || n END AS s,
       ARRAY[n, n % 5] AS a, n::numeric / 7 AS q
FROM generate_series(1, 20000) n;
CREATE VIEW answers AS
SELECT k, first(v, t) AS fv, last(v, t) AS lv, md5(first(s, t)) AS fs, md5(last(s, t)) AS ls, first(a, q) AS fa, last(a, q) AS la,
       first(q, s COLLATE "C") AS fq, last(q, s COLLATE "C") AS lq, last(t, id) AS lt, last(k, a) AS lk,
       histogram(v, 0, 30000, 10) AS h
FROM samples GROUP BY k;
CREATE TEMPORARY TABLE serial AS SELECT * FROM answers;

-- What first and last mean, in core's words.
SELECT count(*) AS groups,
       count(*) FILTER (WHERE fv IS DISTINCT FROM (SELECT v FROM samples s WHERE s.k = a.k ORDER BY t LIMIT 1)) AS first_value,
       count(*) FILTER (WHERE lv IS DISTINCT FROM (SELECT v FROM samples s WHERE s.k = a.k ORDER BY t DESC LIMIT 1)) AS last_value,
       count(*) FILTER (WHERE ls IS DISTINCT FROM (SELECT md5(s.s) FROM samples s WHERE s.k = a.k ORDER BY t DESC LIMIT 1)) AS last_text,
       count(*) FILTER (WHERE lq IS DISTINCT FROM
           (SELECT q FROM samples s WHERE s.k = a.k AND s.s IS NOT NULL ORDER BY s.s COLLATE "C" DESC LIMIT 1)) AS last_by_text,
       count(*) FILTER (WHERE h IS DISTINCT FROM (SELECT array_agg(c::int ORDER BY b) FROM (
           SELECT b, count(v) AS c FROM generate_series(0, 11) b LEFT JOIN samples s ON s.k = a.k AND width_bucket(v, 0, 30000, 10) = b
           GROUP BY b) c)) AS histogram
FROM serial a;

-- Parallel plans.
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
ALTER TABLE samples SET (parallel_workers = 2);
EXPLAIN (COSTS OFF) SELECT * FROM answers;
SELECT count(*) AS differences FROM (
    (SELECT * FROM answers EXCEPT SELECT * FROM serial) UNION ALL (SELECT * FROM serial EXCEPT SELECT * FROM answers)) d;
SET max_parallel_workers_per_gather = 0;

-- Window frames, against the same aggregate over a subquery per row.
SELECT count(*) AS rows, count(*) FILTER (WHERE (f, l, ft, lt, h) IS DISTINCT FROM
    (SELECT (first(v, t), last(v, t), first(s, t), last(s, t), histogram(v, 0, 300, 3))
     FROM samples i WHERE i.id BETWEEN o.id - 5 AND o.id + 3)) AS differences
FROM (SELECT id, first(v, t) OVER w AS f, last(v, t) OVER w AS l, first(s, t) OVER w AS ft, last(s, t) OVER w AS lt,
             histogram(v, 0, 300, 3) OVER w AS h
      FROM samples WHERE id <= 2000 WINDOW w AS (ORDER BY id ROWS BETWEEN 5 PRECEDING AND 3 FOLLOWING)) o
WHERE id BETWEEN 10 AND 1990 AND id % 20 = 0;

-- A NULL value counts, a NULL time does not; fixed-length types, by reference and by value.
SELECT first(v, t), last(v, t) FROM (VALUES (NULL::int, 1), (2, NULL), (3, 2)) d(v, t);
SELECT last(u, t), last(i, t), last(b, t), last(r, t), last(n, t), last(c, t)
FROM (VALUES ('5a0b2a6f-0000-4000-8000-00c1c8be2aca'::uuid, interval '1 day', true, 1.5::real, 'name'::name, ROW(1, 'x'), 1),
             ('6a0b2a6f-0000-4000-8000-00c1c8be2aca'::uuid, interval '2 days', false, 2.5::real, 'other', ROW(2, 'y'), 2)) d(u, i, b, r, n, c, t);
SELECT first(1, '{}'::json);
SELECT first('a', 1);

-- Histogram: limits and errors.
SELECT histogram(v, -1.7e308, 1.7e308, 4) FROM (VALUES (-1.7e308::float8), (-1e308), (0), (1e308), (1.7e308)) d(v);
SELECT histogram(v, 0, 1, 10) FROM (SELECT i * 0.1::float8 FROM generate_series(0, 10) i) d(v);
SELECT histogram(v, 0, 10, 2) FROM (VALUES (1::float8), (NULL), (6)) d(v);
SELECT histogram(1, NULL, 10, 5);
SELECT histogram(1, 0, 10, NULL);
SELECT histogram(1, 0, 10, 0);
SELECT histogram(1, 0, 10, 2000000);
SELECT histogram(1, 10, 0, 5);
SELECT histogram('NaN', 0, 10, 5);
SELECT histogram(v, 0, m, 5) FROM (VALUES (1, 5), (2, 6)) d(v, m);
DROP VIEW answers;
DROP TABLE samples;
