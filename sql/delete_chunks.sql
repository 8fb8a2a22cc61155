-- A DELETE takes the rows that it wants of chunks together, where nobody wants to know of each of them. The same statements on a heap.
CREATE TABLE v(host int NOT NULL, time timestamptz NOT NULL, a float8, n int, s text, PRIMARY KEY (host, time)) USING varve;
CREATE TABLE h(LIKE v INCLUDING ALL) USING heap;
CREATE FUNCTION fill() RETURNS void LANGUAGE sql AS $$
    TRUNCATE v, h;
    INSERT INTO h
        SELECT i % 20, '2026-01-01'::timestamptz + i / 20 * interval '10 s',
               CASE WHEN i % 11 = 0 THEN 'NaN' WHEN i % 13 = 0 THEN NULL ELSE hashint4(i) % 1000 / 10.0 END,
               nullif(i % 100, 7), 'x' || i % 7
        FROM generate_series(1, 60000) i;
    INSERT INTO v SELECT * FROM h;
$$;
-- How many rows a DELETE says that it has deleted, on both, and whether the same are left. %s stands for the table.
\set ECHO none
\i sql/include/on_both.psql
\set ECHO all
-- The lines of a plan that say what was done, and to how many rows.
CREATE FUNCTION shown(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) ' || statement LOOP
        IF line ~ 'Delete on|VarveChunkDelete|Chunks:|Together' THEN
            RETURN NEXT regexp_replace(line, ' \(actual.*', '');
        END IF;
    END LOOP;
END $$;
SELECT fill();
CALL varve.compact('v');
ANALYZE v;

-- What the plan says; it deletes rows no more than once.
BEGIN;
SELECT shown('DELETE FROM v WHERE time < ''2026-01-01 02:00''');
SELECT shown('DELETE FROM v WHERE time < ''2026-01-01 02:00''');
ROLLBACK;
-- Few rows go one by one.
EXPLAIN (COSTS off) DELETE FROM v WHERE host = 3 AND time = '2026-01-01 02:00';
-- Every kind of condition, one after the other on what the last one left.
SELECT * FROM on_both('DELETE FROM %s WHERE time < ''2026-01-01 01:00''');
SELECT * FROM on_both('DELETE FROM %s WHERE time BETWEEN ''2026-01-01 03:00'' AND ''2026-01-01 04:00'' AND host IN (1, 2, 5)');
SELECT * FROM on_both('DELETE FROM %s WHERE a > 99');
SELECT * FROM on_both('DELETE FROM %s WHERE a IS NULL');
SELECT * FROM on_both('DELETE FROM %s WHERE n < 30 AND s = ''x3''');
SELECT * FROM on_both('DELETE FROM %s WHERE n <> 50 AND host = 9');
SELECT * FROM on_both('DELETE FROM %s WHERE host = 9');
SELECT * FROM on_both('DELETE FROM %s WHERE host = 9');
SELECT * FROM on_both('DELETE FROM %s WHERE n = NULL');
SELECT count(*) AS faults FROM varve.verify('v');
CALL varve.compact('v');
SELECT * FROM on_both('DELETE FROM %s WHERE time > ''2026-01-01 07:00''');
SELECT * FROM on_both('DELETE FROM %s');
SELECT count(*) AS faults FROM varve.verify('v');

