-- The node says of groups what core says of them over a heap.
SET timezone = 'UTC';
SET max_parallel_workers_per_gather = 0;
CREATE TABLE h(host int, time timestamptz NOT NULL, value float8, ok bool, txt text);
CREATE TABLE v(LIKE h) USING varve;
INSERT INTO h SELECT g % 8, '2026-01-01 00:00Z'::timestamptz + g / 8 * interval '10 s', g % 101, g % 3 = 0, CASE WHEN g % 2 = 0 THEN 'name' ELSE g::text END
    FROM generate_series(1, 20000) g;
INSERT INTO v SELECT * FROM h;
CREATE TABLE x AS SELECT id, id % 2 = 0 AS flag FROM generate_series(1, 4) id;
ANALYZE h, v, x;

-- Runs a query on both tables; how many rows differ, and whether the node finishes groups.
CREATE FUNCTION compare(query text) RETURNS TABLE (differ bigint, finished bool) LANGUAGE plpgsql AS $$
DECLARE
    line text;
    nodes bool := false;
BEGIN
    finished := true;
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || replace(query, '{t}', 'v') LOOP
        nodes := nodes OR line ~ 'VarveAggregate';
        finished := finished AND line !~ '^ *(->  )?(Finalize |Partial )?(Hash|Group)?Aggregate';
    END LOOP;
    IF NOT nodes THEN
        RAISE 'not a plan of the node: %', query;
    END IF;
    query := format('SELECT d::text AS t, row_number() OVER () AS at FROM (%s) d', query);
    EXECUTE format('CREATE TEMP TABLE of_heap AS %s', replace(query, '{t}', 'h'));
    EXECUTE format('CREATE TEMP TABLE of_varve AS %s', replace(query, '{t}', 'v'));
    SELECT count(*) INTO differ FROM ((TABLE of_heap EXCEPT ALL TABLE of_varve) UNION ALL (TABLE of_varve EXCEPT ALL TABLE of_heap)) d;
    DROP TABLE of_heap, of_varve;
    RETURN NEXT;
END $$;

-- A condition that the query shows, or orders by.
SELECT host, host > 3 AS big, count(*) FROM v WHERE host > 3 GROUP BY host ORDER BY host;
SELECT q.query, c.* FROM (VALUES
    ('SELECT host, host > 3 AS big, count(*) FROM {t} WHERE host > 3 GROUP BY host ORDER BY host'),
    ('SELECT host, CASE WHEN host = 3 THEN ''three'' ELSE ''none'' END, count(*) FROM {t} WHERE host = 3 GROUP BY host'),
    ('SELECT host, host = ANY (ARRAY[1, 3]), sum(value) FROM {t} WHERE host = ANY (ARRAY[1, 3]) AND value > 7 GROUP BY host ORDER BY host'),
    ('SELECT host, count(*) FROM {t} WHERE host > 3 OR host < 2 GROUP BY host ORDER BY (host > 3 OR host < 2), host > 3, host DESC'),
    ('SELECT host, NOT host > 3 AS small, (host > 3)::int + 1 AS one, count(value) FROM {t} WHERE host > 3 GROUP BY host ORDER BY host'),
    ('SELECT ok, NOT ok AS other, count(*) FROM {t} WHERE ok GROUP BY ok'),
    ('SELECT host > 3 AS big, count(*) FROM {t} WHERE host > 3 GROUP BY host > 3'),
    ('SELECT count(*) FILTER (WHERE host > 3), count(*) > 5 AS many FROM {t} WHERE host > 3'),
    ('SELECT host, host > 3 AS big, count(*) FROM {t} WHERE host > 3 GROUP BY host HAVING count(*) > 9 ORDER BY host'),
    ('SELECT host, host > 3 AS big, count(*) FROM {t} WHERE host > 3 GROUP BY host HAVING host > 3 ORDER BY host'),
    ('SELECT x.id, s.* FROM x, LATERAL (SELECT x.flag AS f, NOT x.flag AS g, count(*) AS n FROM {t} WHERE x.flag) s ORDER BY x.id'),
    ('SELECT x.id, s.* FROM x, LATERAL (SELECT x.id > 2 AS f, host, host > x.id AS g, count(*) AS n FROM {t} WHERE x.id > 2 AND host > x.id GROUP BY host) s ORDER BY 1, 3')) q(query),
    compare(q.query) c;
