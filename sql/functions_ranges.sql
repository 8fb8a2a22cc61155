-- Conditions on time_bucket(...) reach the index: the rewritten query gives the same rows, and the plan shows the condition.
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
CREATE TABLE events AS
SELECT n AS id, timestamptz '2024-01-01 00:00+00' + n * interval '370 minutes' AS t, timestamp '2024-01-01 00:00' + n * interval '370 minutes' AS ts,
       date '2024-01-01' + n % 300 AS d, n * 7 AS i, (n * 7)::bigint AS b FROM generate_series(-300, 300) n;
INSERT INTO events VALUES (9001, 'infinity', 'infinity', 'infinity', 0, 0), (9002, '-infinity', '-infinity', '-infinity', 0, 0), (9003, NULL, NULL, NULL, NULL, NULL);
CREATE INDEX ON events (t);
CREATE INDEX ON events (i);
ANALYZE events;
SET jit = off;
SET enable_seqscan = off;
SET varve.enable_aggregate = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE time_bucket('1 hour', t) >= '2024-01-02 00:00+00' AND time_bucket('1 hour', t) < '2024-01-02 00:30+00';
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE time_bucket('1 month', t) = '2024-02-01 00:00+00';
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE '2024-01-02 00:00+00' < time_bucket('1 day', t, 'Europe/Berlin') AND time_bucket('1 day', t, 'Europe/Berlin') <= '2024-01-05 00:00+00';
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE time_bucket(10, i) BETWEEN 15 AND 40;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE time_bucket('1 hour', t) >= now() - interval '1 day' AND time_bucket('1 hour', t) <= now();
EXPLAIN (COSTS OFF) SELECT bucket, count(*) FROM (SELECT time_bucket('1 hour', t) AS bucket FROM events) v WHERE bucket >= '2024-01-02 00:00+00' AND bucket < '2024-01-03 00:00+00' GROUP BY 1;
PREPARE since(timestamptz) AS SELECT count(*) FROM events WHERE time_bucket('1 hour', t) > $1 AND time_bucket('1 hour', t) <= $1 + interval '5 hours';
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE since('2024-01-02');
EXECUTE since('2024-01-02 00:10+00');
-- Of values at the ends of time, whose buckets are out of range.
PREPARE until(timestamp) AS SELECT count(*) FROM events WHERE time_bucket('53 days', ts) <= $1;
EXECUTE until('2024-01-02 00:10');
EXECUTE until('294276-12-31 23:59:59');
EXECUTE until('4714-11-25 BC');
EXECUTE until('infinity');
EXECUTE until('-infinity');
EXECUTE until(NULL);
PREPARE until_zone(timestamptz) AS SELECT count(*) FROM events WHERE time_bucket('1 hour', t) <= $1;
EXPLAIN (COSTS OFF) EXECUTE until_zone('2024-01-02');
EXECUTE until_zone('2024-01-02 00:10+00');
EXECUTE until_zone('294276-12-31 23:59:59+00');
EXECUTE until_zone('4714-11-24 00:00+00 BC');
RESET plan_cache_mode;
EXECUTE since('2024-01-02 00:10+00');

-- An index on the bucket itself stays usable.
CREATE INDEX by_bucket ON events (time_bucket('1 day', ts));
ANALYZE events;
EXPLAIN (COSTS OFF) SELECT * FROM events WHERE time_bucket('1 day', ts) = '2024-01-02';
DROP INDEX by_bucket;

-- The same rows as without: the comparison inside an OR is left alone.
CREATE FUNCTION differing(condition text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM (SELECT id FROM events WHERE %1$s) a FULL JOIN (SELECT id FROM events WHERE (%1$s) OR id = -99999) b USING (id)
                    WHERE a.id IS NULL OR b.id IS NULL', condition) INTO n;
    RETURN n;
END $$;
SELECT count(*) AS cases, sum(differing(format('time_bucket(%s) %s %s', arguments, operator, value))) AS differing
FROM (VALUES ('''1 hour'', t', 'timestamptz'), ('''7 minutes'', t', 'timestamptz'), ('''1 month'', t', 'timestamptz'), ('''1 year'', t', 'timestamptz'), ('''1 day'', t, ''Europe/Berlin''', 'timestamptz'),
             ('''1 hour'', t, ''Australia/Lord_Howe''', 'timestamptz'), ('''1 month'', t, ''America/New_York''', 'timestamptz'), ('''1 week'', ts', 'timestamp'), ('''2 months'', ts', 'timestamp'),
             ('''10 days'', d', 'date'), ('''1 month'', d', 'date')) f(arguments, typ),
     unnest('{<,<=,=,>=,>,<>}'::text[]) operator,
     (SELECT v FROM unnest('{2024-01-01 00:00,2024-01-01 05:00,2024-01-03 12:34:56,2024-02-01,2023-11-26 23:00,2024-03-31 01:00,2024-10-05 16:30,infinity,-infinity}'::text[]) v) x(v),
     LATERAL (SELECT format('%s %L', typ, v) UNION ALL SELECT format('(%s %L + (random() * 0) * interval ''1 day'')::%s', typ, v, typ) WHERE v !~ 'inf' UNION ALL
              SELECT format('(SELECT %s %L)', typ, v)) y(value);
SELECT count(*) AS cases, sum(differing(format('%s %s time_bucket(%s)', value, operator, arguments))) AS differing
FROM (VALUES ('10, i', 'int'), ('7, i', 'int'), ('1000::bigint, b', 'bigint'), ('1::bigint, b', 'bigint')) f(arguments, typ), unnest('{<,<=,=,>=,>,<>}'::text[]) operator,
     LATERAL (SELECT format('%s::%s', v, typ) FROM unnest('{0,10,15,-10,-7,2147483647,-2147483647}'::bigint[]) v) y(value);
-- Conditions of outer joins stay where they are.
SELECT count(*), count(b.id) FROM events a LEFT JOIN events b ON b.id = a.id AND time_bucket('1 day', b.t) = '2024-01-02 00:00+00';
DROP FUNCTION differing;
DROP TABLE events;
