-- Ordinary indexes cover the tail. Bulk loads into tables that have some write chunks all the same, and a btree of keys and time brings
-- the series index that such a table wants.
CREATE FUNCTION at(seconds int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT timestamptz '2026-01-01 00:00:00Z' + seconds * interval '1 s' $$;
CREATE FUNCTION stored(of_table regclass, OUT in_chunks bigint, OUT in_tail bigint) LANGUAGE plpgsql AS $$
BEGIN
    in_chunks := coalesce((SELECT sum(rows) FROM varve.chunks(of_table)), 0);
    EXECUTE format('SELECT count(*) FROM %s', of_table) INTO in_tail;
    in_tail := in_tail - in_chunks;
END $$;
CREATE FUNCTION indexes(of_table text, OUT name name, OUT definition text) RETURNS SETOF record LANGUAGE sql AS $$
    SELECT c.relname, regexp_replace(pg_get_indexdef(c.oid), '.* USING ', '') FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indrelid = to_regclass(of_table) ORDER BY c.relname $$;

-- The schema of a benchmark, as it comes: indexes first, then the load.
SET default_table_access_method = varve;
CREATE TABLE cpu(time timestamptz NOT NULL, tags_id integer, hostname text, usage_user float8, usage_system float8, additional_tags jsonb DEFAULT NULL);
CREATE INDEX ON cpu (time DESC);
CREATE INDEX ON cpu (tags_id, time DESC);
CREATE INDEX ON cpu (usage_user, time DESC);
CREATE INDEX cpu_hash ON cpu USING hash (hostname);
CREATE INDEX cpu_brin ON cpu USING brin (time);
CREATE INDEX cpu_gin ON cpu USING gin (additional_tags);
CREATE INDEX cpu_gist ON cpu USING gist (int4range(tags_id, tags_id + 1));
CREATE INDEX cpu_part ON cpu (hostname) WHERE usage_user > 50;
CREATE INDEX cpu_expression ON cpu ((usage_user + usage_system)) INCLUDE (hostname);
RESET default_table_access_method;
CREATE TABLE h(LIKE cpu INCLUDING INDEXES) USING heap;
SELECT * FROM indexes('cpu');
INSERT INTO h SELECT at(i / 20 * 10), i % 20, 'host_' || i % 20, i % 101, i % 7, jsonb_build_object('row', i % 3) FROM generate_series(0, 9999) i;
\set file '/tmp/varve_ordinary_indexes.' :DBNAME
COPY h TO :'file';
COPY cpu FROM :'file';
SELECT * FROM stored('cpu');
SELECT count(*) AS empty FROM indexes('cpu') WHERE pg_relation_size(name::regclass) <= 5 * 8192;
EXPLAIN (COSTS OFF) SELECT * FROM cpu WHERE tags_id = 7 AND time >= at(4000) ORDER BY time DESC LIMIT 1;
CREATE FUNCTION same() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE condition text; heap text; varve text;
BEGIN
    FOREACH condition IN ARRAY ARRAY['true', 'time = at(40)', 'time BETWEEN at(10) AND at(90)', 'tags_id = 7 AND time > at(4000)', 'usage_user = 17',
        'hostname = ''host_3''', 'hostname = ''host_3'' AND usage_user > 50', 'usage_user + usage_system = 30', 'additional_tags @> ''{"row": 1}''',
        'int4range(tags_id, tags_id + 1) @> 4'] LOOP
        EXECUTE 'SELECT md5(string_agg(h::text, '','' ORDER BY h::text)) FROM h WHERE ' || condition INTO heap;
        EXECUTE 'SELECT md5(string_agg(h::text, '','' ORDER BY h::text)) FROM cpu h WHERE ' || condition INTO varve;
        IF heap IS DISTINCT FROM varve THEN RAISE NOTICE 'not the same: %', condition; RETURN false; END IF;
    END LOOP;
    RETURN true;
END $$;
SELECT same();
-- A batch of few rows ends in the tail; then its rows have entries in all of them: also where the table can have chunks no more, so that queries use these.
INSERT INTO h SELECT at(20000 + i), i % 20, 'host_' || i % 20, i % 101, i % 7, jsonb_build_object('row', i % 3) FROM generate_series(0, 399) i;
INSERT INTO cpu SELECT * FROM h WHERE time >= at(20000);
SELECT * FROM stored('cpu');
SELECT same();
CREATE TABLE tail(LIKE cpu INCLUDING INDEXES) USING varve;
INSERT INTO tail SELECT * FROM h WHERE time >= at(20000);
SELECT * FROM stored('tail');
DROP INDEX tail_tags_id_time_idx1;
CREATE UNIQUE INDEX tail_keeps_its_rows ON tail ((additional_tags->>'id'));
SET enable_seqscan = off;
SET varve.enable_aggregate = off;
DO $$
DECLARE
    condition text; plan text; line text; got bigint; wanted bigint;
BEGIN
    FOREACH condition IN ARRAY ARRAY['time > at(20010)', 'tags_id = 7', 'usage_user = 17', 'hostname = ''host_3''', 'hostname = ''host_3'' AND usage_user > 50',
        'usage_user + usage_system = 30', 'additional_tags @> ''{"row": 1}''', 'int4range(tags_id, tags_id + 1) @> 4'] LOOP
        plan := '';
        FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) SELECT count(*) FROM tail WHERE ' || condition LOOP plan := plan || line; END LOOP;
        EXECUTE 'SELECT count(*) FROM tail WHERE ' || condition INTO got;
        EXECUTE 'SELECT count(*) FROM h WHERE time >= at(20000) AND (' || condition || ')' INTO wanted;
        RAISE NOTICE '% by %: %', condition, substring(plan FROM 'Index (?:Only )?Scan (?:using|on) (\w+)'), CASE got WHEN wanted THEN 'same' ELSE got || ' instead of ' || wanted END;
    END LOOP;
