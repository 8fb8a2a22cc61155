-- Rows that a statement collects for a chunk belong to the subtransaction that wrote them, whatever happens in between.
CREATE TABLE v(id int, time timestamptz NOT NULL, device text) USING varve;
CREATE VIEW ids AS SELECT count(*), count(DISTINCT id) AS different, min(id), max(id) FROM v;

-- Batches across savepoints.
BEGIN;
INSERT INTO v SELECT g, '2026-01-01'::timestamptz + g * interval '1 s', 'a' FROM generate_series(1, 3000) g;
SAVEPOINT a;
INSERT INTO v SELECT g, '2026-01-01'::timestamptz + g * interval '1 s', 'a' FROM generate_series(3001, 6000) g;
SELECT * FROM ids;
ROLLBACK TO a;
SELECT * FROM ids;
INSERT INTO v SELECT g, '2026-01-01'::timestamptz + g * interval '1 s', 'a' FROM generate_series(3001, 4000) g;
RELEASE a;
COMMIT;
SELECT * FROM ids;

-- A function in the statement that catches an error: its subtransaction takes nothing along.
CREATE FUNCTION caught(i int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    IF i % 100 = 0 THEN RAISE division_by_zero; END IF;
    RETURN i;
EXCEPTION WHEN division_by_zero THEN RETURN -i;
END $$;
TRUNCATE v;
INSERT INTO v SELECT caught(g), '2026-01-01'::timestamptz + g * interval '1 s', 'a' FROM generate_series(1, 2000) g;
SELECT * FROM ids;

-- A function that reads the table which the statement writes to sees none of the statement's rows.
CREATE FUNCTION seen() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM v';
CREATE FUNCTION seen_volatile() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$ BEGIN RETURN (SELECT count(*) FROM v WHERE id < 0); END $$;
TRUNCATE v;
INSERT INTO v SELECT seen() + seen_volatile(), '2026-01-01'::timestamptz + g * interval '1 s', 'a' FROM generate_series(1, 2000) g;
SELECT * FROM ids;

-- Exception blocks around batches.
TRUNCATE v;
DO $$
BEGIN
    FOR i IN 0..9 LOOP
        BEGIN
            INSERT INTO v SELECT i * 1000 + g, '2026-01-01'::timestamptz + g * interval '1 s', 'a' FROM generate_series(1, 1000) g;
            IF i % 2 = 1 THEN RAISE EXCEPTION 'no'; END IF;
        EXCEPTION WHEN raise_exception THEN NULL;
        END;
    END LOOP;
END $$;
SELECT * FROM ids;

-- An error in the middle of a statement takes all of it back, and only that.
TRUNCATE v;
INSERT INTO v VALUES (1, '2026-01-01', 'a');
INSERT INTO v SELECT 100 / (1500 - g), '2026-01-01', 'a' FROM generate_series(1, 3000) g;
SELECT * FROM ids;
BEGIN;
COPY v FROM STDIN;
2	2026-01-01 00:00:00Z	a
3	2026-01-01 00:00:00Z	a
\.
SAVEPOINT a;
COPY v FROM STDIN;
4	2026-01-01 00:00:00Z	a
not a number	2026-01-01 00:00:00Z	a
\.
ROLLBACK TO a;
COMMIT;
SELECT * FROM ids;

-- Data-modifying CTEs, and deletes and inserts of one statement.
TRUNCATE v;
INSERT INTO v SELECT g, '2026-01-01'::timestamptz + g * interval '1 s', 'a' FROM generate_series(1, 3000) g;
WITH gone AS (DELETE FROM v WHERE id <= 1000 RETURNING *), copied AS (INSERT INTO v SELECT id + 10000, time, 'b' FROM gone RETURNING id)
SELECT count(*), (SELECT count(*) FROM v) AS seen_by_this_statement FROM copied;
SELECT device, count(*), min(id), max(id) FROM v GROUP BY device ORDER BY device;

-- Deletes in savepoints that are rolled back leave the file as it was.
CALL varve.compact('v');
BEGIN;
SAVEPOINT a;
DELETE FROM v;
ROLLBACK TO a;
SAVEPOINT b;
DELETE FROM v WHERE id % 2 = 0;
RELEASE b;
ROLLBACK;
SELECT * FROM ids;
SELECT count(*) AS faults FROM varve.verify('v');
DROP VIEW ids;
DROP TABLE v;
DROP FUNCTION caught, seen, seen_volatile;

-- A savepoint beneath which rows of chunks have been changed: TRUNCATE and ALTER TYPE go on, CLUSTER would leave the changes behind.
CREATE TABLE w(time timestamptz NOT NULL, host int NOT NULL, value int) USING varve;
CREATE INDEX w_series ON w USING varve (host, time);
INSERT INTO w SELECT '2026-01-01'::timestamptz + g * interval '1 s', g % 5, g FROM generate_series(1, 10000) g;
CREATE VIEW sums AS SELECT count(*), sum(value), count(*) FILTER (WHERE value < 0) AS changed FROM w;
BEGIN;
UPDATE w SET value = -1 WHERE host = 1 AND value < 20;
SAVEPOINT a;
CLUSTER w USING w_series;
ROLLBACK TO a;
TRUNCATE w;
SELECT * FROM sums;
ROLLBACK TO a;
SELECT * FROM sums;
COMMIT;
SELECT * FROM sums;
BEGIN;
DELETE FROM w WHERE value < 0;
SAVEPOINT a;
DROP VIEW sums;
ALTER TABLE w ALTER value TYPE bigint;
RELEASE a;
COMMIT;
SELECT count(*), sum(value) FROM w;
BEGIN;
DELETE FROM w WHERE host = 2 AND value < 20;
SAVEPOINT a;
TRUNCATE w;
INSERT INTO w VALUES ('2027-01-01', 1, 1);
COMMIT;
SELECT * FROM w;
SELECT count(*) AS faults FROM varve.verify('w');
DROP TABLE w;
