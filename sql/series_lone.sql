-- Ordered scans over series that are in one place, and over others between them: in both directions, whole and in part, as in a heap.
SET client_min_messages = warning;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET enable_incremental_sort = off;
SET varve.enable_aggregate = off;
SET jit = off;
CREATE VIEW twins AS SELECT t AS heap, replace(t, 'h_', 'v_') AS varve FROM unnest('{h_near,h_far,h_text,h_two}'::text[]) t;
CREATE TABLE h_near(k int, time timestamptz, value int);
CREATE TABLE h_far(k bigint NOT NULL, time timestamptz NOT NULL, value int, PRIMARY KEY (k, time));
CREATE TABLE h_text(k text, time timestamptz, value int);
CREATE TABLE h_two(k int, name text, time timestamptz, value int);
SELECT format('CREATE TABLE %s(LIKE %s) USING varve', varve, heap) FROM twins \gexec
ALTER TABLE v_far ADD PRIMARY KEY (k, time);
CREATE INDEX near_series ON v_near USING varve (k, time);
CREATE INDEX far_series ON v_far USING varve (k, time);
CREATE INDEX ON v_text USING varve (k, time);
CREATE INDEX ON v_two USING varve (k, name, time);
CREATE FUNCTION load(heap text, part int) RETURNS SETOF text LANGUAGE sql AS $$
    -- Of each series one row, of some several, at times that lie among those of other parts.
    SELECT format('INSERT INTO {t} SELECT %s, ''2026-01-01''::timestamptz + (k * 37 %% 600 + i * 100 + %s) * interval ''1 s'', k * 10 + i
                   FROM generate_series(1, 1000) k, LATERAL generate_series(1, CASE WHEN k %% 90 = 0 THEN 40 WHEN k %% 7 = 0 THEN 3 ELSE 1 END) i WHERE %s',
        CASE heap WHEN 'h_far' THEN 'k * 100' WHEN 'h_text' THEN '''series '' || k' WHEN 'h_two' THEN 'k / 3, ''name '' || k % 3' ELSE 'k' END, part * 3000,
        (ARRAY['true', 'k % 10 = 3', 'k % 4 = 1 AND k > 500'])[part])
$$;
CREATE FUNCTION on_both(statements text) RETURNS SETOF text LANGUAGE sql AS
    $$ SELECT replace(statements, '{t}', t) FROM twins, LATERAL unnest(ARRAY[heap, varve]) t $$;
\set ECHO none
\i sql/include/rows_of.psql
\set ECHO all
-- A WARNING for each query that differs, and one where a plan is not what is tested here.
CREATE PROCEDURE compare() LANGUAGE plpgsql AS $$
DECLARE twin record; condition text; keys text; part text; statement text; line text;
BEGIN
    FOR twin IN SELECT *, CASE heap WHEN 'h_two' THEN 'k, name, time' ELSE 'k, time' END AS keys FROM twins LOOP
        FOREACH condition IN ARRAY ARRAY['true', 'time > ''2026-01-01 00:05''', 'time <= ''2026-01-01 00:52'' AND value > 0', 'k > {k}', 'k <= {k} AND time > ''2026-01-01 00:02''',
                'k BETWEEN {k} AND {l}', 'k IS NOT NULL'] LOOP
            condition := replace(replace(condition, '{k}', CASE twin.heap WHEN 'h_far' THEN '31100' WHEN 'h_text' THEN '''series 311''' ELSE '127' END),
                '{l}', CASE twin.heap WHEN 'h_far' THEN '70000' WHEN 'h_text' THEN '''series 7''' ELSE '193' END);
            FOREACH keys IN ARRAY ARRAY[twin.keys, replace(twin.keys, ',', ' DESC,') || ' DESC'] LOOP
                FOREACH part IN ARRAY ARRAY['', ' LIMIT 5', ' OFFSET 700 LIMIT 100'] LOOP
                    statement := format('SELECT * FROM {t} WHERE %s ORDER BY %s%s', condition, keys, part);
                    EXECUTE 'EXPLAIN (COSTS OFF) ' || replace(format('SELECT * FROM {t} WHERE %s ORDER BY %s', condition, keys), '{t}', twin.varve) INTO line;
                    IF line !~ '^Index Scan' THEN
                        RAISE WARNING '%: %', statement, line;
                    END IF;
                    IF rows_of(statement, twin.heap) IS DISTINCT FROM rows_of(statement, twin.varve) THEN
                        RAISE WARNING '%: %', twin.varve, statement;
                    END IF;
                END LOOP;
            END LOOP;
        END LOOP;
        statement := 'SELECT count(*), sum(a.value) FROM (SELECT * FROM {t} ORDER BY k) a JOIN (SELECT * FROM {t} ORDER BY k) b USING (k)';
        IF rows_of(statement, twin.heap) IS DISTINCT FROM rows_of(statement, twin.varve) THEN
            RAISE WARNING '%: joined', twin.varve;
        END IF;
    END LOOP;