EXPLAIN (COSTS OFF, VERBOSE) SELECT host, host > 3 AS big, count(*) FROM v WHERE host > 3 GROUP BY host;

-- Volatile conditions on the other side of a join are evaluated row by row.
CREATE TABLE names(id int, n int, five int);
INSERT INTO names SELECT 1, 1 + g / 8, 5 FROM generate_series(0, 79) g;
ANALYZE names;
CREATE TEMP SEQUENCE s;
CREATE FUNCTION draws() RETURNS bigint LANGUAGE sql AS $$ SELECT last_value FROM s $$;
EXPLAIN (COSTS OFF) SELECT count(*) FROM v WHERE host IN (SELECT id FROM names WHERE n <= nextval('s'));
SELECT count(*) FROM h WHERE host IN (SELECT id FROM names WHERE n <= nextval('s'));
SELECT draws();
SELECT setval('s', 1, false);
SELECT count(*) FROM v WHERE host IN (SELECT id FROM names WHERE n <= nextval('s'));
SELECT draws();
-- Of rows that are alike not all have the same fate.
SELECT count(*) = 0 AS no_one, count(*) = 80 * (SELECT count(*) FROM h WHERE host = 1) AS every_one FROM v JOIN names ON id = host
    WHERE five > random() * 10;

-- A join reads the table no more often than the values come that it has; each pass over it comes upon two chunks.
TRUNCATE names;
INSERT INTO names SELECT 77 FROM generate_series(1, 1000);
INSERT INTO names VALUES (1), (2), (2);
ANALYZE names;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_nestloop = off;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT count(*), sum(host) FROM v JOIN names ON host = id;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_nestloop;
SELECT count(*), sum(host) FROM v JOIN names ON host = id;
SELECT count(*), sum(host) FROM h JOIN names ON host = id;
DROP TABLE names;
DROP SEQUENCE s;
DROP FUNCTION draws;

