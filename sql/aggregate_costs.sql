-- A long series has an entry of the series index for each 1,024 rows. The planner takes these for no chunks: it has one of them opened for a
-- day of a series, and folds the day from columns.
SET max_parallel_workers_per_gather = 0;
CREATE TABLE long_series (time timestamptz NOT NULL, sensor int NOT NULL, value float8) USING varve WITH (autovacuum_enabled = off);
CREATE INDEX ON long_series USING varve (sensor, time);
INSERT INTO long_series SELECT '2026-01-01Z'::timestamptz + n / 10 * interval '1 minute', n % 10, hashint8(n) / 7.0 FROM generate_series(0, 299999) n;
CALL varve.compact('long_series');
VACUUM ANALYZE long_series;
EXPLAIN (COSTS OFF) SELECT max(value) FROM long_series WHERE sensor = 7 AND time >= '2026-01-03Z' AND time < '2026-01-04Z';
EXPLAIN (COSTS OFF) SELECT max(value) FROM long_series WHERE sensor = 7;
-- Rows themselves are chosen by columns too; those of an hour come by the index.
EXPLAIN (COSTS OFF) SELECT * FROM long_series WHERE sensor = 7 AND time >= '2026-01-03Z' AND time < '2026-01-04Z';
EXPLAIN (COSTS OFF) SELECT * FROM long_series WHERE sensor = 7 AND time >= '2026-01-03 10:00Z' AND time < '2026-01-03 11:00Z';

-- Buckets of time are as many as lie between the first and the last time that conditions and statistics leave.
CREATE FUNCTION groups_expected(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    plan jsonb;
    expected float8;
    actual float8;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
    EXECUTE format('SELECT count(*) FROM (%s) AS q', query) INTO actual;
    expected := plan #>> '{0,Plan,Plan Rows}';
    RETURN CASE
        WHEN plan::text NOT LIKE '%VarveAggregate%' THEN 'no node of ours'
        WHEN expected BETWEEN actual / 1.5 AND actual * 1.5 THEN 'as many as there are'
        ELSE format('%s, but there are %s', expected, actual)
    END;
END $$;
SELECT query, groups_expected(query) FROM (VALUES
    ('SELECT time_bucket(''1 hour'', time), sensor, max(value) FROM long_series WHERE time >= ''2026-01-03Z'' AND time < ''2026-01-05Z'' GROUP BY 1, 2'),
    ('SELECT date_trunc(''day'', time), avg(value) FROM long_series GROUP BY 1'),
    ('SELECT date_bin(''15 minutes'', time, ''2026-01-01Z''), count(*) FROM long_series WHERE ''2026-01-20Z'' < time GROUP BY 1'),
    ('SELECT floor(extract(epoch from time) / 600) * 600, sum(value) FROM long_series WHERE sensor = 3 AND time BETWEEN ''2026-01-03Z'' AND ''2026-01-04Z'' GROUP BY 1'),
    ('SELECT time_bucket(''1 week'', time), date_trunc(''day'', time), sensor, min(value) FROM long_series GROUP BY 1, 2, 3'),
    ('SELECT time_bucket(''1 day'', time, ''Europe/Berlin''), sensor, count(*) FROM long_series GROUP BY 1, 2'),
    ('SELECT time::date, sensor, count(*) FROM long_series GROUP BY 1, 2'),
    ('SELECT time_bucket(''10 minutes'', time AT TIME ZONE ''Asia/Kolkata''), count(*) FROM long_series WHERE time < ''2026-01-01Z''::timestamptz + interval ''1 day'' GROUP BY 1'),
    ('SELECT extract(epoch from time)::int8 / 3600, sensor, count(*) FROM long_series GROUP BY 1, 2')
) AS queries (query);
-- So few are hashed.
EXPLAIN (COSTS OFF) SELECT time_bucket('1 hour', time), sensor, max(value) FROM long_series GROUP BY 1, 2;

-- The same of four thousand short series that share chunks: one is looked for in the chunk that has it.
CREATE TABLE shared_chunks (time timestamptz NOT NULL, sensor int NOT NULL, value float8) USING varve WITH (autovacuum_enabled = off);
CREATE INDEX ON shared_chunks USING varve (sensor, time);
INSERT INTO shared_chunks SELECT '2026-01-01Z'::timestamptz + n / 4000 * interval '1 minute', n % 4000, hashint8(n) / 7.0 FROM generate_series(0, 299999) n;
CALL varve.compact('shared_chunks');
VACUUM ANALYZE shared_chunks;
EXPLAIN (COSTS OFF) SELECT * FROM shared_chunks WHERE sensor = 7;
EXPLAIN (COSTS OFF) SELECT max(value) FROM shared_chunks WHERE sensor < 3000;
DROP TABLE long_series, shared_chunks;
DROP FUNCTION groups_expected;