-- Chunks, fresh chunks and the tail together; rows changed before by the same transaction.
SELECT fill();
CALL varve.compact('v');
INSERT INTO v SELECT host, time + interval '1 day', a, n, s FROM h;
INSERT INTO v SELECT 99, '2026-01-01'::timestamptz + i * interval '1 min', i, i, 'tail' FROM generate_series(1, 300) i;
INSERT INTO h SELECT * FROM (TABLE v EXCEPT TABLE h) new;
ANALYZE v;
BEGIN;
UPDATE v SET a = -1 WHERE n = 11;
UPDATE h SET a = -1 WHERE n = 11;
SELECT * FROM on_both('DELETE FROM %s WHERE n BETWEEN 20 AND 22');
SAVEPOINT one;
SELECT * FROM on_both('DELETE FROM %s WHERE time < ''2026-01-01 02:00'' AND a < 50');
SELECT count(*) FROM v WHERE time < '2026-01-01 02:00' AND a < 50;
SAVEPOINT two;
SELECT * FROM on_both('DELETE FROM %s WHERE host < 10');
ROLLBACK TO two;
SELECT * FROM on_both('DELETE FROM %s WHERE host > 15 AND time > ''2026-01-01 05:00''');
ROLLBACK TO one;
SELECT * FROM on_both('DELETE FROM %s WHERE s = ''x1''');
COMMIT;
SELECT * FROM on_both('DELETE FROM %s WHERE s = ''tail'' OR n = 3');
SELECT * FROM on_both('DELETE FROM %s WHERE s = ''tail''');
SELECT count(*) AS faults FROM varve.verify('v');

-- A cursor goes on seeing what it saw, though it was opened by a command of the same number.
BEGIN;
DECLARE c NO SCROLL CURSOR FOR SELECT host, time FROM v WHERE host = 4 ORDER BY time;
DECLARE d NO SCROLL CURSOR FOR SELECT count(*) FROM v;
FETCH 1 FROM c;
SELECT * FROM on_both('DELETE FROM %s WHERE time < ''2026-01-01 12:00''');
SELECT count(*) FROM v WHERE host = 4;
FETCH 2 FROM c;
MOVE FORWARD ALL IN c;
FETCH 1 FROM d;
ROLLBACK;

-- Prepared, with a plan for any value; the same keys again afterwards; a null.
PREPARE gone(timestamptz) AS DELETE FROM v WHERE time < $1;
SET plan_cache_mode = force_generic_plan;
BEGIN;
SELECT count(*) FROM v WHERE time < '2026-01-01 02:00';
EXECUTE gone('2026-01-01 02:00');
EXECUTE gone(NULL);
EXECUTE gone('2026-01-01 02:00');
INSERT INTO v SELECT host, time, 0, 0, 'again' FROM h WHERE time < '2026-01-01 02:00';
SELECT count(*) FROM v WHERE time < '2026-01-01 02:00';
EXECUTE gone('2026-01-01 02:00');
SELECT count(*) FROM v WHERE time < '2026-01-01 02:00';
ROLLBACK;
RESET plan_cache_mode;
-- In a function, with an error after it.
DO $$
DECLARE
    gone bigint;
BEGIN
    BEGIN
        DELETE FROM v WHERE host < 10;
        GET DIAGNOSTICS gone = ROW_COUNT;
        RAISE EXCEPTION 'back';
    EXCEPTION WHEN raise_exception THEN
        RAISE NOTICE 'deleted %, there are %', gone > 10000, (SELECT count(*) > 10000 FROM v WHERE host < 10);
    END;
END $$;

