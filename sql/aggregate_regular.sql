-- Times that are equally far apart are not decoded: conditions on them and buckets choose rows by arithmetic, as a heap does row by row.
SET timezone = 'UTC';
SET max_parallel_workers_per_gather = 0;
-- Some groups are so fine that to make them row by row costs as much.
SET varve.enable_scan = off;
SET enable_seqscan = off;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
SET jit = off;
CREATE TABLE h(host int NOT NULL, time timestamptz NOT NULL, number bigint, falling bigint, a float8, day date) USING heap;
-- Hosts 0 to 2 every ten seconds, 3 with gaps and late rows, 4 with the ends of time, 5 twice at a time.
INSERT INTO h SELECT host, '2026-01-01'::timestamptz + i * interval '10 s', i * 7 - 9000, 5000 - i, CASE WHEN i % 17 > 0 THEN i % 500 / 4.0 END, '2026-01-01'::date + i / 100
    FROM generate_series(0, 4999) i, generate_series(0, 2) host;
INSERT INTO h SELECT 3, '2026-01-01'::timestamptz + i * interval '10 s' + (i % 7) * interval '1 s', i, -i, i, '2026-01-01' FROM generate_series(0, 2999) i WHERE i % 11 > 0;
INSERT INTO h SELECT 4, CASE i WHEN 0 THEN '-infinity' WHEN 1999 THEN 'infinity' ELSE '2026-01-01'::timestamptz + i * interval '1 min' END, i, i, i, '2026-01-01' FROM generate_series(0, 1999) i;
INSERT INTO h SELECT 5, '2026-01-01'::timestamptz + i / 2 * interval '10 s', 3, 3, i, '2026-01-01' FROM generate_series(0, 1999) i;
CREATE TABLE v(LIKE h) USING varve;
CREATE INDEX ON v USING varve (host, time);
SET varve.batch_rows = 1;
INSERT INTO v SELECT * FROM h;
RESET varve.batch_rows;
VACUUM ANALYZE h, v;

