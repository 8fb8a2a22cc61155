-- A long series has several entries of one chunk in a series index: who looks for one row passes by few of the rows that were updated
-- into the tail, and whoever comes upon a chunk more than once takes its rows once.
CREATE VIEW twins AS SELECT t AS heap, replace(t, 'h_', 'v_') AS varve FROM unnest('{h_one,h_same,h_shared}'::text[]) t;
CREATE TABLE h_one(host int NOT NULL, time timestamptz NOT NULL, value int);
CREATE TABLE v_one(LIKE h_one) USING varve;
CREATE TABLE h_same(host int NOT NULL, time smallint NOT NULL, value int);
CREATE TABLE v_same(LIKE h_same) USING varve;
CREATE TABLE h_shared(host text NOT NULL, time date NOT NULL, value int);
CREATE TABLE v_shared(LIKE h_shared) USING varve;
-- One series; one with many rows of the same time, over several steps too; five series.
SET client_min_messages = warning;
INSERT INTO h_one SELECT 1, '2026-01-01'::timestamptz + g * interval '1 s', g FROM generate_series(1, 20000) g;
INSERT INTO h_same SELECT 1, CASE WHEN g < 6000 THEN g / 900 - 3 ELSE g - 5990 END, g FROM generate_series(1, 12000) g;
INSERT INTO h_shared SELECT 'host ' || h, '2026-01-01'::date + g / 2, g FROM generate_series(1, 5) h, generate_series(1, 2500) g;
SELECT format('INSERT INTO %s SELECT * FROM %s', varve, heap), format('CREATE INDEX ON %s USING varve (host, time)', varve) FROM twins \gexec
SELECT format('CREATE INDEX ON %s (host, time)', heap) FROM twins \gexec
SELECT format('CALL varve.compact(%L)', varve) FROM twins \gexec
SELECT format('ANALYZE %s', varve) FROM twins \gexec
SELECT varve, (SELECT count(*) FROM varve.chunks(varve::regclass)) AS chunks FROM twins;
RESET client_min_messages;
SET enable_seqscan = off;
SET enable_bitmapscan = off;

-- What a look-up reads does not follow what was updated behind it in the chunk. A page of entries has some three hundred.
CREATE FUNCTION buffers(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE query;
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT json) ' || query INTO plan;
    RETURN (plan->0->'Plan'->>'Shared Hit Blocks')::bigint + (plan->0->'Plan'->>'Shared Read Blocks')::bigint;
END $$;
UPDATE v_one SET value = -value WHERE value BETWEEN 1 AND 15000 AND value <> 100;
UPDATE h_one SET value = -value WHERE value BETWEEN 1 AND 15000 AND value <> 100;
SELECT buffers($$SELECT value FROM v_one WHERE host = 1 AND time = '2026-01-01 00:01:40'$$) < 30 AS one_row,
    buffers($$SELECT value FROM v_one WHERE host = 1 AND time BETWEEN '2026-01-01 00:01:40' AND '2026-01-01 00:01:41'$$) < 30 AS two_rows,
    buffers($$SELECT value FROM v_one WHERE host = 1 AND time <= '2026-01-01 00:01:40' ORDER BY host DESC, time DESC LIMIT 1$$) < 30 AS newest_before;

-- A chunk of which no row is gone has an entry for 8,192 rows: a look-up passes by so many that were undone, not by all 20,000.
SET client_min_messages = warning;
CREATE TABLE undone(LIKE h_one) USING varve;
CREATE INDEX ON undone USING varve (host, time);
INSERT INTO undone SELECT host, time, abs(value) FROM h_one;
CALL varve.compact('undone');
RESET client_min_messages;
BEGIN;
UPDATE undone SET value = -value WHERE value <> 100;
ROLLBACK;
SELECT buffers($$SELECT value FROM undone WHERE host = 1 AND time = '2026-01-01 00:01:40'$$) < 90 AS one_row;
DROP TABLE undone;

