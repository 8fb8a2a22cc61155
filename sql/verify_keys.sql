-- varve.verify names keys that more than one row has. None gets in by itself, so the catalog hides the indexes meanwhile.
SET varve.batch_rows = 5;
CREATE FUNCTION at(seconds int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT timestamptz '2026-01-01 00:00:00Z' + seconds * interval '1 s' $$;
CREATE TABLE v(device text, time timestamptz, value int, PRIMARY KEY (device, time)) USING varve;
CREATE PROCEDURE unseen(statement text) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE pg_index SET indislive = false, indisunique = false WHERE indrelid = 'v'::regclass AND indisunique;
    UPDATE pg_class SET relname = relname WHERE oid = 'v'::regclass;
    EXECUTE statement;
    UPDATE pg_index SET indislive = true, indisunique = true WHERE indrelid = 'v'::regclass AND NOT indislive;
    UPDATE pg_class SET relname = relname WHERE oid = 'v'::regclass;
END $$;
-- TIDs of compressed rows are large.
CREATE FUNCTION findings() RETURNS TABLE (kind text, location text, detail text) LANGUAGE sql AS $$
    SELECT kind, location, regexp_replace(regexp_replace(detail, '\(2\d{9},\d+\)', '<chunk>', 'g'), '\(\d+,\d+\)', '<tail>', 'g')
    FROM varve.verify('v') $$;
-- A finding says enough to put an end to it.
CREATE PROCEDURE delete_second() LANGUAGE plpgsql AS $$
DECLARE rows bigint;
BEGIN
    DELETE FROM v WHERE ctid IN (SELECT (regexp_match(detail, 'and (\(\d+,\d+\)) have'))[1]::tid FROM varve.verify('v'));
    GET DIAGNOSTICS rows = ROW_COUNT;
    RAISE NOTICE '% deleted, % faults', rows, (SELECT count(*) FROM varve.verify('v'));
END $$;

-- In the tail.
INSERT INTO v VALUES ('a', at(3), 1), ('b', at(3), 1);
CALL unseen($$INSERT INTO v VALUES ('a', at(3), 2)$$);
SELECT * FROM findings();
CALL delete_second();
-- Between tail and chunk.
INSERT INTO v SELECT 'a', at(g), 1 FROM generate_series(4, 10) g;
CALL unseen($$INSERT INTO v VALUES ('a', at(5), 2)$$);
SELECT * FROM findings();
CALL delete_second();
-- Between two chunks; compact brings both rows into one.
DELETE FROM v;
INSERT INTO v SELECT 'a', at(g), 1 FROM generate_series(1, 7) g;
CALL unseen($$INSERT INTO v SELECT 'a', at(5 * g), 2 FROM generate_series(1, 5) g$$);
SELECT * FROM findings();
CALL varve.compact('v');
SELECT * FROM findings();
-- What the transaction has deleted does not count, until it is undone.
BEGIN;
DELETE FROM v WHERE value = 2;
SELECT * FROM findings();
ROLLBACK;
SELECT count(*) FROM findings();
CALL delete_second();
-- One for each row that is too many, 1,000 at most.
CALL unseen($$INSERT INTO v SELECT 'c', at(g % 700), g FROM generate_series(1, 2100) g$$);
SELECT kind, location, count(*) FROM findings() GROUP BY kind, location;
DELETE FROM v WHERE device = 'c' AND value > 1400;
CALL delete_second();

-- A user who may not see all rows is told nothing.
CALL unseen($$INSERT INTO v VALUES ('b', at(3), 1), ('b', at(3), 2)$$);
CREATE ROLE varve_reader;
GRANT SELECT ON v TO varve_reader;
ALTER TABLE v ENABLE ROW LEVEL SECURITY;
SET ROLE varve_reader;
SELECT * FROM findings();
RESET ROLE;
DROP TABLE v;
DROP ROLE varve_reader;

-- Equal is what the index takes for equal.
CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE v(host text COLLATE anycase UNIQUE, amount numeric UNIQUE, flag int UNIQUE, tag name UNIQUE, list int[] UNIQUE) USING varve;
CREATE UNIQUE INDEX v_two_columns ON v (tag DESC NULLS LAST, amount) INCLUDE (list);
CALL unseen($$INSERT INTO v VALUES ('One', 1.0, NULL, 't', '{1,NULL}'), ('ONE', 1.00, NULL, 't', '{1}'), ('two', 2, 2, 'T', '{1,NULL}')$$);
SELECT * FROM findings();
-- Nulls are equal where the index says so.
DROP TABLE v;
CREATE TABLE v(host text, flag int, UNIQUE NULLS NOT DISTINCT (host, flag)) USING varve;
CALL unseen($$INSERT INTO v VALUES ('a', NULL), ('a', NULL), ('a', 0), (NULL, NULL)$$);
SELECT * FROM findings();
-- Indexes of expressions or of some rows are left to btree.
DROP TABLE v;
CREATE TABLE v(host text, flag int) USING varve;
CREATE UNIQUE INDEX ON v (lower(host));
CREATE UNIQUE INDEX ON v (flag) WHERE flag > 0;
CALL unseen($$INSERT INTO v VALUES ('a', 1), ('a', 1)$$);
SELECT * FROM findings();

-- Until it is checked, a deferrable key may be there twice in rows of the transaction.
DROP TABLE v;
CREATE TABLE v(device text, time timestamptz, value int, PRIMARY KEY (device, time) DEFERRABLE INITIALLY DEFERRED) USING varve;
INSERT INTO v SELECT 'a', at(g), 1 FROM generate_series(1, 7) g;
CALL varve.compact('v');
BEGIN;
INSERT INTO v VALUES ('a', at(3), 2), ('a', at(9), 2), ('a', at(9), 3);
SELECT * FROM findings();
ROLLBACK;
CALL unseen($$INSERT INTO v VALUES ('a', at(3), 2)$$);
SELECT * FROM findings();
DROP TABLE v;

-- Keys may be longer than btree takes.
CREATE TABLE v(device text, time timestamptz, value text, UNIQUE (device, time, value)) USING varve;
CREATE INDEX ON v USING varve (device, time);
CALL unseen($$INSERT INTO v SELECT 'a', at(1), string_agg(md5((g % 8)::text || part), '') FROM generate_series(1, 9) g, generate_series(1, 500) part GROUP BY g$$);
SELECT count(*), max(length(value)) FROM v;
SELECT kind, left(detail, 80) FROM findings();