-- Is what a query finds in both tables the same, and by the node?
CREATE FUNCTION same(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    line text; found text; other text; node bool := false;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || replace(query, '{t}', 'v') LOOP
        node := node OR line LIKE '%VarveAggregate%';
    END LOOP;
    IF NOT node THEN RAISE NOTICE 'without the node: %', query; END IF;
    EXECUTE format('SELECT md5(string_agg(d::text, '','' ORDER BY d::text)) FROM (%s) d', replace(query, '{t}', 'h')) INTO found;
    EXECUTE format('SELECT md5(string_agg(d::text, '','' ORDER BY d::text)) FROM (%s) d', replace(query, '{t}', 'v')) INTO other;
    RETURN found IS NOT DISTINCT FROM other;
END $$;
-- Conditions at, between and beside the times that there are, and beyond all of them.
SELECT operator, bool_and(same(format('SELECT host, count(*), sum(number), max(a), min(time) FROM {t} WHERE time %s %L GROUP BY host', operator, at))) AS same
    FROM unnest(ARRAY['<', '<=', '=', '>=', '>', '<>']) operator,
        unnest(ARRAY['2026-01-01', '2026-01-01 02:50:40', '2026-01-01 02:50:41', '2026-01-01 02:50:49.999999', '2026-01-01 13:53:10', '2025-01-01', '2027-01-01', 'infinity', '-infinity']) at
    GROUP BY operator ORDER BY operator;
SELECT operator, bool_and(same(format('SELECT host, count(*), sum(falling), max(time) FROM {t} WHERE number %s %s OR falling %s %s GROUP BY host', operator, at, operator, at))) AS same
    FROM unnest(ARRAY['<', '<=', '=', '>=', '>', '<>']) operator, unnest(ARRAY[-9000, -8999, 0, 3, 1000, 25993, 99999]) at
    GROUP BY operator ORDER BY operator;
-- Buckets: narrower than a step, as wide, no multiple of it, wider than a block and than everything; days; in two widths at a time.
SELECT width, same(format('SELECT time_bucket(%L, time) b, host, count(*), count(a), sum(number), max(a), min(time) FROM {t} GROUP BY 1, 2', width)) AS all,
    same(format('SELECT time_bucket(%L, time) b, avg(number), max(time) FROM {t} WHERE host < 3 AND time BETWEEN ''2026-01-01 01:00:05'' AND ''2026-01-01 09:10'' GROUP BY 1', width)) AS some,
    same(format('SELECT time_bucket(%L, time) b, count(*), sum(number) FROM {t} WHERE number %% 3 = 0 GROUP BY 1', width)) AS thirds,
    same(format('SELECT time_bucket(%L, time, ''2026-01-01 00:00:03''::timestamptz) b, count(*) FROM {t} WHERE host <> 4 GROUP BY 1', width)) AS origin
    FROM unnest(ARRAY['3 s', '10 s', '77 s', '1 hour', '5 hours', '1 day', '1000 years']::interval[]) width;
SELECT same('SELECT time_bucket(''1 min'', time), time_bucket(''7 min'', time), time_bucket(100, number), count(*) FROM {t} GROUP BY 1, 2, 3');
SELECT same('SELECT floor(extract(epoch from time) / 300) * 300, host, count(*), max(number) FROM {t} WHERE host <> 4 GROUP BY 1, 2');
SELECT same('SELECT date_trunc(''hour'', time), count(*), min(number) FROM {t} GROUP BY 1');
SELECT same('SELECT time_bucket(''1 month'', time), count(*) FROM {t} GROUP BY 1');
SELECT same('SELECT time, number, count(*), sum(falling), max(time) FROM {t} GROUP BY 1, 2');
SELECT same('SELECT number / 10, count(*), max(falling) FROM {t} WHERE falling > 100 GROUP BY 1');
SELECT same('SELECT host, max(time), min(time), max(number), sum(number) FROM {t} WHERE time > ''2026-01-01 00:30'' AND a > 20 GROUP BY 1');
-- The same after compact, with rows that are gone.
CALL varve.compact('v');
DELETE FROM h WHERE number % 50 = 1;
DELETE FROM v WHERE number % 50 = 1;
SELECT width, same(format('SELECT time_bucket(%L, time) b, host, count(*), count(a), sum(number), max(a) FROM {t} WHERE time > ''2026-01-01 00:20:05'' GROUP BY 1, 2', width)) AS same
    FROM unnest(ARRAY['3 s', '77 s', '1 hour', '1 day']::interval[]) width;
SELECT same('SELECT floor(extract(epoch from time) / 300) * 300, host, count(*), max(number) FROM {t} WHERE host <> 4 GROUP BY 1, 2');
-- Buckets with an offset: of months, by which the last days of a longer month become one day, and of days, by which the clock of a zone is read at
-- another time than the row's.
INSERT INTO h SELECT 6, '2026-03-28'::timestamptz + i * interval '10 min', i, i, i, '2026-01-01' FROM generate_series(0, 467) i;
INSERT INTO h SELECT 7, '2010-11-17 02:00'::timestamptz + i * interval '10 s', i, i, i, '2026-01-01' FROM generate_series(0, 479) i;
SET varve.batch_rows = 1;
INSERT INTO v SELECT * FROM h WHERE host > 5;
RESET varve.batch_rows;
SELECT moved, same(format('SELECT time_bucket(''6 hours'', time, %L::interval) b, host, count(*), max(number) FROM {t} GROUP BY 1, 2', moved)) AS same,
    same(format('SELECT time_bucket(''1 day'', time, ''America/St_Johns'', NULL, %L) b, host, count(*), max(number) FROM {t} GROUP BY 1, 2', moved)) AS zoned
    FROM unnest(ARRAY['1 month', '-2 years', '10 days', '-7 hours']) moved;
DROP TABLE h, v;
DROP FUNCTION same;