-- The same rows as a heap has, in both directions, from and to times around every step, among them updated and deleted ones.
SELECT format('UPDATE %s SET value = value + 100000 WHERE value %% 7 = 3', t) FROM (SELECT heap FROM twins UNION ALL SELECT varve FROM twins) s(t) \gexec
SELECT format('DELETE FROM %s WHERE value %% 11 = 5 OR value BETWEEN 2040 AND 2060', t) FROM (SELECT heap FROM twins UNION ALL SELECT varve FROM twins) s(t) \gexec
CREATE FUNCTION compare(heap text, low text, high text, backward bool) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    statement text := format('SELECT host, time, value FROM {t} WHERE host = (SELECT max(host) FROM %1$s) AND time >= %2$L AND time <= %3$L ORDER BY host %4$s, time %4$s',
        heap, low, high, CASE WHEN backward THEN 'DESC' ELSE 'ASC' END);
    differ int;
    sorted bool;
BEGIN
    EXECUTE format('SELECT count(*) FROM ((%s) EXCEPT ALL (%s)) a', replace(statement, '{t}', heap), replace(statement, '{t}', replace(heap, 'h_', 'v_'))) INTO differ;
    IF differ > 0 THEN RETURN NEXT format('%s %s %s: %s missing', heap, low, high, differ); END IF;
    EXECUTE format('SELECT count(*) FROM ((%s) EXCEPT ALL (%s)) a', replace(statement, '{t}', replace(heap, 'h_', 'v_')), replace(statement, '{t}', heap)) INTO differ;
    IF differ > 0 THEN RETURN NEXT format('%s %s %s: %s too many', heap, low, high, differ); END IF;
    EXECUTE format('SELECT bool_and(time %s before) FROM (SELECT time, lag(time) OVER () AS before FROM (%s) s) s', CASE WHEN backward THEN '<=' ELSE '>=' END,
        replace(statement, '{t}', replace(heap, 'h_', 'v_'))) INTO sorted;
    IF NOT sorted THEN RETURN NEXT format('%s %s %s: not in order', heap, low, high); END IF;
END $$;
CREATE PROCEDURE compare_all() LANGUAGE plpgsql AS $$
DECLARE message text;
BEGIN
    FOR message IN
        SELECT c FROM generate_series(0, 19, 3) step, (VALUES (-1), (0), (1)) d(d), (VALUES (0), (1), (1500)) l(l), (VALUES (false), (true)) b(backward),
            compare('h_one', ('2026-01-01'::timestamptz + (step * 1024 + d) * interval '1 s')::text, ('2026-01-01'::timestamptz + (step * 1024 + d + l) * interval '1 s')::text, backward) c
        UNION ALL
        SELECT c FROM generate_series(-4, 4, 2) low, generate_series(-4, 6, 5) high, (VALUES (false), (true)) b(backward), compare('h_same', low::text, high::text, backward) c
        UNION ALL
        SELECT c FROM generate_series(500, 530, 15) low, generate_series(511, 6000, 1022) high, (VALUES (false), (true)) b(backward), compare('h_same', low::text, high::text, backward) c
        UNION ALL
        SELECT c FROM generate_series(0, 2) step, (VALUES (-1), (0), (1)) d(d), (VALUES (0), (1), (700)) l(l), (VALUES (false), (true)) b(backward),
            compare('h_shared', ('2026-01-01'::date + step * 512 + d)::text, ('2026-01-01'::date + step * 512 + d + l)::text, backward) c
    LOOP
        RAISE NOTICE '%', message;
    END LOOP;
