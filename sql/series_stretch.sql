-- Many short series whose keys are texts, or integers far apart: each has an entry, and those that lie one behind the other in a chunk are passed by
-- together. Beside a heap, in both directions: series that have rows elsewhere too, long ones with steps, deleted and changed rows, NULL keys.
SET client_min_messages = warning;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET varve.enable_aggregate = off;
SET jit = off;
CREATE VIEW twins AS SELECT 'h_' || t AS heap, 'v_' || t AS varve, k AS keys
    FROM unnest('{one,text,far,two,nulls,late,apart,zero}'::text[], '{k,k,k,"k, name",k,k,k,k}'::text[]) s(t, k);
CREATE TABLE h_one(k text NOT NULL, time timestamptz NOT NULL, value int);
CREATE TABLE h_text(k text NOT NULL, time timestamptz NOT NULL, value int);
CREATE TABLE h_far(k bigint NOT NULL, time timestamptz NOT NULL, value int);
CREATE TABLE h_two(k int NOT NULL, name varchar(40) NOT NULL, time bigint NOT NULL, value int);
CREATE TABLE h_nulls(k text, time int, value int);
CREATE TABLE h_late(k text NOT NULL, time timestamptz NOT NULL, value int);
CREATE TABLE h_apart(k text, time int, value int);
CREATE TABLE h_zero(k bigint, time int, value int);
SELECT format('CREATE TABLE %s(LIKE %s) USING varve', varve, heap), format('CREATE INDEX ON %s USING varve (%s, time)', varve, keys),
    format('CREATE INDEX ON %s (%s, time)', heap, keys) FROM twins \gexec
-- One row of each series.
INSERT INTO h_one SELECT 'key ' || n, '2026-01-01'::timestamptz + n * interval '1 min', n FROM generate_series(1, 12000) n;
-- One to four rows of each series; some are longer than a block, and one has steps.
INSERT INTO h_text SELECT 'key ' || n, '2026-01-01'::timestamptz + i * interval '1 min', n + i FROM generate_series(1, 3000) n,
    generate_series(1, CASE WHEN n = 1500 THEN 5000 WHEN n % 500 = 0 THEN 1100 ELSE 1 + n % 4 END) i;
INSERT INTO h_far SELECT n * 1000003, '2026-01-01'::timestamptz + i * interval '1 min', n + i FROM generate_series(-1500, 1500) n,
    generate_series(1, CASE WHEN n = 700 THEN 5000 WHEN n % 500 = 0 THEN 1100 ELSE 1 + abs(n) % 4 END) i;
INSERT INTO h_two SELECT n / 3 * 500, 'name ' || n % 3 || repeat('é', n % 5), i, n FROM generate_series(1, 3000) n, generate_series(1, 1 + n % 4) i;
INSERT INTO h_nulls SELECT CASE WHEN n % 101 > 0 THEN 'key ' || n END, CASE WHEN n % 103 > 0 OR i > 1 THEN n * 10 + i END, n
    FROM generate_series(1, 3000) n, generate_series(1, 1 + n % 3) i;
-- Some of these series have rows in other chunks, before and behind those of the first one, and in the tail.
INSERT INTO h_late SELECT 'key ' || n, '2026-01-01'::timestamptz + i * interval '1 min', n * 8 + i FROM generate_series(1, 3000) n,
    generate_series(0, n % 8) i;
-- The last series of a chunk is followed by one whose key is NULL, and which has rows in the tail alone.
INSERT INTO h_apart SELECT CASE WHEN n > 0 THEN 'key ' || n END, n * 10 + i, n FROM generate_series(-20, 1500) n, generate_series(1, 2) i;
INSERT INTO h_zero SELECT CASE WHEN n <= 0 THEN n * 1000003 END, n * 10 + i, n FROM generate_series(-1500, 20) n, generate_series(1, 2) i;
SELECT format('INSERT INTO %s SELECT * FROM %s', varve, heap), format('CALL varve.compact(%L)', varve) FROM twins
    WHERE heap NOT IN ('h_late', 'h_apart', 'h_zero') \gexec
INSERT INTO v_apart SELECT * FROM h_apart WHERE k IS NOT NULL;
INSERT INTO v_zero SELECT * FROM h_zero WHERE k IS NOT NULL;
CALL varve.compact('v_apart');
CALL varve.compact('v_zero');
INSERT INTO v_late SELECT * FROM h_late WHERE value % 8 BETWEEN 1 AND 4;
CALL varve.compact('v_late');
INSERT INTO v_late SELECT * FROM h_late WHERE value % 8 = 5 AND value % 3 > 0;
SET varve.fresh_chunks = 0;
INSERT INTO v_apart SELECT * FROM h_apart WHERE k IS NULL;
INSERT INTO v_zero SELECT * FROM h_zero WHERE k IS NULL;
INSERT INTO v_late SELECT * FROM h_late WHERE value % 8 = 5 AND value % 3 = 0 OR value % 8 = 6 AND value % 5 = 0;
INSERT INTO v_late SELECT * FROM h_late WHERE value % 8 = 6 AND value % 5 > 0 OR value % 8 = 7 OR value % 8 = 0;
RESET varve.fresh_chunks;
ANALYZE;

