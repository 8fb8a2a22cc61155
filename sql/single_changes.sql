-- Changes of single rows in transactions of their own: what a heap does, at a cost that does not follow the chunk.
CREATE TABLE h(time timestamptz NOT NULL, host int, value int, PRIMARY KEY (host, time));
CREATE TABLE v(time timestamptz NOT NULL, host int, value int, PRIMARY KEY (host, time)) USING varve;
INSERT INTO h SELECT '2026-01-01'::timestamptz + g * interval '1 s', g % 3, g FROM generate_series(1, 30000) g;
INSERT INTO v SELECT * FROM h;
CALL varve.compact('v');
CREATE VIEW differences AS
    (SELECT 'heap' AS only_in, h::text AS row FROM h EXCEPT ALL SELECT 'heap', v::text FROM v) UNION ALL
    (SELECT 'varve', v::text FROM v EXCEPT ALL SELECT 'varve', h::text FROM h);
CREATE FUNCTION at(i int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT '2026-01-01'::timestamptz + i * interval '1 s' $$;
-- Executes a statement on both tables, in transactions of their own.
CREATE PROCEDURE on_both(statement text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE replace(statement, '{t}', 'h'); COMMIT;
    EXECUTE replace(statement, '{t}', 'v'); COMMIT;
END $$;
CREATE FUNCTION chunk_ctids() RETURNS SETOF tid LANGUAGE sql AS $$ SELECT ctid FROM v WHERE host = 1 AND time IN (at(1), at(10), at(10000), at(29998)) ORDER BY time $$;

-- TIDs that were selected stay what they are, whatever happens to other rows.
SELECT array_agg(ctid ORDER BY time) AS five FROM v WHERE host = 1 AND time > at(29000) AND time < at(29015) \gset
DELETE FROM v WHERE ctid = (:'five'::tid[])[1];
DELETE FROM v WHERE ctid = (:'five'::tid[])[2];
UPDATE v SET value = 0 WHERE ctid = (:'five'::tid[])[3];
DELETE FROM v WHERE ctid = (:'five'::tid[])[4];
DELETE FROM v WHERE ctid = (:'five'::tid[])[5] RETURNING host, value;
DELETE FROM v WHERE ctid = ANY (:'five'::tid[]);
DELETE FROM h WHERE host = 1 AND time > at(29000) AND time < at(29015) AND value <> (SELECT value FROM h WHERE host = 1 AND time > at(29000) ORDER BY time OFFSET 2 LIMIT 1);
UPDATE h SET value = 0 WHERE host = 1 AND time > at(29000) AND time < at(29015);
SELECT * FROM differences;
SELECT * FROM varve.verify('v');

-- Many of them, more than a header has room for. What they write does not depend on how many rows are gone.
SELECT pg_total_relation_size('v') AS before, pg_current_wal_insert_lsn() AS wal \gset
DO $$BEGIN
    FOR i IN 1..400 LOOP
        CALL on_both(format('DELETE FROM {t} WHERE host = %s AND time = at(%s)', i % 3, i));
        CALL on_both(format('UPDATE {t} SET value = value + 1 WHERE host = %s AND time = at(%s)', i % 3, 999 + i * 3 + i % 3));
        CALL on_both(format('INSERT INTO {t} VALUES (at(%s), %s, 7) ON CONFLICT (host, time) DO UPDATE SET value = excluded.value + {t}.value', 4998 + i * 3 + i % 3, i % 3));
    END LOOP;
END$$;
SELECT * FROM differences;
SELECT * FROM varve.verify('v');
SELECT pg_total_relation_size('v') - :before < 1200 * 700 AS small_growth, pg_current_wal_insert_lsn() - :'wal'::pg_lsn < 1200 * 2500 AS small_wal;
SELECT sum(value), count(*) FROM v WHERE host = 1;
SELECT host, count(*), sum(value) FROM v GROUP BY host ORDER BY host;
SELECT (SELECT count(*) FROM v) = (SELECT sum(rows) FROM varve.stats('v') WHERE part = 'varve.format') + (SELECT count(*) FROM v WHERE ctid < '(2147483647,1)') AS counted;

-- What is rolled back leaves nothing, and no room is lost by it.
SELECT array_agg(t) AS ctids FROM chunk_ctids() t \gset
DO $$BEGIN
    FOR i IN 1..100 LOOP
        DELETE FROM v WHERE host = i % 3 AND time = at(i * 3 + i % 3 + 12000);
        ROLLBACK;
    END LOOP;
END$$;
SELECT array_agg(t) = :'ctids'::tid[] AS same FROM chunk_ctids() t;
SELECT * FROM differences;

-- In subtransactions, some of which are undone, and with a trigger that is deferred.
CREATE TABLE log(what text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO log SELECT format('%s %s %s', TG_OP, old.host, old.value); RETURN NULL; END$$;
CREATE CONSTRAINT TRIGGER late AFTER UPDATE OR DELETE ON v DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();
CREATE CONSTRAINT TRIGGER late AFTER UPDATE OR DELETE ON h DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();
BEGIN;
DELETE FROM v WHERE host = 2 AND time = at(20000);
SAVEPOINT a;
DELETE FROM v WHERE host = 2 AND time = at(20003);
ROLLBACK TO a;
UPDATE v SET value = -1 WHERE host = 2 AND time = at(20006) RETURNING host, value;
SAVEPOINT b;
UPDATE v SET value = value - 1 WHERE host = 2 AND time IN (at(20006), at(20009)) RETURNING host, value;
RELEASE b;
SELECT count(*), sum(value) FROM v WHERE host = 2 AND time BETWEEN at(20000) AND at(20010);
COMMIT;
BEGIN;
DELETE FROM h WHERE host = 2 AND time = at(20000);
UPDATE h SET value = -1 WHERE host = 2 AND time = at(20006);
UPDATE h SET value = value - 1 WHERE host = 2 AND time IN (at(20006), at(20009));
COMMIT;
SELECT what, count(*) FROM log GROUP BY what ORDER BY what;
SELECT * FROM differences;

-- Prepared transactions, finished in either way, and more of them than a header has room for. Nobody waits for another row's.
DO $$BEGIN
    FOR i IN 1..60 LOOP
        CALL on_both(format('UPDATE {t} SET value = value + 1 WHERE host = 0 AND time = at(%s)', 15000 + i * 3));
    END LOOP;
END$$;
BEGIN; DELETE FROM v WHERE host = 1 AND time = at(16); PREPARE TRANSACTION 'one';
BEGIN; UPDATE v SET value = 5 WHERE host = 1 AND time = at(3001); PREPARE TRANSACTION 'two';
SET lock_timeout = '1s';
DO $$BEGIN
    FOR i IN 1..100 LOOP
        CALL on_both(format('UPDATE {t} SET value = value + 1 WHERE host = 1 AND time = at(%s)', 18001 + i * 3));
    END LOOP;
END$$;
SELECT count(*) FROM v WHERE host = 1 AND time IN (at(16), at(3001));
DELETE FROM v WHERE host = 1 AND time = at(3001);
COMMIT PREPARED 'two';
ROLLBACK PREPARED 'one';
RESET lock_timeout;
UPDATE h SET value = 5 WHERE host = 1 AND time = at(3001);
SELECT * FROM differences;
SELECT * FROM varve.verify('v');

-- Who rewrites or merges a chunk takes them along.
UPDATE v SET value = 3 WHERE host = 1 AND time = at(19);
UPDATE h SET value = 3 WHERE host = 1 AND time = at(19);
VACUUM FULL v;
SELECT * FROM differences;
SELECT * FROM varve.verify('v');
UPDATE v SET value = 3 WHERE host = 1 AND time = at(22);
UPDATE h SET value = 3 WHERE host = 1 AND time = at(22);
CALL varve.compact('v');
SELECT * FROM differences;
SELECT * FROM varve.verify('v');
REINDEX TABLE v;
ALTER TABLE v ADD COLUMN more int DEFAULT 9;
ALTER TABLE h ADD COLUMN more int DEFAULT 9;
DELETE FROM v WHERE host = 1 AND time = at(25);
DELETE FROM h WHERE host = 1 AND time = at(25);
CLUSTER v USING v_pkey;
SELECT * FROM differences;
SELECT * FROM varve.verify('v');

-- A chunk of which all rows go one by one.
CREATE TABLE few(id int, time timestamptz NOT NULL) USING varve;
INSERT INTO few SELECT g, at(g) FROM generate_series(1, 1000) g;
CALL varve.compact('few');
DO $$BEGIN
    FOR i IN 1..1000 LOOP
        IF i % 2 = 0 THEN DELETE FROM few WHERE id = i; ELSE UPDATE few SET id = -id WHERE id = i; END IF;
        COMMIT;
    END LOOP;
END$$;
SELECT count(*), sum(id) FROM few;
SELECT * FROM varve.verify('few');
UPDATE few SET id = id + 1;
CALL varve.compact('few');
UPDATE few SET id = id - 1;
VACUUM few;
-- What is left of a chunk of which all rows were updated, when its payload has gone.
SELECT rows, deleted, first_key, payload_bytes, codecs, tuples FROM varve.chunks('few');
DELETE FROM few;
SELECT count(*) FROM few;
CALL varve.compact('few');
SELECT * FROM varve.verify('few');
SELECT pg_relation_size('few');
DROP VIEW differences;
DROP TABLE h, v, few, log;
DROP FUNCTION chunk_ctids, at, note;
DROP PROCEDURE on_both;
