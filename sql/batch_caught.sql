-- A bulk load calls a function that reads the table which it fills, within an EXCEPTION block. That cannot be shown the rows so far, which is an error. Who catches it
-- takes no row away.
CREATE SCHEMA batch_caught;
SET search_path = batch_caught, public;
SET client_min_messages = warning;
CREATE TABLE v(host int, time timestamptz NOT NULL) USING varve;
CREATE FUNCTION ok(h int, t timestamptz) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM batch_caught.v WHERE host = h AND time = t;
    RETURN NOT FOUND;
EXCEPTION WHEN feature_not_supported THEN
    RETURN true;
END $$;
ALTER TABLE v ADD CHECK (ok(host, time));
INSERT INTO v SELECT 1, '2026-01-01'::timestamptz + i * interval '1 s' FROM generate_series(1, 5000) i;
SELECT count(*) FROM v;
-- A partition whose trigger does so, beside one that collects.
CREATE TABLE p(host int, time timestamptz NOT NULL) PARTITION BY LIST (host);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1) USING varve;
CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2) USING varve;
CREATE TABLE seen(rows bigint);
CREATE FUNCTION looks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        INSERT INTO batch_caught.seen SELECT count(*) FROM batch_caught.p1;
    EXCEPTION WHEN feature_not_supported THEN
        INSERT INTO batch_caught.seen VALUES (-1);
    END;
    RETURN NEW;
END $$;
CREATE TRIGGER looks BEFORE INSERT ON p2 FOR EACH ROW EXECUTE FUNCTION looks();
INSERT INTO p SELECT 1 + i / 2000, '2026-01-01'::timestamptz + i * interval '1 s' FROM generate_series(0, 2002) i;
SELECT tableoid::regclass, count(*) FROM p GROUP BY 1 ORDER BY 1;
SELECT rows, count(*) FROM seen GROUP BY 1;
-- Memory that runs out within such a block is made by batches of its own.
CREATE TABLE other(host int, time timestamptz NOT NULL, note text) USING varve;
CREATE OR REPLACE FUNCTION looks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        INSERT INTO batch_caught.other SELECT i % 7, '2026-01-01'::timestamptz + i * interval '1 s', repeat('n', 100) FROM generate_series(1, 20000) i;
    EXCEPTION WHEN OTHERS THEN
        INSERT INTO batch_caught.seen VALUES (-2);
    END;
    RETURN NEW;
END $$;
SET varve.batch_memory = '1MB';
TRUNCATE p, seen;
INSERT INTO p SELECT 1 + i / 20000, '2026-01-01'::timestamptz + i * interval '1 s' FROM generate_series(0, 20000) i;
SELECT tableoid::regclass, count(*) FROM p GROUP BY 1 ORDER BY 1;
SELECT (SELECT count(*) FROM other) AS other, (SELECT count(*) FROM seen) AS caught;
DROP SCHEMA batch_caught CASCADE;