END $$;
CALL compare_all();
CREATE PROCEDURE compare_scans() LANGUAGE plpgsql AS $$
DECLARE twin record; differ int;
BEGIN
    FOR twin IN SELECT * FROM twins LOOP
        EXECUTE format('SELECT count(*) FROM ((SELECT * FROM %s) EXCEPT ALL (SELECT * FROM %s ORDER BY host, time)) a', twin.heap, twin.varve) INTO differ;
        IF differ > 0 THEN RAISE NOTICE '% differs from %', twin.varve, twin.heap; END IF;
        EXECUTE format('SELECT abs((SELECT count(*) FROM %s) - (SELECT count(*) FROM (SELECT FROM %s ORDER BY host DESC, time DESC) s))', twin.heap, twin.varve) INTO differ;
        IF differ > 0 THEN RAISE NOTICE '% has % rows more or less', twin.varve, differ; END IF;
    END LOOP;
END $$;
CALL compare_scans();

-- A cursor that turns round comes by the same rows.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT value FROM v_one WHERE host = 1 AND time > '2026-01-01 00:17:00' AND time < '2026-01-01 01:00:00' ORDER BY host, time;
FETCH 2 c;
MOVE 1500 c;
FETCH 1 c;
MOVE BACKWARD 1501 c;
FETCH BACKWARD 1 c;
MOVE ALL c;
FETCH BACKWARD 1 c;
COMMIT;

-- Keys are found wherever they are.
SET client_min_messages = warning;
CREATE TABLE k(host int, time bigint, value int, PRIMARY KEY (host, time)) USING varve;
CREATE INDEX ON k USING varve (host, time);
INSERT INTO k SELECT 1, g * 2, 0 FROM generate_series(1, 5000) g;
CALL varve.compact('k');
RESET client_min_messages;
UPDATE k SET value = 1 WHERE time / 2 % 3 = 1;
DELETE FROM k WHERE time / 2 % 5 = 1;
DO $$
DECLARE taken int := 0; is_there bool;
BEGIN
    FOR i IN 2030..2070 LOOP
        is_there := EXISTS (SELECT FROM k WHERE host = 1 AND time = i);
        BEGIN
            INSERT INTO k VALUES (1, i, 2);
            IF is_there THEN RAISE NOTICE '% was there', i; END IF;
        EXCEPTION WHEN unique_violation THEN
            taken := taken + 1;
            IF NOT is_there THEN RAISE NOTICE '% was not there', i; END IF;
        END;
    END LOOP;
    RAISE NOTICE '% keys were taken', taken;
END $$;
INSERT INTO k SELECT 1, g, 3 FROM generate_series(1, 12000) g ON CONFLICT (host, time) DO UPDATE SET value = k.value + 10;
SELECT count(*), count(DISTINCT time), sum(value) FROM k;

-- Indexes that are built, and built anew, have what is entered row by row; VACUUM takes away what belongs to replaced headers.
REINDEX TABLE v_one;
REINDEX INDEX CONCURRENTLY v_same_host_time_idx;
CREATE INDEX CONCURRENTLY ON v_shared USING varve (host, time);
VACUUM v_one, v_same, v_shared, k;
CALL compare_all();
CALL compare_scans();
SELECT t, v.* FROM (SELECT varve FROM twins UNION ALL SELECT 'k') s(t), varve.verify(t::regclass) v;
SELECT format('CALL varve.compact(%L)', varve) FROM twins \gexec
CALL compare_all();
CALL compare_scans();
SELECT t, v.* FROM (SELECT varve FROM twins UNION ALL SELECT 'k') s(t), varve.verify(t::regclass) v;
-- One entry for a thousand rows: a page, and nbtree's own.
SELECT format('REINDEX TABLE %s', varve) FROM twins \gexec
SELECT sum(pg_relation_size(indexrelid)) <= 8 * 8192 AS small FROM pg_index WHERE indrelid IN ('v_one'::regclass, 'v_same'::regclass, 'v_shared'::regclass);
DROP TABLE h_one, v_one, h_same, v_same, h_shared, v_shared, k;
DROP VIEW twins;
DROP FUNCTION buffers, compare;
DROP PROCEDURE compare_all, compare_scans;
