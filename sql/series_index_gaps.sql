-- A session remembers on which page of a series index it has found no chunks under NULLs, a first key, or a cell of first keys. Whatever
-- becomes of that page, look-ups find what a heap has: each step changes the indexes, and all keys are looked up before and behind it.
SET client_min_messages = warning;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET varve.enable_aggregate = off;
SET varve.batch_rows = 100;
CREATE TABLE h_int(k int NOT NULL, time timestamptz NOT NULL, value int, PRIMARY KEY (k, time));
CREATE TABLE h_text(k text NOT NULL, time timestamptz NOT NULL, value int, PRIMARY KEY (k, time));
CREATE TABLE h_two(k bigint, name char(12), time date, value int);
CREATE TABLE h_id(k uuid, time int, value int);
CREATE UNLOGGED TABLE h_small(k smallint, time timestamp, value int);
CREATE TEMP TABLE h_temp(k int NOT NULL, time timestamptz NOT NULL, value int, PRIMARY KEY (k, time));
-- How the number of a series becomes its key, and that of a row its time.
CREATE TABLE twins(heap text, varve text, kind text, key text, time text);
INSERT INTO twins SELECT 'h_' || t, 'v_' || t, kind, key, time FROM (VALUES
    ('int', '', '(s - 100)', '''2026-01-01''::timestamptz + i * interval ''1 min'''),
    ('text', '', '(''series '' || s)', '''2026-01-01''::timestamptz + i * interval ''1 min'''),
    ('two', '', '(CASE WHEN s % 50 > 0 THEN s / 3 END), ''name '' || s', '''2026-01-01''::date + i'),
    ('id', '', '(md5(s::text)::uuid)', 'i'),
    ('small', 'UNLOGGED', '(CASE WHEN s % 70 > 0 THEN s - 32768 END)', '''2026-01-01''::timestamp + i * interval ''1 min'''),
    ('temp', 'TEMP', '(s - 100)', '''2026-01-01''::timestamptz + i * interval ''1 min''')) v(t, kind, key, time);
SELECT format('CREATE %s TABLE %s(LIKE %s) USING varve', kind, varve, heap) FROM twins \gexec
SELECT format('ALTER TABLE %s ADD PRIMARY KEY (k, time)', varve) FROM twins WHERE heap IN ('h_int', 'h_text', 'h_temp') \gexec
CREATE INDEX v_two_series ON v_two USING varve (k, name, time);
CREATE INDEX ON v_id USING varve (k, time);
CREATE INDEX ON v_small USING varve (k, time);
CREATE INDEX ON h_two(k, name, time);
CREATE INDEX ON h_id(k, time);
CREATE INDEX ON h_small(k, time);

-- Rows of each series, oldest and newest, and a few in between, for keys that are there and some that are not.
CREATE FUNCTION looked(t text, keys text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE answer text[];
BEGIN
    EXECUTE format($q$ SELECT array_agg(concat_ws(' ', s.*, newest.*, counted.*) ORDER BY s.n)
        FROM (SELECT s AS n, %2$s FROM generate_series(1, 320, 5) s) s(n, key %3$s),
        LATERAL (SELECT array_agg(x::text) FROM (SELECT * FROM %1$s WHERE %4$s ORDER BY k DESC, time DESC LIMIT 2) x) newest,
        LATERAL (SELECT count(*), sum(value) FROM (SELECT value FROM %1$s WHERE %4$s ORDER BY k, time OFFSET 0) x) counted $q$,
        t, keys, CASE WHEN t LIKE '%\_two' THEN ', name' END,
        CASE WHEN t LIKE '%\_two' THEN 'k = s.key AND name = s.name::char(12)' ELSE 'k = s.key' END) INTO answer;
    RETURN answer;
END $$;
-- The same of aggregates of columns: whole series, and the newer half of the times of all.
CREATE FUNCTION aggregated(t text, keys text) RETURNS text[] LANGUAGE plpgsql SET varve.enable_aggregate = on AS $$
DECLARE answer text[];
BEGIN
    EXECUTE format($q$ SELECT array_agg(concat_ws(' ', s.*, whole.*, newer.*) ORDER BY s.n)
        FROM (SELECT s AS n, %2$s FROM generate_series(1, 320, 5) s) s(n, key %3$s),
        LATERAL (SELECT count(*), sum(value), max(time) FROM %1$s WHERE %4$s) whole,
        LATERAL (SELECT count(*), sum(value), min(time) FROM %1$s WHERE %4$s AND time >= (SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY time) FROM %5$s)) newer $q$,
        t, keys, CASE WHEN t LIKE '%\_two' THEN ', name' END,
        CASE WHEN t LIKE '%\_two' THEN 'k = s.key AND name = s.name::char(12)' ELSE 'k = s.key' END, replace(t, 'v_', 'h_')) INTO answer;
    RETURN answer;
END $$;
CREATE VIEW differences AS SELECT heap FROM twins WHERE looked(heap, key) IS DISTINCT FROM looked(varve, key)
    OR aggregated(heap, key) IS DISTINCT FROM aggregated(varve, key);
-- The keys of every 40th row are taken, and no others.
CREATE FUNCTION refused(t text) RETURNS TABLE(tried bigint, taken bigint) LANGUAGE plpgsql AS $$
DECLARE row record;
BEGIN
    tried := 0;
    taken := 0;
    FOR row IN EXECUTE format('SELECT k::text, time::text FROM (SELECT *, row_number() OVER (ORDER BY k, time) AS n FROM %s) s WHERE n %% 40 = 1', replace(t, 'v_', 'h_')) LOOP
        tried := tried + 1;
        BEGIN
            EXECUTE format('INSERT INTO %s VALUES (%L, %L, -1)', t, row.k, row.time);
        EXCEPTION WHEN unique_violation THEN
            taken := taken + 1;
        END;
    END LOOP;
    RETURN NEXT;
END $$;
CREATE VIEW keys AS SELECT varve, tried > 0 AS tried, tried = taken AS taken FROM twins, refused(varve) WHERE varve IN ('v_int', 'v_text', 'v_temp');
-- Rows i of every series s that is a multiple of something.
CREATE FUNCTION load(t text, keys text, times text, per_series int4range, every int, statement text) RETURNS text LANGUAGE sql AS
$$ SELECT format('INSERT INTO %s SELECT %s, %s, s + i FROM generate_series(1, 320) s, generate_series(%s, %s) i WHERE s %% %s = 0 %s',
    t, keys, times, lower(per_series), upper(per_series) - 1, every, statement) $$;

-- Indexes without a page, then of one page, with rows that are entered one by one.
SELECT * FROM differences;
SET varve.batch_rows = 1000000;
SELECT load(t, key, time, '[1,3)', 20, '') FROM twins, LATERAL (VALUES (heap), (varve)) v(t) \gexec
SELECT * FROM differences;
SELECT * FROM keys;
-- A batch of one series, then of many, in that order.
SET varve.batch_rows = 100;
SELECT load(t, key, time, '[10,300)', 1, 'AND s = 96') FROM twins, LATERAL (VALUES (heap), (varve)) v(t) \gexec
SELECT * FROM differences;
SELECT load(t, key, time, '[300,303)', 5, '') FROM twins, LATERAL (VALUES (heap), (varve)) v(t) \gexec
SELECT * FROM differences;
SELECT * FROM keys;
SELECT format('CALL varve.compact(%L)', varve) FROM twins \gexec
SELECT * FROM differences;
SELECT * FROM keys;
-- Pages that split: rows that are entered one by one, of all series.
SET varve.batch_rows = 1000000;
SELECT load(t, key, time, '[400,410)', 1, '') FROM twins, LATERAL (VALUES (heap), (varve)) v(t) \gexec
SELECT * FROM differences;
SELECT load(t, key, time, '[410,440)', 3, '') FROM twins, LATERAL (VALUES (heap), (varve)) v(t) \gexec
SELECT * FROM differences;
SELECT * FROM keys;
-- Pages that are deleted, and used again for others.
SELECT format('DELETE FROM %s WHERE value %% 97 > 0', t) FROM twins, LATERAL (VALUES (heap), (varve)) v(t) \gexec
SELECT * FROM differences;
SELECT format('VACUUM %s', varve) FROM twins \gexec
SELECT * FROM differences;
SELECT format('VACUUM %s', varve) FROM twins \gexec
SELECT load(t, key, time, '[500,530)', 2, '') FROM twins, LATERAL (VALUES (heap), (varve)) v(t) \gexec
SELECT * FROM differences;
SELECT * FROM keys;
SET varve.batch_rows = 100;
SELECT load(t, key, time, '[600,603)', 1, '') FROM twins, LATERAL (VALUES (heap), (varve)) v(t) \gexec
SELECT * FROM differences;
SELECT * FROM keys;
SELECT format('CALL varve.compact(%L)', varve) FROM twins \gexec
SELECT format('VACUUM %s', varve) FROM twins \gexec
SELECT * FROM differences;
SELECT * FROM keys;
-- So many chunks under NULL that they have pages to themselves, of which VACUUM leaves the last one, empty; then some more.
DO $$
DECLARE statement text;
BEGIN
    FOR statement IN SELECT load(t, key, time, int4range(700 + b, 701 + b), 1, '') FROM twins, LATERAL (VALUES (heap), (varve)) v(t), generate_series(0, 399) b WHERE heap = 'h_text' LOOP
        EXECUTE statement;
    END LOOP;
END $$;
SELECT * FROM differences;
CALL varve.compact('v_text');
VACUUM v_text;
SELECT * FROM differences;
SELECT * FROM differences;
SELECT load(t, key, time, '[1200,1202)', 1, '') FROM twins, LATERAL (VALUES (heap), (varve)) v(t) WHERE heap = 'h_text' \gexec
SELECT * FROM differences;
SELECT * FROM keys;
-- Other files.
SELECT format('REINDEX TABLE %s', varve) FROM twins \gexec
SELECT * FROM differences;
SELECT format('TRUNCATE %s, %s', heap, varve) FROM twins \gexec
SELECT * FROM differences;
SELECT load(t, key, time, '[1,4)', 1, '') FROM twins, LATERAL (VALUES (heap), (varve)) v(t) \gexec
SELECT * FROM differences;
SELECT * FROM keys;
-- What a transaction enters and takes back.
BEGIN;
SAVEPOINT s;
SELECT load(t, key, time, '[10,14)', 1, '') FROM twins, LATERAL (VALUES (heap), (varve)) v(t) \gexec
SELECT * FROM differences;
ROLLBACK TO s;
SELECT * FROM differences;
SELECT format('TRUNCATE %s, %s', heap, varve) FROM twins \gexec
SELECT load(t, key, time, '[20,24)', 1, '') FROM twins, LATERAL (VALUES (heap), (varve)) v(t) \gexec
SELECT * FROM differences;
ROLLBACK;
SELECT * FROM differences;
SELECT * FROM keys;
SELECT varve, v.* FROM twins, LATERAL varve.verify(varve::regclass) v;
DROP TABLE h_int, h_text, h_two, h_id, h_small, h_temp, v_int, v_text, v_two, v_id, v_small, v_temp, twins CASCADE;
DROP FUNCTION looked, aggregated, refused, load;
-- A chunk of one series, entered under its first key, and then under its key: rows of the series before it, with it, between its rows and behind them.
CREATE TABLE one(time timestamptz, sensor int, value float8, PRIMARY KEY (sensor, time)) USING varve;
CREATE FUNCTION entered() RETURNS TABLE(seconds int, entered boolean) LANGUAGE plpgsql AS $$ BEGIN
    FOREACH seconds IN ARRAY ARRAY[-1, 0, 1, 19999, 20000, 39999, 40000, 40001] LOOP
        BEGIN
            INSERT INTO one VALUES ('2026-01-01'::timestamptz + seconds * interval '1 s', 7, -1);
            entered := true;
        EXCEPTION WHEN unique_violation THEN
            entered := false;
        END;
        RETURN NEXT;
    END LOOP;
END $$;
SELECT * FROM entered();
TRUNCATE one;
INSERT INTO one SELECT '2026-01-01'::timestamptz + i * interval '2 s', 7, i FROM generate_series(0, 20000) i;
SELECT rows, keyed FROM varve.chunks('one');
SELECT * FROM entered();
SELECT count(*) FROM entered() WHERE entered;
CALL varve.compact('one');
SELECT count(*) FROM entered() WHERE entered;
SELECT count(*), sum(value) FROM one;
SELECT * FROM varve.verify('one');
DROP TABLE one;
DROP FUNCTION entered;
