-- Many short series with integer keys: a shared chunk is entered once for each cell of 64 first keys. Whoever looks for a series, a range of
-- them or all of them, in either direction, finds what a heap has.
SET client_min_messages = warning;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET varve.enable_aggregate = off;
SET jit = off;
CREATE VIEW twins AS SELECT t AS heap, replace(t, 'h_', 'v_') AS varve FROM unnest('{h_int,h_small,h_big,h_two,h_text}'::text[]) t;
CREATE TABLE h_int(k int NOT NULL, time timestamptz NOT NULL, value int, PRIMARY KEY (k, time));
CREATE TABLE h_small(k smallint, time int, value int);
CREATE TABLE h_big(k bigint NOT NULL, time date NOT NULL, value int);
CREATE TABLE h_two(k int, name text, time bigint NOT NULL, value int);
CREATE TABLE h_text(k text NOT NULL, time timestamptz NOT NULL, value int, PRIMARY KEY (k, time));
SELECT format('CREATE TABLE %s(LIKE %s) USING varve', varve, heap) FROM twins \gexec
ALTER TABLE v_int ADD PRIMARY KEY (k, time);
ALTER TABLE v_text ADD PRIMARY KEY (k, time);
SELECT format('CREATE INDEX ON %s USING varve (k, time)', t) FROM unnest('{v_small,v_big}'::text[]) t \gexec
CREATE INDEX ON v_two USING varve (k, name, time);
-- One to ten rows of each series, negative keys and the ends of each type among them, and some keys that are NULL.
INSERT INTO h_int SELECT k, '2026-01-01'::timestamptz + i * interval '1 min' + k % 50 * interval '1 s', k + i
    FROM generate_series(-190, 410) k, generate_series(1, 1 + abs(k) % 10) i;
INSERT INTO h_small SELECT CASE WHEN k % 97 > 0 THEN k END, i * 10, k * i FROM generate_series(-32768, -32400) k, generate_series(1, 3) i
    UNION ALL SELECT k, i, i FROM generate_series(32500, 32767) k, generate_series(1, 2) i;
INSERT INTO h_big SELECT k, '2026-01-01'::date + i, i FROM generate_series(9223372036854775600, 9223372036854775806) k, generate_series(1, 4) i
    UNION ALL SELECT -k - 2, '2026-01-01'::date + i, i FROM generate_series(9223372036854775600, 9223372036854775806) k, generate_series(1, 4) i
    UNION ALL SELECT k, '2026-01-01', 0 FROM generate_series(-200, 200) k;
INSERT INTO h_two SELECT CASE WHEN k % 211 > 0 THEN k END, CASE WHEN k % 13 > 0 THEN 'name ' || k * n % 7 END, 1000 * k + i + 100 * n, i
    FROM generate_series(1, 400) k, generate_series(1, 2) n, generate_series(1, 3) i;
INSERT INTO h_text SELECT 'key ' || k, '2026-01-01'::timestamptz + i * interval '1 min', k FROM generate_series(1, 200) k, generate_series(1, 5) i;
-- A load, a part that comes late and falls among the others, and rows that stay in the tail.
SELECT format('INSERT INTO %s SELECT * FROM %s WHERE value %% 5 <> 0', varve, heap), format('CALL varve.compact(%L)', varve),
    format('INSERT INTO %s SELECT * FROM %s WHERE value %% 5 = 0 AND value %% 3 <> 0', varve, heap), format('CALL varve.compact(%L)', varve) FROM twins \gexec
SET varve.fresh_chunks = 0;
SELECT format('INSERT INTO %s SELECT * FROM %s WHERE value %% 15 = 0', varve, heap), format('ANALYZE %s', varve), format('ANALYZE %s', heap) FROM twins \gexec
RESET varve.fresh_chunks;

-- An entry for each series would take some eighty pages.
CREATE TABLE many(k int NOT NULL, time timestamptz NOT NULL, value int) USING varve;
CREATE INDEX many_series ON many USING varve (k, time);
INSERT INTO many SELECT k, '2026-01-01'::timestamptz + i * interval '1 min', k % 100 FROM generate_series(1, 20000) k, generate_series(1, 5) i;
CALL varve.compact('many');
SELECT pg_relation_size('many_series') / 8192 < 16 AS small, count(*) AS chunks, bool_and(keyed) AS keyed FROM varve.chunks('many');
DROP TABLE many;

