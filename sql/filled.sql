-- Tables that a statement makes and fills, and tables that are rewritten, get chunks at once: as a heap beside them, row by row.
CREATE FUNCTION at(seconds int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT timestamptz '2026-01-01 00:00:00Z' + seconds * interval '1 s' $$;
CREATE FUNCTION stored(of_table regclass, OUT in_chunks bigint, OUT in_tail bigint) LANGUAGE plpgsql AS $$
BEGIN
    in_chunks := coalesce((SELECT sum(rows) FROM varve.chunks(of_table)), 0);
    EXECUTE format('SELECT count(*) FROM %s', of_table) INTO in_tail;
    in_tail := in_tail - in_chunks;
END $$;
CREATE FUNCTION differ(a text, b text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE found bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM ((SELECT a::text FROM %1$s a EXCEPT ALL SELECT b::text FROM %2$s b)
                    UNION ALL (SELECT b::text FROM %2$s b EXCEPT ALL SELECT a::text FROM %1$s a)) d', a, b) INTO found;
    RETURN found;
END $$;
CREATE TABLE source(time timestamptz NOT NULL, host int NOT NULL, value int, note text);
INSERT INTO source SELECT at(i / 10), i % 10, i % 97, CASE WHEN i % 1000 = 0 THEN repeat(md5(i::text), 300) ELSE 'n' || i % 3 END FROM generate_series(1, 20000) i;

-- CREATE TABLE AS and its kin.
CREATE TABLE made USING varve AS SELECT * FROM source;
SELECT differ('made', 'source'), (stored('made')).*;
SET default_table_access_method = varve;
SELECT * INTO selected FROM source;
PREPARE rows(int) AS SELECT * FROM source WHERE host = $1;
CREATE TEMPORARY TABLE prepared AS EXECUTE rows(3);
CREATE TABLE empty AS SELECT * FROM source WITH NO DATA;
CREATE TABLE few AS SELECT * FROM source LIMIT 100;
CREATE TABLE timeless AS SELECT host, value FROM source;
BEGIN;
SAVEPOINT s;
CREATE TABLE parted_off AS SELECT * FROM source;
ROLLBACK TO s;
CREATE TABLE parted_off AS SELECT * FROM source WHERE host < 5;
INSERT INTO parted_off SELECT * FROM source WHERE host >= 5;
SELECT count(*) FROM parted_off;
COMMIT;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) CREATE TABLE explained AS SELECT * FROM source;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET varve.batch_memory = '1MB';
EXPLAIN (COSTS OFF) CREATE TABLE by_workers AS SELECT * FROM source;
CREATE TABLE by_workers AS SELECT * FROM source;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET varve.batch_memory;
RESET default_table_access_method;
SELECT t, differ(t, 'source'), (stored(t::regclass)).* FROM unnest(ARRAY['selected', 'parted_off', 'explained', 'by_workers']) t;
SELECT t, (stored(t::regclass)).* FROM unnest(ARRAY['prepared', 'empty', 'few', 'timeless']) t;
-- A function that looks at the table while it is being filled sees what a heap shows.
CREATE FUNCTION peek(of_table text, i int) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE found bigint := -1;
BEGIN
    IF i % 900 = 0 THEN
        EXECUTE format('SELECT count(*) FROM %I', of_table) INTO found;
    END IF;
    RETURN found;
END $$;
CREATE TABLE peeked_h USING heap AS SELECT at(i) AS time, peek('peeked_h', i) AS found FROM generate_series(1, 3000) i;
CREATE TABLE peeked_v USING varve AS SELECT at(i) AS time, peek('peeked_v', i) AS found FROM generate_series(1, 3000) i;
SELECT differ('peeked_h', 'peeked_v'), (stored('peeked_v')).in_chunks > 0 AS has_chunks;

-- Materialized views, with indexes of all kinds.
CREATE MATERIALIZED VIEW view USING varve AS SELECT * FROM source;
SELECT differ('view', 'source'), (stored('view')).*;
UPDATE source SET value = value + 1 WHERE host = 4;
REFRESH MATERIALIZED VIEW view;
SELECT differ('view', 'source'), (stored('view')).*;
CREATE UNIQUE INDEX view_key ON view (host, time, value);
CREATE INDEX ON view (value);
DELETE FROM source WHERE host = 5;
REFRESH MATERIALIZED VIEW view;
SELECT differ('view', 'source'), (stored('view')).*;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM view WHERE host = 3 AND time = at(70);
SELECT count(*), sum(value) FROM view WHERE host = 3 AND time BETWEEN at(70) AND at(100);
RESET enable_seqscan;
SELECT count(*), sum(value) FROM source WHERE host = 3 AND time BETWEEN at(70) AND at(100);
INSERT INTO source SELECT at(5000 + i), 5, i % 90, 'late' FROM generate_series(1, 2000) i;
DELETE FROM source WHERE host = 6 AND time < at(900);
REFRESH MATERIALIZED VIEW CONCURRENTLY view;
SELECT differ('view', 'source'), (stored('view')).in_tail;
REFRESH MATERIALIZED VIEW view WITH NO DATA;
REFRESH MATERIALIZED VIEW view;
SELECT differ('view', 'source'), (stored('view')).*;
SELECT count(*) AS faults FROM varve.verify('view');
INSERT INTO source SELECT * FROM source LIMIT 1;
REFRESH MATERIALIZED VIEW view;
SELECT (stored('view')).*;
DELETE FROM source WHERE ctid = (SELECT max(ctid) FROM source);
-- A key that is not found in chunks keeps its rows in the tail.
DROP INDEX view_key;
REFRESH MATERIALIZED VIEW view WITH NO DATA;
CREATE UNIQUE INDEX ON view ((host + 0), time, value);
REFRESH MATERIALIZED VIEW view;
SELECT differ('view', 'source'), (stored('view')).*;

-- Rewrites by ALTER TABLE.
CREATE TABLE h(LIKE source);
INSERT INTO h TABLE source;
CREATE TABLE v(LIKE source, PRIMARY KEY (host, time)) USING varve;
CREATE INDEX ON v (value);
INSERT INTO v TABLE source;
ALTER TABLE h ALTER value TYPE bigint;
ALTER TABLE v ALTER value TYPE bigint;
SELECT differ('v', 'h'), (stored('v')).*;
ALTER TABLE h DROP COLUMN note, ADD COLUMN stamp timestamptz, ADD COLUMN doubled int GENERATED ALWAYS AS (host * 2) STORED, ALTER host TYPE bigint, ALTER value TYPE numeric USING value / 10.0;
ALTER TABLE v DROP COLUMN note, ADD COLUMN stamp timestamptz, ADD COLUMN doubled int GENERATED ALWAYS AS (host * 2) STORED, ALTER host TYPE bigint, ALTER value TYPE numeric USING value / 10.0;
SELECT differ('v', 'h'), (stored('v')).*;
ALTER TABLE v SET UNLOGGED;
SELECT differ('v', 'h'), (stored('v')).*;
ALTER TABLE v SET LOGGED;
SELECT differ('v', 'h'), (stored('v')).*;
INSERT INTO v (time, host) SELECT time, host FROM v ORDER BY host, time LIMIT 1;
INSERT INTO v (time, host) SELECT at(9000 + i), i % 7 FROM generate_series(1, 700) i;
INSERT INTO h (time, host) SELECT at(9000 + i), i % 7 FROM generate_series(1, 700) i;
ALTER TABLE v ADD COLUMN filled float8 DEFAULT random();
ALTER TABLE h ADD COLUMN filled float8 DEFAULT random();
SELECT count(DISTINCT filled) > 10000 AS filled, (stored('v')).* FROM v;
ALTER TABLE v ALTER filled TYPE int USING 0;
ALTER TABLE h ALTER filled TYPE int USING 0;
SELECT differ('v', 'h'), (stored('v')).*;
ALTER TABLE v ADD CHECK (host < 9), ALTER filled TYPE bigint;
ALTER TABLE v ALTER host TYPE int USING 1;
SELECT differ('v', 'h'), (stored('v')).*;
ALTER TABLE v ALTER time TYPE date USING at(0) + host * interval '1 day';
EXPLAIN (COSTS OFF) SELECT * FROM v WHERE host = 3 AND time = at(70);
SELECT count(*), sum(value) FROM v WHERE host = 3 AND time BETWEEN at(70) AND at(100);
SELECT count(*), sum(value) FROM h WHERE host = 3 AND time BETWEEN at(70) AND at(100);
SELECT count(*) AS faults FROM varve.verify('v');
-- To heap and back: with a key that brings its series index again, with an ordinary index that does, and with keys that bring none.
ALTER TABLE v SET ACCESS METHOD heap;
ALTER TABLE v SET ACCESS METHOD varve;
SELECT differ('v', 'h'), (stored('v')).*;
INSERT INTO v (time, host) SELECT time, host FROM h WHERE host = 3 AND time = at(70);
INSERT INTO v (time, host) VALUES (at(70), 3) ON CONFLICT DO NOTHING;
SELECT count(*) AS faults FROM varve.verify('v');
ALTER TABLE v DROP CONSTRAINT v_pkey;
CREATE INDEX ON v (host, time DESC);
ALTER TABLE v SET ACCESS METHOD heap;
ALTER TABLE v SET ACCESS METHOD varve;
SELECT differ('v', 'h'), (stored('v')).*;
SELECT count(*) > 1 AS by_host FROM varve.chunks('v') WHERE one_series OR first_key IS NOT NULL;
ALTER TABLE v ADD COLUMN id serial;
ALTER TABLE v SET ACCESS METHOD heap;
ALTER TABLE v ADD UNIQUE (id);
ALTER TABLE v SET ACCESS METHOD varve;
SELECT (stored('v')).in_chunks;
ALTER TABLE v DROP CONSTRAINT v_id_key, ADD EXCLUDE USING btree (id WITH =);
ALTER TABLE v ALTER id TYPE bigint;
SELECT (stored('v')).in_chunks;
-- What a publication shows row by row, but for rewrites, which it does not show.
SET client_min_messages = error;
CREATE PUBLICATION filled FOR ALL TABLES;
RESET client_min_messages;
CREATE TABLE published USING varve AS SELECT * FROM source;
SELECT (stored('published')).in_chunks;
CALL varve.compact('published');
ALTER TABLE published ALTER value TYPE bigint;
SELECT differ('published', 'source'), (stored('published')).*;
DROP PUBLICATION filled;
DROP MATERIALIZED VIEW view;
DROP TABLE source, made, selected, prepared, empty, few, timeless, parted_off, explained, by_workers, peeked_h, peeked_v, h, v, published;
DROP FUNCTION at, stored, differ, peek;