END $$;
RESET enable_seqscan;
CALL varve.compact('cpu');
SELECT * FROM stored('cpu');
SELECT same();
UPDATE cpu SET usage_user = 200 WHERE tags_id = 3 AND time < at(500);
UPDATE h SET usage_user = 200 WHERE tags_id = 3 AND time < at(500);
SELECT same();
VACUUM cpu;
REINDEX TABLE cpu;
SELECT same();
SELECT count(*) AS faults FROM varve.verify('cpu');
-- An expression that cannot be evaluated is the statement's error, as for a row of the tail.
CREATE INDEX cpu_picky ON cpu ((1 / (usage_system::int + 1)));
INSERT INTO cpu SELECT at(30000 + i), 1, 'x', 0, CASE i WHEN 700 THEN -1 ELSE 1 END FROM generate_series(1, 1000) i;
SELECT * FROM stored('cpu');
DROP INDEX cpu_picky;

-- With a key beside them.
CREATE TABLE keyed(host int, time timestamptz, value int, PRIMARY KEY (host, time)) USING varve;
CREATE INDEX ON keyed (value);
CREATE INDEX ON keyed (host, time DESC);
INSERT INTO keyed SELECT i % 10, at(i), i % 100 FROM generate_series(1, 5000) i;
INSERT INTO keyed SELECT i % 10, at(i), i % 100 FROM generate_series(5001, 5100) i;
SELECT * FROM stored('keyed');
INSERT INTO keyed SELECT i % 10, at(i), 0 FROM generate_series(4999, 6000) i;
INSERT INTO keyed SELECT i % 10, at(i), 0 FROM generate_series(5099, 5110) i;
SELECT count(*), sum(value), count(*) FILTER (WHERE value = 7) FROM keyed;
SELECT * FROM indexes('keyed');
SELECT count(*) AS faults FROM varve.verify('keyed');
-- A key that comes later brings its own series index, and the one that an ordinary index has brought is not wanted any more.
CREATE TABLE later(host int NOT NULL, time timestamptz NOT NULL, rack int NOT NULL) USING varve;
CREATE INDEX ON later (host, rack, time);
ALTER TABLE later ADD PRIMARY KEY (host, time);
SELECT * FROM indexes('later');
-- All of it in one transaction, with an automatic index that goes again.
BEGIN;
CREATE TABLE together(host int, time timestamptz, rack int, PRIMARY KEY (host, time, rack)) USING varve;
CREATE INDEX ON together USING varve (host, time);
CREATE INDEX ON together (rack, time);
COMMIT;
SELECT * FROM indexes('together');
DROP TABLE together;
-- So it is with a series index that somebody asks for. One of the same columns becomes that.
CREATE TABLE own(host int NOT NULL, time timestamptz NOT NULL, rack int NOT NULL) USING varve;
CREATE INDEX ON own (rack, time DESC);
CREATE INDEX own_series ON own USING varve (host, time);
SELECT * FROM indexes('own');
DROP INDEX own_series;
SELECT * FROM indexes('own');
ALTER TABLE own SET ACCESS METHOD heap;
ALTER TABLE own SET ACCESS METHOD varve;
SELECT * FROM indexes('own');
CREATE INDEX own_series ON own USING varve (rack, time);
SELECT * FROM indexes('own');
-- Who drops the ordinary one, since no query uses it, keeps the other.
DROP TABLE own;
CREATE TABLE own(host int NOT NULL, time timestamptz NOT NULL, rack int NOT NULL) USING varve;
CREATE INDEX IF NOT EXISTS own_idx ON own (rack, time DESC NULLS LAST) INCLUDE (host);
CREATE INDEX IF NOT EXISTS own_idx ON own (rack, time DESC NULLS LAST) INCLUDE (host);
SELECT * FROM indexes('own');
DROP INDEX own_idx;
SELECT * FROM indexes('own');
-- Which indexes bring none.
CREATE TABLE none(id bigint, host int, reading float8, time timestamptz, tick bigint, code char, UNIQUE (id)) USING varve;
CREATE INDEX ON none (host, time);
ALTER TABLE none DROP CONSTRAINT none_id_key;
CREATE INDEX ON none (time);
CREATE INDEX ON none (time, host);
CREATE INDEX ON none (host, tick);
CREATE INDEX ON none (reading, time);
CREATE INDEX ON none (host, time) WHERE host > 1;
CREATE INDEX ON none ((host + 1), time);
CREATE INDEX ON none USING gist (int8range(id, id), tsrange(NULL, NULL));
CREATE INDEX CONCURRENTLY none_concurrent ON none (host, time);
SELECT count(*) AS all, count(*) FILTER (WHERE definition LIKE 'varve%') AS series FROM indexes('none');
-- Partitions, before and after their index.
CREATE TABLE parted(host int, time timestamptz) PARTITION BY RANGE (time);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (at(0)) TO (at(1000)) USING varve;
CREATE TABLE parted_heap PARTITION OF parted FOR VALUES FROM (at(1000)) TO (at(2000)) USING heap;
CREATE INDEX ON parted (host, time DESC);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (at(2000)) TO (at(3000)) USING varve;
CREATE TABLE parted_3(LIKE parted) USING varve;
ALTER TABLE parted ATTACH PARTITION parted_3 FOR VALUES FROM (at(3000)) TO (at(4000));
SELECT p.name AS part, i.* FROM unnest(ARRAY['parted_1', 'parted_2', 'parted_3', 'parted_heap']) p(name), indexes(p.name) i;
INSERT INTO parted SELECT i % 10, at(i) FROM generate_series(0, 3999) i;
SELECT p.name AS part, s.* FROM unnest(ARRAY['parted_1', 'parted_2', 'parted_3']) p(name), stored(p.name::regclass) s;
DROP TABLE cpu, h, tail, keyed, later, own, none, parted;
DROP FUNCTION at, stored, indexes, same;
