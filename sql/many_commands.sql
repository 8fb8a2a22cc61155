-- Many commands of one transaction that change a row each: what a heap does, and few versions of the headers.
CREATE TABLE h(time timestamptz NOT NULL, host int, value int, PRIMARY KEY (host, time));
CREATE TABLE v(time timestamptz NOT NULL, host int, value int, PRIMARY KEY (host, time)) USING varve;
INSERT INTO h SELECT '2026-01-01'::timestamptz + g * interval '1 s', g % 3, g FROM generate_series(1, 30000) g;
INSERT INTO v SELECT * FROM h;
CALL varve.compact('v');
SELECT count(*) AS chunks FROM varve.chunks('v');
SELECT name AS format, rows FROM varve.stats('v') WHERE part = 'varve.format';
CREATE VIEW differences AS
    (SELECT 'heap' AS only_in, h::text AS row FROM h EXCEPT ALL SELECT 'heap', v::text FROM v) UNION ALL
    (SELECT 'varve', v::text FROM v EXCEPT ALL SELECT 'varve', h::text FROM h);
CREATE FUNCTION size() RETURNS bigint LANGUAGE sql AS $$ SELECT pg_total_relation_size('v') $$;
CREATE FUNCTION at(i int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT '2026-01-01'::timestamptz + i * interval '1 s' $$;
CREATE PROCEDURE on_both(body text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'DO ' || quote_literal(replace(body, '{t}', 'h'));
    EXECUTE 'DO ' || quote_literal(replace(body, '{t}', 'v'));
END $$;

-- Deletes, one by one. Thousands of header versions took a page each.
SELECT size() AS before \gset
CALL on_both($$BEGIN FOR i IN 1..4000 LOOP DELETE FROM {t} WHERE host = i % 3 AND time = at(i); END LOOP; END$$);
SELECT count(*) AS differences FROM differences;
SELECT size() - :before < 1000000 AS small_growth;

-- In blocks that catch errors, nested, a part of which is undone; the same row again after that.
SELECT size() AS before \gset
CALL on_both($$BEGIN
    FOR i IN 4001..7000 LOOP
        BEGIN
            DELETE FROM {t} WHERE host = i % 3 AND time = at(i);
            BEGIN
                UPDATE {t} SET value = -i WHERE host = (i + 1) % 3 AND time = at(i + 10000);
                IF i % 3 = 0 THEN RAISE division_by_zero; END IF;
            EXCEPTION WHEN division_by_zero THEN
                UPDATE {t} SET value = value + 1 WHERE host = (i + 1) % 3 AND time = at(i + 10000);
            END;
            IF i % 4 = 0 THEN RAISE division_by_zero; END IF;
        EXCEPTION WHEN division_by_zero THEN NULL;
        END;
    END LOOP;
END$$);
SELECT count(*) AS differences FROM differences;
SELECT size() - :before < 1000000 AS small_growth;

-- A cursor goes on showing what was there when it was opened, whatever is deleted and written meanwhile.
CALL on_both($$DECLARE
    seen refcursor; one record; rows int := 0; total bigint := 0;
BEGIN
    FOR i IN 7001..7100 LOOP DELETE FROM {t} WHERE host = i % 3 AND time = at(i); END LOOP;
    OPEN seen FOR SELECT value FROM {t} WHERE time > at(7000) AND time <= at(9000);
    FOR i IN 7101..8500 LOOP
        DELETE FROM {t} WHERE host = i % 3 AND time = at(i);
        IF i % 10 = 0 THEN FETCH seen INTO one; rows := rows + 1; total := total + abs(one.value); END IF;
    END LOOP;
    LOOP
        FETCH seen INTO one;
        EXIT WHEN NOT FOUND;
        rows := rows + 1; total := total + abs(one.value);
    END LOOP;
    IF rows <> 1900 THEN RAISE 'the cursor shows % rows', rows; END IF;
    DELETE FROM {t} WHERE time > at(8500) AND time < at(8700);
    SELECT count(*) INTO rows FROM {t} WHERE time > at(7000) AND time <= at(9000);
    IF rows <> 301 THEN RAISE 'there are % rows', rows; END IF;
END$$);
SELECT count(*) AS differences FROM differences;

-- WHERE CURRENT OF, row by row.
CALL on_both($$DECLARE
    seen CURSOR FOR SELECT * FROM {t} WHERE host = 1 AND time >= at(9000) AND time < at(12000) FOR UPDATE;
BEGIN
    FOR row IN seen LOOP
        IF row.value % 2 = 0 THEN DELETE FROM {t} WHERE CURRENT OF seen;
        ELSE UPDATE {t} SET value = row.value + 1 WHERE CURRENT OF seen;
        END IF;
    END LOOP;
END$$);
SELECT count(*) AS differences FROM differences;

-- Upserts of rows that are there and of new ones.
SELECT size() AS before \gset
CALL on_both($$BEGIN
    FOR i IN 20001..22000 LOOP
        INSERT INTO {t} VALUES (at(i), (i + i % 2) % 3, i) ON CONFLICT (host, time) DO UPDATE SET value = -excluded.value;
    END LOOP;
END$$);
SELECT count(*) AS differences FROM differences;
SELECT size() - :before < 1000000 AS small_growth;

-- Savepoints of a session, and what a transaction of one snapshot sees.
BEGIN ISOLATION LEVEL REPEATABLE READ;
DELETE FROM v WHERE host = 2 AND time <= at(24000) AND value % 5 = 0;
DELETE FROM h WHERE host = 2 AND time <= at(24000) AND value % 5 = 0;
SAVEPOINT a;
DELETE FROM v WHERE host = 2;
SAVEPOINT b;
DELETE FROM v WHERE host = 0 AND value % 2 = 0;
DELETE FROM h WHERE host = 0 AND value % 2 = 0;
RELEASE b;
SELECT count(*) > 0 AS differ FROM differences;
ROLLBACK TO a;
SAVEPOINT c;
UPDATE v SET value = 7 WHERE host = 0 AND time = at(25002);
UPDATE h SET value = 7 WHERE host = 0 AND time = at(25002);
RELEASE c;
SELECT count(*) AS differences FROM differences;
COMMIT;
SELECT count(*) AS differences FROM differences;

-- ON DELETE CASCADE, parent by parent.
CREATE TABLE parents(id int PRIMARY KEY);
CREATE TABLE children(parent int NOT NULL REFERENCES parents ON DELETE CASCADE, time timestamptz NOT NULL, PRIMARY KEY (parent, time)) USING varve;
INSERT INTO parents SELECT generate_series(1, 1500);
INSERT INTO children SELECT g % 1500 + 1, at(g) FROM generate_series(1, 6000) g;
CALL varve.compact('children');
DELETE FROM parents WHERE id <= 1400;
SELECT count(*), min(parent) FROM children;
SELECT * FROM varve.verify('children');
SELECT * FROM varve.verify('v');
CALL varve.compact('v');
SELECT count(*) AS differences FROM differences;
DROP TABLE h, v, children, parents CASCADE;
DROP FUNCTION size, at;
DROP PROCEDURE on_both;