-- Whoever wants to know of each row keeps core's way: RETURNING, triggers, foreign keys, conditions of other kinds, other tables.
CREATE FUNCTION node(statement text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN ' || statement LOOP
        IF line ~ 'VarveChunkDelete' THEN RETURN true; END IF;
    END LOOP;
    RETURN false;
END $$;
SELECT node('DELETE FROM v'), node('DELETE FROM v WHERE host < 10 AND time < now()'), node('DELETE FROM ONLY v AS x WHERE x.host < 10'),
       node('DELETE FROM h');
SELECT node('DELETE FROM v RETURNING host'), node('DELETE FROM v WHERE host % 2 = 0'), node('DELETE FROM v WHERE a < random()'),
       node('DELETE FROM v USING h WHERE v.host = h.host'), node('DELETE FROM v WHERE host IN (SELECT host FROM h)'),
       node('WITH gone AS (DELETE FROM v RETURNING 1) SELECT count(*) FROM gone'), node('WITH gone AS (DELETE FROM v) TABLE h');
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE '%', TG_OP; RETURN NULL; END $$;
CREATE TRIGGER statement AFTER DELETE ON v EXECUTE FUNCTION noted();
SELECT node('DELETE FROM v');
BEGIN;
DELETE FROM v WHERE host < 2;
ROLLBACK;
DROP TRIGGER statement ON v;
CREATE TRIGGER transition AFTER DELETE ON v REFERENCING OLD TABLE AS gone EXECUTE FUNCTION noted();
SELECT node('DELETE FROM v');
DROP TRIGGER transition ON v;
CREATE TRIGGER each AFTER DELETE ON v FOR EACH ROW EXECUTE FUNCTION noted();
SELECT node('DELETE FROM v');
DROP TRIGGER each ON v;
CREATE TABLE child(host int, time timestamptz, FOREIGN KEY (host, time) REFERENCES v);
SELECT node('DELETE FROM v');
DROP TABLE child;
-- A rule's command says nothing of its rows.
CREATE TABLE commands(host int);
INSERT INTO commands SELECT generate_series(1, 3);
CREATE RULE also AS ON DELETE TO commands DO ALSO DELETE FROM v WHERE host < 5;
BEGIN;
DELETE FROM commands WHERE host = 1;
SELECT count(*) FROM v WHERE host < 5;
ROLLBACK;
DROP TABLE commands;
-- Rows that a policy hides stay.
CREATE ROLE reader;
GRANT SELECT, DELETE ON v TO reader;
ALTER TABLE v ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON v TO reader USING (host < 5);
SELECT count(*) AS others FROM v WHERE host >= 5 \gset
BEGIN;
SET ROLE reader;
SELECT node('DELETE FROM v');
DELETE FROM v WHERE a < 1000;
SELECT count(*) FROM v WHERE a < 1000;
RESET ROLE;
SELECT count(*) = :others AS others_stay FROM v WHERE host >= 5;
ROLLBACK;
ALTER TABLE v DISABLE ROW LEVEL SECURITY;
DROP OWNED BY reader;
DROP ROLE reader;

-- Columns that came later, or went.
ALTER TABLE v ADD COLUMN late int DEFAULT 5, DROP COLUMN n;
ALTER TABLE h ADD COLUMN late int DEFAULT 5, DROP COLUMN n;
SELECT * FROM on_both('DELETE FROM %s WHERE late > 5');
SELECT * FROM on_both('DELETE FROM %s WHERE late = 5 AND s = ''x4''');
SELECT count(*) AS faults FROM varve.verify('v');
CALL varve.compact('v');
SELECT * FROM on_both('DELETE FROM %s WHERE late = 5 AND s = ''x5''');
-- A table without a series index, and a temporary one.
CREATE TABLE bare(time timestamptz NOT NULL, n int) USING varve;
INSERT INTO bare SELECT '2026-01-01'::timestamptz + i * interval '1 s', i FROM generate_series(1, 20000) i;
CALL varve.compact('bare');
DELETE FROM bare WHERE n <= 15000;
SELECT count(*), min(n) FROM bare;
CREATE TEMP TABLE passing(time timestamptz NOT NULL, n int) USING varve;
CREATE INDEX ON passing USING varve (time);
INSERT INTO passing SELECT '2026-01-01'::timestamptz + i * interval '1 s', i FROM generate_series(1, 20000) i;
DELETE FROM passing WHERE n <= 15000;
SELECT count(*), min(n) FROM passing;
-- A function that a condition calls finds the table as the statement did when it began.
CREATE TABLE w(time timestamptz NOT NULL, n int) USING varve;
CREATE INDEX ON w USING varve (time);
INSERT INTO w SELECT '2026-01-01'::timestamptz + i * interval '1 s', i FROM generate_series(1, 20000) i;
INSERT INTO w VALUES ('2026-01-01 04:00', 0);
CREATE FUNCTION before_the_last() RETURNS timestamptz STABLE LANGUAGE sql AS $$ SELECT max(time) - interval '1 hour' FROM w $$;
SELECT node('DELETE FROM w WHERE time < before_the_last()');
DELETE FROM w WHERE time < before_the_last();
SELECT count(*), min(n) FROM w;
DROP TABLE v, h, bare, w;
DROP FUNCTION fill, on_both, differences, shown, node, noted, before_the_last;