-- The index is read rather than all rows sorted, where nobody asks for anything else.
RESET enable_seqscan;
EXPLAIN (COSTS OFF) SELECT * FROM v_one ORDER BY k, time;
EXPLAIN (COSTS OFF) SELECT * FROM v_one ORDER BY k DESC, time DESC;
SET enable_seqscan = off;
SET enable_sort = off;
SET enable_incremental_sort = off;

\set ECHO none
\i sql/include/rows_of.psql
\set ECHO all
-- The queries that differ from a heap's, and how many there were.
CREATE FUNCTION compare() RETURNS TABLE(queries bigint, differ text[]) LANGUAGE sql AS $$
    SELECT count(*), array_agg(query) FILTER (WHERE rows_of(query, heap) IS DISTINCT FROM rows_of(query, varve))
    FROM twins, LATERAL unnest(ARRAY[keys, replace(keys, ',', ' DESC,') || ' DESC'], ARRAY['time', 'time DESC']) o(keys_way, time_way),
        unnest(ARRAY[
            'SELECT * FROM {t} ORDER BY %s, %s',
            'SELECT * FROM {t} ORDER BY %s, %s LIMIT 900',
            'SELECT * FROM {t} ORDER BY %s, %s LIMIT 700 OFFSET 1234',
            'SELECT * FROM {t} WHERE value %% 7 = 3 ORDER BY %s, %s LIMIT 300',
            'SELECT * FROM {t} WHERE k > (SELECT k FROM {t} ORDER BY k LIMIT 1 OFFSET 300) ORDER BY %s, %s LIMIT 1700',
            'SELECT g, x.* FROM generate_series(1, 5) g, LATERAL (SELECT * FROM {t} ORDER BY %s, %s LIMIT 300 * g OFFSET 40 * g) x'
        ]) f, LATERAL (SELECT format(f, keys_way, time_way)) q(query) $$;
SELECT * FROM compare();

-- Changes: of single rows, which write notes; of whole series; of many rows; of rows of the tail. First in a transaction that is undone.
CREATE PROCEDURE change(what text) LANGUAGE plpgsql AS $$
DECLARE twin record;
BEGIN
    FOR twin IN SELECT * FROM twins LOOP
        EXECUTE replace(what, '{t}', twin.heap);
        EXECUTE replace(what, '{t}', twin.varve);
    END LOOP;
END $$;
BEGIN;
CALL change('DELETE FROM {t} WHERE value % 10 < 3');
SELECT * FROM compare();
ROLLBACK;
SELECT * FROM compare();
CALL change('DELETE FROM {t} WHERE value IN (40, 41, 42, 1001, 1602, 1603)');
CALL change('UPDATE {t} SET value = value + 1 WHERE value IN (90, 700, 1200)');
SELECT * FROM compare();
CALL change('DELETE FROM {t} WHERE value BETWEEN 500 AND 900');
SELECT * FROM compare();

-- Cursors: what a snapshot saw stays, and who turns round finds the same rows again.
BEGIN;
DECLARE of_heap SCROLL CURSOR FOR SELECT * FROM h_text ORDER BY k, time;
DECLARE of_varve SCROLL CURSOR FOR SELECT * FROM v_text ORDER BY k, time;
CREATE FUNCTION fetched(way text) RETURNS TABLE(rows bigint, same bool) LANGUAGE plpgsql AS $$
DECLARE heap refcursor := 'of_heap'; varve refcursor := 'of_varve'; a record; b record;
BEGIN
    rows := 0;
    same := true;
    FOR i IN 1..1500 LOOP
        IF way = 'forward' THEN
            FETCH NEXT FROM heap INTO a;
            FETCH NEXT FROM varve INTO b;
        ELSE
            FETCH PRIOR FROM heap INTO a;
            FETCH PRIOR FROM varve INTO b;
        END IF;
        EXIT WHEN a IS NULL AND b IS NULL;
        rows := rows + 1;
        same := same AND a IS NOT DISTINCT FROM b;
    END LOOP;
    RETURN NEXT;
END $$;
SELECT * FROM fetched('forward');
CALL change('DELETE FROM {t} WHERE value % 3 = 0');
SELECT * FROM fetched('forward');
SELECT * FROM fetched('backward');
SELECT * FROM fetched('forward');
COMMIT;
SELECT * FROM compare();
SELECT format('CALL varve.compact(%L)', varve) FROM twins \gexec
SELECT * FROM compare();
SELECT format('SELECT * FROM varve.verify(%L)', varve) FROM twins \gexec
DROP VIEW twins CASCADE;
DROP TABLE h_one, h_text, h_far, h_two, h_nulls, h_late, v_one, v_text, v_far, v_two, v_nulls, v_late,
    h_apart, h_zero, v_apart, v_zero;
DROP PROCEDURE change;
DROP FUNCTION rows_of, fetched;