END $$;
CREATE PROCEDURE load_all(part int) LANGUAGE plpgsql AS $$
DECLARE twin record;
BEGIN
    FOR twin IN SELECT * FROM twins LOOP
        EXECUTE replace(load(twin.heap, part), '{t}', twin.heap);
        EXECUTE replace(load(twin.heap, part), '{t}', twin.varve);
    END LOOP;
END $$;

-- One chunk, and nothing besides.
CALL load_all(1);
SELECT format('CALL varve.compact(%L)', varve), format('ANALYZE %s', varve) FROM twins \gexec
SELECT varve, count(*) AS chunks FROM twins, LATERAL varve.chunks(varve::regclass) GROUP BY varve ORDER BY varve;
EXPLAIN (COSTS OFF) SELECT * FROM v_near ORDER BY k, time;
EXPLAIN (COSTS OFF) SELECT * FROM v_far ORDER BY k DESC, time DESC;
CALL compare();
-- Rows that are gone: single ones, all of a series, all of a cell and more.
SELECT on_both($$DELETE FROM {t} WHERE value % 10 = 2 OR value / 10 IN (1, 63, 64, 127, 128, 1000) OR value / 10 BETWEEN 500 AND 700$$) \gexec
CALL compare();
-- Rows of the tail: of series in the chunk, before and behind them, and of others between them.
SET varve.fresh_chunks = 0;
CALL load_all(2);
SELECT on_both($$UPDATE {t} SET value = -value WHERE value / 10 % 25 = 4$$) \gexec
CALL compare();
RESET varve.fresh_chunks;
-- Another chunk, that has some of the series at other times.
CALL load_all(3);
CALL compare();
-- Changes of an open transaction, some of which are taken back.
BEGIN;
SELECT on_both($$DELETE FROM {t} WHERE value / 10 % 10 = 9$$) \gexec
SAVEPOINT a;
SELECT on_both($$DELETE FROM {t} WHERE value / 10 < 400$$) \gexec
CALL compare();
ROLLBACK TO a;
CALL compare();
-- Cursors that turn round: among the rows of a chunk, and where they leave it.
DECLARE near SCROLL CURSOR FOR SELECT k, time::time, value FROM v_near ORDER BY k, time;
MOVE 100 FROM near;
FETCH 2 FROM near;
FETCH BACKWARD 4 FROM near;
FETCH LAST FROM near;
FETCH PRIOR FROM near;
FETCH FIRST FROM near;
DECLARE far SCROLL CURSOR FOR SELECT k, time::time, value FROM v_far ORDER BY k DESC, time DESC;
MOVE 300 FROM far;
FETCH 2 FROM far;
FETCH BACKWARD 3 FROM far;
FETCH 2 FROM far;
ROLLBACK;
SELECT format('CALL varve.compact(%L)', varve) FROM twins \gexec
CALL compare();
-- A scan that begins again for each row of another relation.
SELECT count(*) FILTER (WHERE v.rows IS DISTINCT FROM h.rows) AS differ, count(*) AS asked
FROM generate_series(0, 1000, 90) g,
    LATERAL (SELECT array_agg(s) AS rows FROM (SELECT * FROM v_near WHERE k > g ORDER BY k, time LIMIT 70) s) v,
    LATERAL (SELECT array_agg(s) AS rows FROM (SELECT * FROM h_near WHERE k > g ORDER BY k, time LIMIT 70) s) h;
SELECT varve FROM twins WHERE EXISTS (SELECT FROM varve.verify(varve::regclass));
-- One-row series whose keys begin and end within a cell have an entry for the cell, not for each.
TRUNCATE v_near;
INSERT INTO v_near SELECT k, '2026-01-01'::timestamptz + k * interval '1 s', k FROM generate_series(1, 20000) k;
CALL varve.compact('v_near');
REINDEX INDEX near_series;
SELECT pg_relation_size('near_series') / 8192 < 10 AS small, bool_and(keyed) AS keyed FROM varve.chunks('v_near');
-- The index gives the order at less cost than a sort does.
ANALYZE v_near;
RESET enable_seqscan;
RESET enable_sort;
RESET enable_incremental_sort;
EXPLAIN (COSTS OFF) SELECT * FROM v_near ORDER BY k, time;
DROP VIEW twins;
DROP TABLE h_near, v_near, h_far, v_far, h_text, v_text, h_two, v_two;
DROP PROCEDURE compare, load_all;
DROP FUNCTION load, on_both, rows_of;
