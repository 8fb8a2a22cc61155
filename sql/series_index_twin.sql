-- Random scans of a series index against a heap twin with a btree index: same rows, same order, whatever happened before.
SET varve.enable_aggregate = off;
-- Each SELECT of series_rounds() lists queries that differed or did not use the index: none.
SET client_min_messages = warning;
CREATE TABLE tv (id int, k1 text, k2 int, t timestamptz, v float8) USING varve;
CREATE TABLE th (LIKE tv) USING heap;
CREATE INDEX ON tv USING varve (k1, k2, t);
CREATE INDEX ON th (k1, k2, t);
CREATE SEQUENCE series_ids;
CREATE FUNCTION on_twins(statement text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE replace(statement, '{t}', 'tv');
    EXECUTE replace(statement, '{t}', 'th');
END $$;

-- Rows of 24 series, some with NULLs, within 4,000 seconds.
CREATE FUNCTION load(rows int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    CREATE TEMP TABLE batch ON COMMIT DROP AS
        SELECT nextval('series_ids')::int AS id,
            CASE WHEN random() < 0.03 THEN NULL ELSE 'h' || (random() * 5)::int END AS k1,
            CASE WHEN random() < 0.03 THEN NULL ELSE (random() * 3)::int END AS k2,
            CASE WHEN random() < 0.02 THEN NULL ELSE '2024-01-01'::timestamptz + (random() * 4000)::int * interval '1 s' END AS t,
            random() AS v
        FROM generate_series(1, rows);
    PERFORM on_twins('INSERT INTO {t} SELECT * FROM batch');
    DROP TABLE batch;
END $$;

CREATE FUNCTION random_key_qual() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    host text := 'h' || (random() * 5)::int;
    other text := 'h' || (random() * 5)::int;
    region int := (random() * 3)::int;
BEGIN
    RETURN CASE (random() * 12)::int
        WHEN 0 THEN format('k1 = %L', host)
        WHEN 1 THEN format('k1 IN (%L, %L) AND k2 = %s', host, other, region)
        WHEN 2 THEN format('k1 > %L', host)
        WHEN 3 THEN format('k1 BETWEEN %L AND %L AND k2 >= %s', least(host, other), greatest(host, other), region)
        WHEN 4 THEN 'k1 IS NULL'
        WHEN 5 THEN 'k1 IS NOT NULL AND k2 = ' || region
        WHEN 6 THEN format('k1 = %L AND k2 IS NULL', host)
        WHEN 7 THEN format('k1 = ANY (''{h1,h3,NULL,h2}'') AND k2 IN (1, %s)', region)
        WHEN 8 THEN 'true'
        ELSE format('k1 = %L AND k2 = %s', host, region)
    END;
END $$;

CREATE FUNCTION random_time_qual() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    at text := format('''2024-01-01''::timestamptz + interval ''%s s''', (random() * 4000)::int);
    quals text := 'true';
BEGIN
    IF random() < 0.05 THEN RETURN 't IS NULL'; END IF;
    IF random() < 0.08 THEN RETURN 't = ' || at; END IF;
    IF random() < 0.08 THEN RETURN format('t IN (%s, ''2024-01-01 00:20'', ''2024-01-01 00:30'')', at); END IF;
    IF random() < 0.6 THEN quals := quals || format(' AND t %s %s', CASE WHEN random() < 0.5 THEN '>' ELSE '>=' END, at); END IF;
    IF random() < 0.6 THEN
        quals := quals || format(' AND t %s %s + interval ''%s s''', CASE WHEN random() < 0.5 THEN '<' ELSE '<=' END, at, (random() * 2000)::int);
    END IF;
    RETURN quals;
END $$;

CREATE FUNCTION random_query() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN format('SELECT k1, k2, t FROM {t} WHERE %s AND %s', random_key_qual(), random_time_qual())
        || CASE WHEN random() < 0.5 THEN ' ORDER BY k1, k2, t' ELSE ' ORDER BY k1 DESC, k2 DESC, t DESC' END
        || CASE WHEN random() < 0.3 THEN ' LIMIT ' || (random() * 50)::int ELSE '' END;
END $$;

CREATE FUNCTION series_rounds(rounds int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    query text;
    line text;
    used boolean;
    answers text[];
    answer text;
    relation text;
BEGIN
    SET LOCAL enable_seqscan = off;
    SET LOCAL enable_bitmapscan = off;
    SET LOCAL enable_sort = off;
    FOR round IN 1 .. rounds LOOP
        query := random_query();
        used := false;
        FOR line IN EXECUTE 'EXPLAIN ' || replace(query, '{t}', 'tv') LOOP
            used := used OR line LIKE '%Index Scan%';
        END LOOP;
        IF NOT used THEN RETURN NEXT 'without the index: ' || query; END IF;
        answers := '{}';
        FOREACH relation IN ARRAY ARRAY['tv', 'th'] LOOP
            EXECUTE format('SELECT count(*) || md5(string_agg(x::text, '','')) FROM (%s) x', replace(query, '{t}', relation)) INTO answer;
            answers := answers || answer;
        END LOOP;
        IF answers[1] IS DISTINCT FROM answers[2] THEN RETURN NEXT 'differs: ' || query; END IF;
    END LOOP;
END $$;

SELECT setseed(0.5);
-- Chunks of one batch; a tail over them; changes of both.
SELECT load(6000);
SELECT series_rounds(50);
SET varve.batch_rows = 1000000;
SELECT load(1500);
RESET varve.batch_rows;
SELECT series_rounds(50);
SELECT on_twins('DELETE FROM {t} WHERE id % 7 = 3');
SELECT on_twins('UPDATE {t} SET v = v + 1 WHERE id % 11 = 3');
SELECT on_twins('UPDATE {t} SET t = t + interval ''7 s'' WHERE id % 13 = 3');
SELECT series_rounds(50);
BEGIN;
SELECT on_twins('DELETE FROM {t} WHERE id % 17 = 3');
SELECT series_rounds(20);
ROLLBACK;
SELECT series_rounds(20);
REINDEX TABLE tv;
SELECT series_rounds(20);
REINDEX TABLE CONCURRENTLY tv;
SELECT series_rounds(20);
VACUUM tv;
SELECT series_rounds(20);

-- Merged: several keyed chunks a series; then late rows, small batches and changes; then series that share chunks.
SET varve.chunk_rows = 120;
CALL varve.compact('tv');
SELECT series_rounds(100);
SELECT load(700);
SET varve.batch_rows = 1000000;
SELECT load(700);
RESET varve.batch_rows;
SELECT series_rounds(100);
SELECT on_twins('DELETE FROM {t} WHERE id % 19 = 3');
SELECT on_twins('UPDATE {t} SET t = t + interval ''7 s'' WHERE id % 23 = 3');
SELECT on_twins('DELETE FROM {t} WHERE k1 = ''h2'' AND k2 = 1');
SELECT series_rounds(50);
RESET varve.chunk_rows;
CALL varve.compact('tv');
SELECT series_rounds(100);
SELECT load(1000);
REINDEX TABLE CONCURRENTLY tv;
SELECT series_rounds(50);
CALL varve.compact('tv');
SELECT series_rounds(50);
SELECT * FROM varve.verify('tv');
SELECT count(*) FROM (SELECT * FROM tv EXCEPT ALL SELECT * FROM th) x;
DROP TABLE tv, th;
DROP SEQUENCE series_ids;
DROP FUNCTION on_twins, load, random_key_qual, random_time_qual, random_query, series_rounds;