\set ECHO none
\i sql/include/rows_of.psql
\set ECHO all
-- Ranges and lists of keys around the edges of cells, cross-type arguments, in both directions, whole and in part.
CREATE FUNCTION conditions(heap text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT c FROM (VALUES ('h_int', -190, 410), ('h_small', -32768, 32767), ('h_two', 1, 400)) b(of, low, high),
        generate_series(0, 1) n, LATERAL (SELECT (low + (high - low) * n / 2) / 64 * 64 + 64 AS k) k, LATERAL (VALUES
        (format('k = %s', k)), (format('k = %s::int8', k + 63)), (format('k IN (%s, %s, %s, %s)', k - 1, k, k + 1, k + 64)), (format('k > %s', k)), (format('k >= %s::int8', k)),
        (format('k < %s', k)), (format('k <= %s', k)), (format('k > %s AND k < %s', k - 1, k + 70)), (format('k BETWEEN %s AND %s', k + 10, k + 20)),
        (format('k BETWEEN %s::int8 AND %s::int8', low, low + 1)), (format('k >= %s', high)), (format('k > %s', low)), ('k IS NULL'), ('k IS NOT NULL'),
        (format('k = %s AND k > %s', k, k - 1)), (format('k = ANY (ARRAY[%s, %s]::int8[]) AND k <= %s', k + 5, k + 70, k + 60))) v(c) WHERE of = heap
    UNION SELECT c FROM (VALUES ('k > 9223372036854775800'), ('k >= 9223372036854775807'), ('k < -9223372036854775800'), ('k > (-9223372036854775808)'), ('k >= (-9223372036854775808)'),
        ('k <= (-9223372036854775808)'), ('k BETWEEN -64 AND 63'), ('k IN (-9223372036854775808, -9223372036854775807, 0, -1, 9223372036854775806)'), ('k = 5::int2'),
        ('k > (-70)::int4 AND k <= 0')) v(c) WHERE heap = 'h_big'
    UNION SELECT c FROM (VALUES ('name = ''name 3'''), ('k = 77 AND name = ''name 0'''), ('k BETWEEN 60 AND 70 AND name IS NULL'), ('k IS NULL AND name = ''name 1'''),
        ('k = 128 AND name > ''name 2'' AND time < 128500'), ('k IN (64, 65, 200) AND name IN (''name 1'', ''name 2'')')) v(c) WHERE heap = 'h_two'
    UNION SELECT c FROM (VALUES ('k = ''key 77'''), ('k > ''key 65'''), ('k IN (''key 1'', ''key 200'')')) v(c) WHERE heap = 'h_text'
    UNION SELECT 'true';
$$;
CREATE PROCEDURE compare(share int DEFAULT 1) LANGUAGE plpgsql AS $$
DECLARE twin record; condition text; keys text; part text; statement text;
BEGIN
    SET LOCAL enable_sort = off;
    SET LOCAL enable_incremental_sort = off;
    FOR twin IN SELECT *, CASE heap WHEN 'h_two' THEN 'k, name, time' ELSE 'k, time' END AS keys FROM twins LOOP
        FOR condition IN SELECT c FROM (SELECT c, row_number() OVER (ORDER BY c) AS n FROM conditions(twin.heap) c) s WHERE n % share = 0 LOOP
            FOREACH keys IN ARRAY ARRAY[twin.keys, replace(twin.keys, ',', ' DESC,') || ' DESC'] LOOP
                FOREACH part IN ARRAY ARRAY['', ' LIMIT 7'] LOOP
                    -- Keys that are NULL have many rows of one time: of those, only the number is certain.
                    statement := format('SELECT CASE WHEN k IS NOT NULL THEN s::text END FROM (SELECT * FROM {t} WHERE %s ORDER BY %s%s) s', condition, keys, part);
                    IF rows_of(statement, twin.heap) IS DISTINCT FROM rows_of(statement, twin.varve) THEN
                        RAISE WARNING '%: %', twin.varve, statement;
                    END IF;
                END LOOP;
            END LOOP;
        END LOOP;
    END LOOP;
END $$;
CALL compare();

-- One series after another by LATERAL, the newest row and the first ones, and rows of a time.
CREATE PROCEDURE compare_series() LANGUAGE plpgsql AS $$
DECLARE statement text;
BEGIN
    FOREACH statement IN ARRAY ARRAY[
        'SELECT g, l.* FROM generate_series(-195, 415, 3) g, LATERAL (SELECT * FROM {t}_int WHERE k = g ORDER BY k DESC, time DESC LIMIT 1) l',
        'SELECT g, l.* FROM generate_series(415, -195, -7) g, LATERAL (SELECT * FROM {t}_int WHERE k = g AND time > ''2026-01-01 00:03'' ORDER BY time LIMIT 2) l',
        'SELECT g, l.* FROM generate_series(-195, 415, 5) g, LATERAL (SELECT * FROM {t}_int WHERE k = g AND time = ''2026-01-01 00:02''::timestamptz + g % 50 * interval ''1 s'') l',
        'SELECT g, l.* FROM generate_series(1, 400, 4) g, LATERAL (SELECT * FROM {t}_two WHERE k = g AND name = ''name '' || g % 7 ORDER BY time DESC LIMIT 2) l'] LOOP
        IF rows_of(statement, 'h') IS DISTINCT FROM rows_of(statement, 'v') THEN
            RAISE WARNING '%', statement;
        END IF;
    END LOOP;
END $$;
CALL compare_series();
-- The aggregate node opens the chunks of the cells that its conditions leave.
CREATE PROCEDURE compare_aggregates() LANGUAGE plpgsql AS $$
DECLARE twin record; condition text; statement text;
BEGIN
    SET LOCAL varve.enable_aggregate = on;
    FOR twin IN SELECT * FROM twins LOOP
        FOR condition IN SELECT * FROM conditions(twin.heap) LOOP
            statement := format('SELECT count(*), sum(value), min(time), max(time) FROM {t} WHERE %s', condition);
            IF rows_of(statement, twin.heap) IS DISTINCT FROM rows_of(statement, twin.varve) THEN
                RAISE WARNING '%: %', twin.varve, statement;
            END IF;
        END LOOP;
    END LOOP;
END $$;
CALL compare_aggregates();

-- A cursor that turns round among cells, and one that goes on beside changes of its own transaction.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT k, time::time FROM v_int ORDER BY k, time;
MOVE 1000 FROM c;
FETCH 2 FROM c;
FETCH BACKWARD 3 FROM c;
FETCH LAST FROM c;
FETCH FIRST FROM c;
DELETE FROM v_int WHERE k BETWEEN -180 AND -150; DELETE FROM h_int WHERE k BETWEEN -180 AND -150;
MOVE 100 FROM c;
FETCH 2 FROM c;
UPDATE v_int SET value = -value WHERE k % 100 = 7; UPDATE h_int SET value = -value WHERE k % 100 = 7;
CALL compare_series();
SAVEPOINT a;
DELETE FROM v_int WHERE k BETWEEN 0 AND 200; DELETE FROM h_int WHERE k BETWEEN 0 AND 200;
CALL compare_series();
ROLLBACK TO a;
CALL compare_series();
COMMIT;
CALL compare(7);

-- Keys are unique, whatever cell they are in: among single rows, batches, and rows that move.
INSERT INTO v_int SELECT k, time, 0 FROM v_int WHERE k = 64 ORDER BY time LIMIT 1;
INSERT INTO v_int SELECT k, time, 0 FROM h_int WHERE k = 127 ORDER BY time DESC LIMIT 1;
INSERT INTO v_int SELECT k, time, 0 FROM h_int WHERE k > -1000 ORDER BY k, time;
INSERT INTO v_int SELECT k, time, value FROM h_int UNION ALL SELECT 5000 + g, '2026-01-01', 1 FROM generate_series(1, 600) g ON CONFLICT DO NOTHING;
INSERT INTO h_int SELECT 5000 + g, '2026-01-01', 1 FROM generate_series(1, 600) g;
UPDATE v_int SET k = 335, time = (SELECT max(time) FROM v_int WHERE k = 335) WHERE k = 333;
UPDATE v_int SET k = k + 10000 WHERE k % 64 IN (0, 63); UPDATE h_int SET k = k + 10000 WHERE k % 64 IN (0, 63);
INSERT INTO v_int SELECT k, time, 7 FROM h_int WHERE k BETWEEN 120 AND 140 ON CONFLICT (k, time) DO UPDATE SET value = 7 + v_int.value;
UPDATE h_int SET value = 7 + value WHERE k BETWEEN 120 AND 140;
CALL compare(5);
SELECT varve, v.* FROM twins, varve.verify(varve::regclass) v;

-- The same after compact, where entries of replaced headers are gone, and in an index that is built at once.
SELECT format('CALL varve.compact(%L)', varve), format('REINDEX TABLE %s', varve) FROM twins \gexec
CALL compare();
CALL compare_series();
SELECT varve, v.* FROM twins, varve.verify(varve::regclass) v;
DELETE FROM v_int WHERE time < '2026-01-01 00:04'; DELETE FROM h_int WHERE time < '2026-01-01 00:04';
CALL varve.compact('v_int');
CALL compare(6);
SELECT varve, v.* FROM twins, varve.verify(varve::regclass) v;
DROP VIEW twins;
DROP PROCEDURE compare, compare_series, compare_aggregates;
DROP FUNCTION rows_of, conditions;
DROP TABLE h_int, h_small, h_big, h_two, h_text, v_int, v_small, v_big, v_two, v_text;
