-- INSERT … SELECT collects its rows in batches unless a function that it calls could read the table meanwhile: the same statements on a heap.
SET varve.batch_rows = 8;
CREATE TABLE heap(id bigint, seen bigint, time timestamptz NOT NULL DEFAULT '2026-01-01');
CREATE TABLE varve(LIKE heap INCLUDING DEFAULTS) USING varve;
CREATE TABLE ten(n int);
INSERT INTO ten SELECT generate_series(1, 10);
CREATE INDEX ON ten(n);
ANALYZE ten;

-- Each of these tells how many rows its target has when it is called.
CREATE FUNCTION peek(target text, bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE result bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM %I', target) INTO result;
    RETURN result;
END $$;
CREATE FUNCTION peeks(target text) RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE ROWS 3 AS $$
BEGIN
    FOR i IN 1..20 LOOP
        RETURN QUERY SELECT peek(target, i);
    END LOOP;
END $$;
CREATE FUNCTION peek_greater(text, bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$ BEGIN RETURN peek($1, 0) >= $2; END $$;
CREATE OPERATOR >># (FUNCTION = peek_greater, LEFTARG = text, RIGHTARG = bigint);

-- Runs an INSERT on both; tells whether they differ and whether a chunk was written.
CREATE FUNCTION filled(source text) RETURNS TABLE(same boolean, batches boolean) LANGUAGE plpgsql AS $$
DECLARE different bigint;
BEGIN
    FOR i IN 1..2 LOOP
        EXECUTE format('TRUNCATE %I', (ARRAY['heap', 'varve'])[i]);
        EXECUTE format('INSERT INTO %I (id, seen) ', (ARRAY['heap', 'varve'])[i]) || replace(source, '$t', quote_literal((ARRAY['heap', 'varve'])[i]));
    END LOOP;
    SELECT count(*) INTO different FROM (
        (TABLE heap EXCEPT ALL TABLE varve) UNION ALL (TABLE varve EXCEPT ALL TABLE heap)) d;
    RETURN QUERY SELECT different = 0, count(*) > 0 FROM varve.chunks('varve');
END $$;

-- Batches: nothing, functions of the server, stable ones.
SELECT * FROM filled('SELECT n, 0 FROM ten');
SELECT * FROM filled('SELECT n, (random() * 0)::bigint FROM ten ORDER BY random()');
SELECT * FROM filled('SELECT count(*) OVER (), sum(n) OVER (ROWS BETWEEN 1 + 1 PRECEDING AND CURRENT ROW) FROM ten');
SELECT * FROM filled('SELECT a.n, b.n FROM ten a JOIN ten b USING (n) WHERE a.n < (SELECT max(n) FROM ten) OR a.n = 10 LIMIT 10 + 10');
SELECT * FROM filled('WITH w AS MATERIALIZED (SELECT n FROM ten) SELECT n, 1 FROM w UNION ALL SELECT g, 2 FROM generate_series(1, 10) g');

-- None: a function that reads the table, wherever it stands.
SELECT * FROM filled('SELECT n, peek($t, n) FROM ten');
SELECT * FROM filled('SELECT n, 0 FROM ten WHERE peek($t, n) < 5');
SELECT * FROM filled('SELECT n, 0 FROM ten WHERE $t::text >># 0');
SELECT * FROM filled('SELECT n, CASE WHEN n > 5 THEN coalesce(peek($t, n), 1) END FROM ten');
SELECT * FROM filled('SELECT 1, peeks($t)');
SELECT * FROM filled('SELECT n, p FROM ten, peeks($t) p LIMIT 30');
SELECT * FROM filled('SELECT n, p FROM ten, LATERAL (SELECT peek($t, n) AS p OFFSET 0) l');
SELECT * FROM filled('SELECT n, (SELECT peek($t, n)) FROM ten');
SELECT * FROM filled('SELECT n, (SELECT max(peek($t, b.n)) FROM ten b WHERE b.n <= a.n) FROM ten a');
SELECT * FROM filled('WITH w AS MATERIALIZED (SELECT n, peek($t, n) AS p FROM ten) SELECT n, p FROM w');
SELECT * FROM filled('SELECT n, 0 FROM ten UNION ALL SELECT n, peek($t, n) FROM ten');
SELECT * FROM filled('VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0), (9, peek($t, 9)), (10, 0)');
SELECT * FROM filled('SELECT n, sum(peek($t, n)) OVER (ORDER BY n) FROM ten');
SELECT * FROM filled('SELECT n, 0 FROM ten LIMIT 10 + peek($t, 0)');
SELECT * FROM filled('SELECT a.n, b.n FROM ten a LEFT JOIN ten b ON a.n = b.n AND peek($t, b.n) > 3');
SET enable_hashjoin = off;
SELECT * FROM filled('SELECT a.n, b.n FROM ten a LEFT JOIN ten b ON a.n = b.n AND peek($t, b.n) > 3');
SET enable_mergejoin = off;
SELECT * FROM filled('SELECT a.n, b.n FROM ten a LEFT JOIN ten b ON a.n = b.n AND peek($t, b.n) > 3');
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT * FROM filled('SELECT n, 0 FROM ten TABLESAMPLE system (100 + peek($t, 0))');
SELECT * FROM filled('SELECT g, 0 FROM generate_series(1, 10 + peek($t, 0)) g');
SELECT * FROM filled('SELECT x.n, 0 FROM xmltable(''/a/b'' PASSING ((''<a>'' || repeat(''<b>1</b>'', 10 + peek($t, 0)::int) || ''</a>'')::xml) COLUMNS n int PATH ''.'') x');
SELECT varve.verify('varve');
DROP TABLE heap, varve, ten;
DROP OPERATOR >># (text, bigint);
DROP FUNCTION filled, peek_greater, peeks, peek;
RESET varve.batch_rows;
