-- Foreign keys from and to tables whose rows are compressed do what they do on heaps: every statement runs on a pair of heaps
-- and on a pair of varve tables, and must end alike on both.
\pset format unaligned
\set VERBOSITY terse
CREATE SCHEMA h;
CREATE SCHEMA v;
-- Runs a statement in both schemas. What it came to is shown once where it is the same, and both where not.
CREATE FUNCTION attempt(schema text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE rows bigint; code text; said text; detail text;
BEGIN
    PERFORM set_config('search_path', schema || ', public', true);
    EXECUTE statement;
    GET DIAGNOSTICS rows = ROW_COUNT;
    RETURN rows || ' rows';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, said = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
    -- Of several rows that are wrong, which is met first may differ.
    RETURN code || ' ' || said || '; ' || regexp_replace(detail, '=\(.*?\)', '');
END $$;
CREATE FUNCTION on_both(statement text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT CASE WHEN h = v THEN h ELSE 'DIFFERENT: ' || h || ' | ' || v END
    FROM (SELECT attempt('h', statement) AS h, attempt('v', statement) AS v OFFSET 0) s
$$;
-- What the tables of the two schemas have not in common.
CREATE FUNCTION differences() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE name text;
BEGIN
    FOR name IN SELECT relname FROM pg_class WHERE relnamespace = 'h'::regnamespace AND relkind IN ('r', 'p') ORDER BY relname LOOP
        RETURN QUERY EXECUTE format('SELECT %1$L || '': heap '' || r FROM (SELECT t::text AS r FROM h.%1$I t EXCEPT ALL SELECT t::text FROM v.%1$I t) s
            UNION ALL SELECT %1$L || '': varve '' || r FROM (SELECT t::text AS r FROM v.%1$I t EXCEPT ALL SELECT t::text FROM h.%1$I t) s', name);
    END LOOP;
END $$;
-- A pair of parent and child with this constraint, filled; 1,000 parents of five series, of which every fourth has children.
CREATE PROCEDURE make_pair(actions text) LANGUAGE plpgsql AS $$
DECLARE schema text; method text;
BEGIN
    FOR schema, method IN VALUES ('h', 'heap'), ('v', 'varve') LOOP
        PERFORM set_config('search_path', schema || ', public', true);
        EXECUTE format('CREATE TABLE p(device text, time timestamptz, value int, PRIMARY KEY (device, time)) USING %s', method);
        EXECUTE format('CREATE TABLE c(id int, device text DEFAULT ''d0'', time timestamptz DEFAULT ''2026-01-01'', at timestamptz, value int,
            CONSTRAINT c_p FOREIGN KEY (device, time) REFERENCES p %s) USING %s', actions, method);
        IF schema = 'v' THEN
            CREATE INDEX ON p USING varve (device, time);
            CREATE INDEX ON c USING varve (device, at);
        END IF;
        INSERT INTO p SELECT 'd' || g % 5, '2026-01-01'::timestamptz + g * interval '1 s', g FROM generate_series(0, 999) g;
        INSERT INTO c SELECT g, 'd' || g % 5, '2026-01-01'::timestamptz + g * interval '1 s', '2026-02-01'::timestamptz + g * interval '1 s', g
        FROM generate_series(0, 999, 4) g;
        INSERT INTO c SELECT 1000 + g, 'd' || g % 5, '2026-01-01'::timestamptz + g * interval '1 s', '2026-03-01'::timestamptz + g * interval '1 s', g
        FROM generate_series(0, 999, 40) g;
    END LOOP;
END $$;
CREATE FUNCTION compressed() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT count(*) > 0 FROM varve.chunks('v.p')) AND (SELECT count(*) > 0 FROM varve.chunks('v.c'));
END $$;
-- Runs all statements, in a transaction each, on compressed rows that each of them finds as the ones before have left them.
CREATE TABLE statements(at serial, statement text);
CREATE TABLE outcomes(at int, outcome text, differences bigint);
CREATE PROCEDURE run_all() LANGUAGE plpgsql AS $$
DECLARE next record;
BEGIN
    DELETE FROM public.outcomes;
    FOR next IN SELECT * FROM public.statements ORDER BY at LOOP
        INSERT INTO public.outcomes(at, outcome) VALUES (next.at, on_both(next.statement));
        COMMIT;
        UPDATE public.outcomes SET differences = (SELECT count(*) FROM differences()) WHERE at = next.at;
        COMMIT;
    END LOOP;
END $$;

INSERT INTO statements(statement) VALUES
    -- Children: of a parent that is there, is not, has nulls.
    ($$INSERT INTO c VALUES (1, 'd1', '2026-01-01 00:00:01', '2026-04-01', 1)$$),
    ($$INSERT INTO c VALUES (2, 'd2', '2026-01-01 00:00:01', '2026-04-01', 1)$$),
    ($$INSERT INTO c VALUES (3, NULL, '2026-01-01 00:00:01', '2026-04-01', 1)$$),
    ($$INSERT INTO c SELECT g, 'd' || g % 5, '2026-01-01'::timestamptz + g * interval '1 s', '2026-05-01', g FROM generate_series(600, 700) g$$),
    ($$INSERT INTO c SELECT g, 'd' || g % 5, '2026-01-01'::timestamptz + g * interval '1 s', '2026-05-01', g FROM generate_series(990, 1001) g$$),
    -- Compressed children get another parent, one that is not there, none, the same.
    ($$UPDATE c SET device = 'd2', time = '2026-01-01 00:00:02' WHERE id IN (4, 44, 88)$$),
    ($$UPDATE c SET device = 'd2', time = '2026-01-01 00:00:03' WHERE id IN (8, 48)$$),
    ($$UPDATE c SET device = NULL WHERE id IN (12, 52)$$),
    ($$UPDATE c SET value = -value WHERE id BETWEEN 100 AND 140$$),
    -- Parents without children, with them, many of a series, over several chunks.
    ($$DELETE FROM p WHERE value IN (3, 7)$$),
    ($$DELETE FROM p WHERE value = 16$$),
    ($$DELETE FROM p WHERE value = 40$$),
    ($$DELETE FROM p WHERE value IN (21, 22, 24)$$),
    ($$DELETE FROM p WHERE device = 'd3' AND value < 300$$),
    ($$DELETE FROM p WHERE value BETWEEN 400 AND 460$$),
    -- Keys of parents change, and what is no key.
    ($$UPDATE p SET value = -value WHERE value BETWEEN 60 AND 80$$),
    ($$UPDATE p SET time = time + interval '1 day' WHERE value = 501$$),
    ($$UPDATE p SET time = time + interval '1 day' WHERE value = 504$$),
    ($$UPDATE p SET device = 'new' WHERE value BETWEEN 520 AND 560$$),
    ($$UPDATE p SET time = time WHERE value = 504$$),
    -- A parent goes and one of its key comes, or another takes its place.
    ($$WITH gone AS (DELETE FROM p WHERE value = 600 RETURNING *) INSERT INTO p SELECT device, time, 6000 FROM gone$$),
    -- A parent and its children in one statement.
    ($$WITH children AS (DELETE FROM c WHERE device = 'd3' AND time = '2026-01-01 00:10:08' RETURNING *) DELETE FROM p WHERE value = 608$$),
    ($$DO 'BEGIN DELETE FROM c WHERE id IN (612, 1612); DELETE FROM p WHERE value = 612; END'$$),
    ($$DO 'BEGIN DELETE FROM p WHERE value = 616; INSERT INTO p VALUES (''d1'', ''2026-01-01 00:10:16'', 616); END'$$),
    -- A savepoint that takes back what it cascaded to.
    ($$DO 'BEGIN BEGIN DELETE FROM p WHERE value BETWEEN 640 AND 650; UPDATE p SET time = time + interval ''1 hour'' WHERE value BETWEEN 651 AND 660; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END; DELETE FROM p WHERE value = 644; END'$$),
    -- ON CONFLICT beside a foreign key.
    ($$INSERT INTO p VALUES ('d0', '2026-01-01 00:11:40', 7000), ('d0', '2026-06-01', 7001) ON CONFLICT (device, time) DO UPDATE SET value = EXCLUDED.value$$),
    ($$TRUNCATE p$$),
    -- The rest of it.
    ($$DELETE FROM p WHERE device IN ('d1', 'd2')$$),
    ($$UPDATE p SET time = time + interval '1 year'$$);

\set renew 'CALL make_pair(:''actions''); CALL varve.compact(''v.p''); CALL varve.compact(''v.c''); SELECT compressed();'
\set drop 'CALL varve.compact(''v.p''); CALL varve.compact(''v.c''); SELECT * FROM differences(); SELECT count(*) AS faults FROM varve.verify(''v.p''); SELECT count(*) AS faults FROM varve.verify(''v.c''); DROP TABLE h.c, v.c, h.p, v.p;'
\set actions ''
:renew
CALL run_all();
SELECT * FROM outcomes ORDER BY at;
:drop
\set actions 'ON DELETE RESTRICT ON UPDATE RESTRICT'
:renew
CALL run_all();
SELECT * FROM outcomes ORDER BY at;
:drop
\set actions 'ON DELETE CASCADE ON UPDATE CASCADE'
:renew
CALL run_all();
SELECT * FROM outcomes ORDER BY at;
:drop
\set actions 'ON DELETE SET NULL ON UPDATE SET NULL'
:renew
CALL run_all();
SELECT * FROM outcomes ORDER BY at;
:drop
\set actions 'ON DELETE SET DEFAULT ON UPDATE SET DEFAULT'
:renew
CALL run_all();
SELECT * FROM outcomes ORDER BY at;
:drop
\set actions 'MATCH FULL ON DELETE SET NULL (device, time) ON UPDATE CASCADE'
:renew
CALL run_all();
SELECT * FROM outcomes ORDER BY at;
:drop

-- Checks that are deferred to the end of the transaction.
\set actions 'DEFERRABLE INITIALLY DEFERRED'
:renew
-- A child before its parent.
\set on_one 'BEGIN; INSERT INTO c VALUES (1, ''d9'', ''2026-01-09'', ''2026-04-01'', 1); INSERT INTO p VALUES (''d9'', ''2026-01-09'', 9); COMMIT;'
SET search_path = h, public; :on_one SET search_path = v, public; :on_one
\set on_one 'BEGIN; INSERT INTO c VALUES (2, ''d9'', ''2026-01-10'', ''2026-04-01'', 1); COMMIT;'
SET search_path = h, public; :on_one SET search_path = v, public; :on_one
-- A compressed parent goes, with its compressed children, in any order; and without.
\set on_one 'BEGIN; DELETE FROM p WHERE value = 44; DELETE FROM c WHERE id IN (44, 1044); COMMIT;'
SET search_path = h, public; :on_one SET search_path = v, public; :on_one
\set on_one 'BEGIN; DELETE FROM p WHERE value BETWEEN 48 AND 51; DELETE FROM p WHERE value BETWEEN 61 AND 63; COMMIT;'
SET search_path = h, public; :on_one SET search_path = v, public; :on_one
\set on_one 'BEGIN; DELETE FROM p WHERE value BETWEEN 52 AND 90; UPDATE c SET device = NULL WHERE time BETWEEN ''2026-01-01 00:00:52'' AND ''2026-01-01 00:01:30''; COMMIT;'
SET search_path = h, public; :on_one SET search_path = v, public; :on_one
-- A parent goes and comes again, or another takes its key.
\set on_one 'BEGIN; DELETE FROM p WHERE value = 100; INSERT INTO p VALUES (''d0'', ''2026-01-01 00:01:40'', 10000); COMMIT;'
SET search_path = h, public; :on_one SET search_path = v, public; :on_one
\set on_one 'BEGIN; UPDATE p SET time = ''2027-01-01'' WHERE value = 104; UPDATE p SET device = ''d4'', time = ''2026-01-01 00:01:44'' WHERE value = 101; COMMIT;'
SET search_path = h, public; :on_one SET search_path = v, public; :on_one
-- Savepoints, and checks that are asked for early.
\set on_one 'BEGIN; SAVEPOINT a; DELETE FROM p WHERE value BETWEEN 108 AND 200; ROLLBACK TO a; DELETE FROM p WHERE value = 109; SET CONSTRAINTS ALL IMMEDIATE; SAVEPOINT b; DELETE FROM p WHERE value = 112; ROLLBACK TO b; COMMIT;'
SET search_path = h, public; :on_one SET search_path = v, public; :on_one
\set on_one 'BEGIN; SAVEPOINT a; DELETE FROM p WHERE value BETWEEN 108 AND 200; RELEASE a; SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK;'
SET search_path = h, public; :on_one SET search_path = v, public; :on_one
\set on_one 'BEGIN; UPDATE c SET time = time + interval ''1 year'' WHERE id = 116; UPDATE c SET value = 1 WHERE id = 116; UPDATE c SET time = time - interval ''1 year'' WHERE id = 116; COMMIT;'
SET search_path = h, public; :on_one SET search_path = v, public; :on_one
RESET search_path;
SELECT * FROM differences();
-- The constraint goes, comes over rows that break it and over rows that do not, unchecked and then checked.
SELECT on_both('ALTER TABLE c DROP CONSTRAINT c_p'), on_both('DELETE FROM p WHERE value IN (200, 240)');
SELECT on_both('ALTER TABLE c ADD FOREIGN KEY (device, time) REFERENCES p');
SELECT on_both('ALTER TABLE c ADD CONSTRAINT late FOREIGN KEY (device, time) REFERENCES p ON DELETE CASCADE NOT VALID');
SELECT on_both('ALTER TABLE c VALIDATE CONSTRAINT late');
SELECT on_both('DELETE FROM c WHERE time IN (''2026-01-01 00:03:20'', ''2026-01-01 00:04:00'')');
SELECT on_both('ALTER TABLE c VALIDATE CONSTRAINT late');
SELECT on_both('DELETE FROM p WHERE value BETWEEN 300 AND 400');
:drop

-- A table that refers to itself, level by level, and cascades.
CREATE TABLE h.tree(device text, time timestamptz, up timestamptz, PRIMARY KEY (device, time), FOREIGN KEY (device, up) REFERENCES h.tree ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE v.tree(device text, time timestamptz, up timestamptz, PRIMARY KEY (device, time), FOREIGN KEY (device, up) REFERENCES v.tree ON DELETE CASCADE ON UPDATE CASCADE) USING varve;
CREATE INDEX ON v.tree USING varve (device, time);
SELECT on_both($$INSERT INTO tree SELECT 'd' || d, '2026-01-01'::timestamptz + g * interval '1 s', CASE WHEN g > 1 THEN '2026-01-01'::timestamptz + g / 2 * interval '1 s' END
    FROM generate_series(1, 500) g, generate_series(1, 3) d$$);
CALL varve.compact('v.tree');
SELECT count(*) > 0 AS compressed FROM varve.chunks('v.tree');
SELECT on_both($$DELETE FROM tree WHERE device = 'd1' AND time = '2026-01-01 00:00:05'$$), count(*) AS differences FROM differences();
SELECT on_both($$UPDATE tree SET time = time + interval '1 day' WHERE device = 'd2' AND time BETWEEN '2026-01-01 00:00:07' AND '2026-01-01 00:00:20'$$);
SELECT count(*) AS differences FROM differences();
SELECT on_both($$UPDATE tree SET device = 'd9' WHERE device = 'd3' AND time = '2026-01-01 00:00:01'$$);
SELECT on_both($$INSERT INTO tree VALUES ('d3', '2026-01-02', '2026-01-03')$$);
SELECT on_both($$DELETE FROM tree WHERE device = 'd2' AND time = '2026-01-01 00:00:01'$$);
SELECT * FROM differences();
DROP TABLE h.tree, v.tree;

-- From the partitions of one table to those of another; rows go from partition to partition.
CREATE TABLE h.p(device text, time timestamptz, value int, PRIMARY KEY (device, time)) PARTITION BY RANGE (time);
CREATE TABLE h.p1 PARTITION OF h.p FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE h.p2 PARTITION OF h.p FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
CREATE TABLE h.c(device text, time timestamptz, at timestamptz, FOREIGN KEY (device, time) REFERENCES h.p ON UPDATE CASCADE ON DELETE SET NULL) PARTITION BY RANGE (at);
CREATE TABLE h.c1 PARTITION OF h.c FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE h.c2 PARTITION OF h.c FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
CREATE TABLE v.p(device text, time timestamptz, value int, PRIMARY KEY (device, time)) PARTITION BY RANGE (time);
CREATE TABLE v.p1 PARTITION OF v.p FOR VALUES FROM ('2026-01-01') TO ('2026-02-01') USING varve;
CREATE TABLE v.p2 PARTITION OF v.p FOR VALUES FROM ('2026-02-01') TO ('2026-03-01') USING varve;
CREATE TABLE v.c(device text, time timestamptz, at timestamptz, FOREIGN KEY (device, time) REFERENCES v.p ON UPDATE CASCADE ON DELETE SET NULL) PARTITION BY RANGE (at);
CREATE TABLE v.c1 PARTITION OF v.c FOR VALUES FROM ('2026-01-01') TO ('2026-02-01') USING varve;
CREATE TABLE v.c2 PARTITION OF v.c FOR VALUES FROM ('2026-02-01') TO ('2026-03-01') USING varve;
CREATE INDEX ON v.p1 USING varve (device, time);
CREATE INDEX ON v.p2 USING varve (device, time);
SELECT on_both($$INSERT INTO p SELECT 'd' || g % 3, '2026-01-20'::timestamptz + g * interval '1 h', g FROM generate_series(0, 499) g$$),
       on_both($$INSERT INTO c SELECT 'd' || g % 3, '2026-01-20'::timestamptz + g * interval '1 h', '2026-01-15'::timestamptz + g * interval '1 h' FROM generate_series(0, 499, 2) g$$);
CALL varve.compact('v.p1');
CALL varve.compact('v.p2');
CALL varve.compact('v.c1');
CALL varve.compact('v.c2');
SELECT (SELECT count(*) > 0 FROM varve.chunks('v.p1')) AND (SELECT count(*) > 0 FROM varve.chunks('v.c1')) AS compressed;
SELECT on_both($$UPDATE p SET time = time + interval '10 days' + interval '1 minute' WHERE value BETWEEN 100 AND 120$$), count(*) AS differences FROM differences();
SELECT on_both($$DELETE FROM p WHERE value IN (200, 201, 202, 110)$$);
SELECT on_both($$UPDATE c SET at = '2026-02-20' WHERE at < '2026-01-18'$$);
SELECT on_both($$UPDATE c SET time = time + interval '1 h' WHERE at > '2026-02-02'$$);
SELECT on_both($$INSERT INTO c VALUES ('d1', '2026-01-20', '2026-01-20')$$);
SELECT * FROM differences();
DROP TABLE h.c, v.c, h.p, v.p;
DROP TABLE statements, outcomes;
DROP FUNCTION attempt, on_both, differences, compressed;
DROP PROCEDURE make_pair, run_all;
DROP SCHEMA h, v;