-- Conditions that no vectors decide are evaluated in core's order: cheap ones first, and as they are written where they cost the same.
SELECT compare('SELECT host, count(*) FROM {t} WHERE txt::int > 5 AND txt ~ ''^[0-9]+$'' GROUP BY host ORDER BY host');
CREATE FUNCTION dear(text) RETURNS bool LANGUAGE plpgsql IMMUTABLE COST 1000 AS $$ BEGIN RETURN $1::int > 5; END $$;
CREATE FUNCTION cheap(text) RETURNS bool LANGUAGE plpgsql IMMUTABLE COST 1 AS $$ BEGIN RETURN $1 ~ '^[0-9]+$'; END $$;
SELECT compare('SELECT host, count(*) FROM {t} WHERE dear(txt) AND cheap(txt) GROUP BY host ORDER BY host');
SELECT compare('SELECT host, count(*) FROM {t} WHERE cheap(txt) AND cheap(txt || '''') AND dear(txt) GROUP BY host ORDER BY host');
-- Those of a policy come first, unless another one is cheap and tells nobody of values.
CREATE FUNCTION tells(text) RETURNS bool LANGUAGE plpgsql IMMUTABLE COST 1 AS $$ BEGIN RAISE NOTICE 'told'; RETURN true; END $$;
CREATE FUNCTION sees(text) RETURNS bool LANGUAGE plpgsql IMMUTABLE COST 500 AS $$ BEGIN RETURN $1 ~ '^77'; END $$;
CREATE FUNCTION silent(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE LEAKPROOF COST 5 AS $$ BEGIN RETURN $1 = 3; END $$;
CREATE FUNCTION costly(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE LEAKPROOF COST 50 AS $$ BEGIN RETURN $1 = 3; END $$;
CREATE ROLE varve_faithful;
GRANT SELECT ON h, v TO varve_faithful;
ALTER TABLE h ENABLE ROW LEVEL SECURITY;
ALTER TABLE v ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON h USING (sees(txt));
CREATE POLICY few ON v USING (sees(txt));
SET ROLE varve_faithful;
SELECT count(*) FROM h WHERE tells(txt) AND txt < '772';
SELECT count(*) FROM v WHERE tells(txt) AND txt < '772';
EXPLAIN (COSTS OFF) SELECT count(*) FROM h WHERE tells(txt) AND costly(host) AND silent(host);
EXPLAIN (COSTS OFF) SELECT count(*) FROM v WHERE tells(txt) AND costly(host) AND silent(host);
RESET ROLE;
ALTER TABLE h DISABLE ROW LEVEL SECURITY;
ALTER TABLE v DISABLE ROW LEVEL SECURITY;
DROP POLICY few ON h;
DROP POLICY few ON v;
REVOKE ALL ON h, v FROM varve_faithful;
DROP ROLE varve_faithful;
DROP FUNCTION dear, cheap, tells, sees, silent, costly;

-- Who may not call an aggregate gets no result of it, nor where its owner may not call what it is made of.
CREATE AGGREGATE own_count(*) (SFUNC = int8inc, STYPE = int8, COMBINEFUNC = int8pl, INITCOND = '0', PARALLEL = SAFE);
CREATE AGGREGATE own_mean(float8) (SFUNC = float8_accum, STYPE = float8[], FINALFUNC = float8_avg, COMBINEFUNC = float8_combine, INITCOND = '{0,0,0}', PARALLEL = SAFE);
REVOKE EXECUTE ON FUNCTION own_count(), own_mean(float8) FROM PUBLIC;
CREATE ROLE varve_faithful;
GRANT SELECT ON h, v TO varve_faithful;
SELECT own_count(*), own_mean(value) FROM v;
CREATE FUNCTION tries(query text) RETURNS TABLE (of_table text, result text) LANGUAGE plpgsql AS $$
BEGIN
    FOREACH of_table IN ARRAY ARRAY['h', 'v'] LOOP
        BEGIN
            EXECUTE replace(query, '{t}', of_table) INTO result;
        EXCEPTION WHEN insufficient_privilege THEN
            result := SQLERRM;
        END;
        RETURN NEXT;
    END LOOP;
END $$;
SET ROLE varve_faithful;
SELECT * FROM tries('SELECT own_count(*) FROM {t}');
SELECT * FROM tries('SELECT own_count(*) FROM {t} GROUP BY host HAVING max(value) > 0');
SELECT * FROM tries('SELECT own_mean(value) FROM {t}');
SELECT * FROM tries('EXPLAIN SELECT own_mean(value) FROM {t}');
SELECT * FROM tries('SELECT round(avg(value)) FROM {t}');
RESET ROLE;
GRANT EXECUTE ON FUNCTION own_count(), own_mean(float8) TO varve_faithful;
SET ROLE varve_faithful;
SELECT * FROM tries('SELECT own_count(*) FROM {t}');
RESET ROLE;
ALTER AGGREGATE own_mean(float8) OWNER TO varve_faithful;
REVOKE EXECUTE ON FUNCTION float8_avg(float8[]) FROM PUBLIC;
SELECT * FROM tries('SELECT own_mean(value) FROM {t}');
GRANT EXECUTE ON FUNCTION float8_avg(float8[]) TO PUBLIC;
REVOKE EXECUTE ON FUNCTION float8_accum(float8[], float8) FROM PUBLIC;
SELECT * FROM tries('SELECT own_mean(value) FROM {t}');
SELECT * FROM tries('SELECT own_mean(value) FROM {t} HAVING count(*) > 0');
GRANT EXECUTE ON FUNCTION float8_accum(float8[], float8) TO PUBLIC;
SELECT * FROM tries('SELECT round(own_mean(value)) FROM {t}');
DROP AGGREGATE own_mean(float8), own_count(*);
REVOKE ALL ON h, v FROM varve_faithful;
DROP ROLE varve_faithful;
DROP FUNCTION tries;

DROP TABLE h, v, x;
DROP FUNCTION compare;
