-- Aggregates of spans of first keys, which the pages of the series index tell: chunks entered by key, by cell (of 64 keys) or for all keys, rows of
-- the tail and NULLs, keys of all lengths, beside a heap.
SET timezone = 'UTC';
SET max_parallel_workers_per_gather = 0;
CREATE TABLE source(k int, t timestamptz NOT NULL, id int, x float8, filler text) USING heap;
SELECT setseed(0.5);
-- A few keys have many rows each, and all of -200 to 399 some.
INSERT INTO source SELECT CASE WHEN i % 97 = 0 THEN NULL WHEN i % 3 = 0 THEN i % 7 * 64 - 192 ELSE i % 600 - 200 END,
        '2026-01-01'::timestamptz + i * interval '1 s', i, random(), md5(i::text)
    FROM generate_series(1, 60000) i;

-- Spans, of which some begin or end where a cell does, beside the table, or beyond the type.
CREATE FUNCTION spans() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT format('k >= %s AND k < %s', low, low + width) FROM generate_series(-260, 460, 31) low, unnest(ARRAY[1, 30, 64, 200]) width
    UNION ALL SELECT format('k > %s', low) FROM unnest(ARRAY[-32768, -201, -65, -64, -1, 0, 63, 64, 320, 398, 399, 32767]) low
    UNION ALL SELECT format('k <= %s', high) FROM unnest(ARRAY[-32768, -200, -193, -192, -64, 63, 127, 128, 400, 32767]) high
    UNION ALL SELECT unnest(ARRAY['k > 100 AND k > 150 AND k <= 170', 'k >= 10 AND k < 10', 'k > 20 AND k < 10', 'k BETWEEN 0 AND 191 AND id % 5 = 0',
        'k > 128 AND x < 0.5', 'k > 128 AND t < ''2026-01-01 05:00''', 'k BETWEEN -10 AND 10 AND k <> 3']) $$;
-- How many spans there are, and how many of which both tables tell another.
CREATE FUNCTION differ(other text, varve text, OUT spans int, OUT differ int) LANGUAGE plpgsql AS $$
DECLARE
    span text; query text := 'SELECT count(*), sum(id), min(t), round(max(x)::numeric, 9) FROM '; found text; wanted text;
BEGIN
    spans := 0;
    differ := 0;
    FOR span IN SELECT * FROM spans() LOOP
        EXECUTE format('SELECT q::text FROM (%s %s WHERE %s) q', query, other, span) INTO wanted;
        EXECUTE format('SELECT q::text FROM (%s %s WHERE %s) q', query, varve, span) INTO found;
        spans := spans + 1;
        IF found IS DISTINCT FROM wanted THEN
            differ := differ + 1;
            RAISE NOTICE '%: % instead of %', span, found, wanted;
        END IF;
    END LOOP;
END $$;

CREATE TABLE h(LIKE source) USING heap;
CREATE TABLE v(LIKE source) USING varve;
CREATE INDEX ON v USING varve_series (k, t);
-- Chunks with all keys each.
SET varve.batch_rows = 1000;
INSERT INTO h SELECT * FROM source WHERE id <= 20000;
INSERT INTO v SELECT * FROM source WHERE id <= 20000;
SELECT * FROM differ('h', 'v');
-- By key and cell.
SET varve.chunk_rows = 3000;
CALL varve.compact('v');
SELECT * FROM differ('h', 'v');
INSERT INTO h SELECT * FROM source WHERE id BETWEEN 20001 AND 40000;
INSERT INTO v SELECT * FROM source WHERE id BETWEEN 20001 AND 40000;
SET varve.batch_rows = 1000000;
INSERT INTO h SELECT * FROM source WHERE id BETWEEN 40001 AND 40900;
INSERT INTO v SELECT * FROM source WHERE id BETWEEN 40001 AND 40900;
DELETE FROM h WHERE id % 11 = 0;
DELETE FROM v WHERE id % 11 = 0;
UPDATE h SET k = k + 64 WHERE id % 13 = 0;
UPDATE v SET k = k + 64 WHERE id % 13 = 0;
SELECT * FROM differ('h', 'v');
BEGIN;
UPDATE h SET k = k - 1 WHERE id % 17 = 0;
UPDATE v SET k = k - 1 WHERE id % 17 = 0;
SELECT * FROM differ('h', 'v');
ROLLBACK;
VACUUM h, v;
SELECT * FROM differ('h', 'v');
CALL varve.compact('v');
SELECT * FROM differ('h', 'v');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM differ('h', 'v');
COMMIT;
-- Shorter and longer keys, and series of two.
CREATE TABLE shorter(k smallint, t timestamptz NOT NULL, id int, x float8, filler text) USING varve;
CREATE INDEX ON shorter USING varve_series (k, t);
CREATE TABLE longer(k bigint, t timestamptz NOT NULL, id int, x float8, filler text) USING varve;
CREATE INDEX ON longer USING varve_series (k, id, t);
INSERT INTO shorter SELECT * FROM source WHERE id < 20000;
INSERT INTO longer SELECT * FROM source WHERE id < 20000;
TRUNCATE h;
INSERT INTO h SELECT * FROM source WHERE id < 20000;
CALL varve.compact('shorter');
CALL varve.compact('longer');
SELECT * FROM differ('h', 'shorter');
SELECT * FROM differ('h', 'longer');
SELECT count(*) FROM longer WHERE k > 9223372036854775806;
SELECT count(*), count(k) FROM longer WHERE k >= -9223372036854775808;
SELECT count(*) FROM longer WHERE k < -9223372036854775808;
DROP TABLE source, h, v, shorter, longer;
DROP FUNCTION differ, spans;
