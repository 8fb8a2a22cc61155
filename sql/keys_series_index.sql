-- A key with a time column brings a series index along, whatever statement makes it, and takes it with it when it goes.
CREATE FUNCTION series_indexes(of_table text, OUT name text, OUT columns text, OUT of_key boolean, OUT goes_with text) RETURNS SETOF record
LANGUAGE sql AS $$
    SELECT c.relname, (SELECT string_agg(a.attname, ', ' ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = c.oid),
           coalesce(c.reloptions::text LIKE '%of_key=%', false),
           (SELECT string_agg(d.refobjid::regclass::text, ', ') FROM pg_depend d JOIN pg_index k ON k.indexrelid = d.refobjid AND k.indisunique
            WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'a')
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
    WHERE i.indrelid = to_regclass(of_table) AND m.amname = 'varve_series' ORDER BY c.oid $$;
CREATE FUNCTION at(seconds int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT timestamptz '2026-01-01 00:00:00Z' + seconds * interval '1 s' $$;

-- CREATE TABLE: the primary key is all that it takes.
CREATE TABLE v(tags_id int, time timestamptz, value int, PRIMARY KEY (tags_id, time)) USING varve;
CREATE TABLE h(LIKE v INCLUDING ALL) USING heap;
SELECT * FROM series_indexes('v');
INSERT INTO v SELECT g % 10, at(g), g FROM generate_series(1, 20000) g;
INSERT INTO h TABLE v;
CALL varve.compact('v');
SELECT rows FROM varve.stats('v') WHERE part = 'chunks';
EXPLAIN (COSTS OFF) SELECT value FROM v WHERE tags_id = 7 AND time BETWEEN at(100) AND at(200);
SELECT (SELECT array_agg(value ORDER BY time) FROM v WHERE tags_id = 7 AND time BETWEEN at(100) AND at(200))
     = (SELECT array_agg(value ORDER BY time) FROM h WHERE tags_id = 7 AND time BETWEEN at(100) AND at(200)) AS equal;
INSERT INTO v VALUES (7, at(7), 0);
INSERT INTO v SELECT g % 10, at(g), -g FROM generate_series(19990, 20010) g ON CONFLICT DO NOTHING;
INSERT INTO h SELECT g % 10, at(g), -g FROM generate_series(19990, 20010) g ON CONFLICT DO NOTHING;
INSERT INTO v SELECT g % 10, at(g), g FROM generate_series(1, 20) g ON CONFLICT (tags_id, time) DO UPDATE SET value = -1;
INSERT INTO h SELECT g % 10, at(g), g FROM generate_series(1, 20) g ON CONFLICT (tags_id, time) DO UPDATE SET value = -1;
SELECT count(*) AS differences FROM ((TABLE v EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE v)) d;

-- What happens to the key's columns and names.
ALTER TABLE v RENAME time TO "at Time";
ALTER TABLE v RENAME CONSTRAINT v_pkey TO "The Key";
REINDEX TABLE v;
REINDEX TABLE CONCURRENTLY v;
CLUSTER v USING v_pkey_series;
VACUUM FULL v;
ALTER TABLE v ALTER value SET NOT NULL;
SELECT * FROM series_indexes('v');
ALTER TABLE v ALTER tags_id TYPE bigint;
ALTER TABLE h ALTER tags_id TYPE bigint;
ALTER TABLE v ALTER "at Time" TYPE timestamp USING "at Time" AT TIME ZONE 'UTC';
ALTER TABLE h ALTER time TYPE timestamp USING time AT TIME ZONE 'UTC';
SELECT * FROM series_indexes('v');
CALL varve.compact('v');
SELECT count(*) AS differences FROM ((TABLE v EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE v)) d;
SELECT count(*) AS faults FROM varve.verify('v');
INSERT INTO v VALUES (7, '2026-01-01 00:00:17', 0);

-- A type that no series index takes: as without an automatic index.
BEGIN;
ALTER TABLE v ALTER tags_id TYPE numeric, ALTER value TYPE bigint;
SELECT * FROM series_indexes('v');
INSERT INTO v VALUES (7.0, '2026-01-01 00:00:17', 0);
ROLLBACK;
SELECT name FROM series_indexes('v');
-- Types that it takes, but not there, or not with such a collation or without a length. A column that it has not may be of any.
CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE typed (host text, time timestamptz, value int, PRIMARY KEY (host, time)) USING varve;
INSERT INTO typed SELECT 'h' || i % 3, '2024-01-01'::timestamptz + i * interval '1 day', i FROM generate_series(1, 1000) i;
ALTER TABLE typed ALTER value TYPE text COLLATE blind;
ALTER TABLE typed ALTER host TYPE char(4);
SELECT count(*) FROM series_indexes('typed');
CREATE FUNCTION retyped(change text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
    EXECUTE 'ALTER TABLE typed ' || change;
    found := format('%s rows, %s of them h1, %s indexes', (SELECT count(*) FROM typed), (SELECT count(*) FROM typed WHERE host = 'h1'),
                    (SELECT count(*) FROM series_indexes('typed')));
    RAISE EXCEPTION USING message = found, errcode = 'UE001';
EXCEPTION WHEN SQLSTATE 'UE001' THEN RETURN sqlerrm;
END $$;
SELECT change, retyped(change) FROM unnest(ARRAY['ALTER time TYPE text', 'ALTER time TYPE uuid USING md5(value)::uuid', 'ALTER host TYPE bpchar',
    'ALTER host TYPE text COLLATE blind', 'ALTER host TYPE varchar(9)', 'ALTER time TYPE date, ALTER host TYPE text']) change;
DROP FUNCTION retyped;
DROP TABLE typed;
DROP COLLATION blind;

-- It goes with its key; if another one needs it, it comes again with that. Alone, it can be dropped, and stays away.
ALTER TABLE v ADD UNIQUE ("at Time", tags_id, value);
SELECT name FROM series_indexes('v');
ALTER TABLE v DROP CONSTRAINT "The Key";
SELECT * FROM series_indexes('v');
DROP INDEX "v_at Time_tags_id_value_key_series";
ALTER TABLE v ADD COLUMN note text;
SELECT * FROM series_indexes('v');
INSERT INTO v VALUES (7, '2026-01-01 00:00:17', -1);
ALTER TABLE v DROP CONSTRAINT "v_at Time_tags_id_value_key", ADD PRIMARY KEY (tags_id, "at Time");
ALTER TABLE v DROP COLUMN tags_id;
SELECT * FROM series_indexes('v');
DROP TABLE v, h;

-- A key on rows that are there, in chunks and in the tail; CREATE UNIQUE INDEX, which becomes a constraint.
CREATE TABLE v(device text, time timestamptz, value int) USING varve;
INSERT INTO v SELECT 'd' || g % 3, at(g), g FROM generate_series(1, 3000) g;
INSERT INTO v VALUES ('d0', at(0), 0);
CREATE UNIQUE INDEX k ON v(time DESC, device) INCLUDE (value);
SELECT * FROM series_indexes('v');
EXPLAIN (COSTS OFF) SELECT value FROM v WHERE device = 'd1' AND time <= at(10) ORDER BY time;
SELECT value FROM v WHERE device = 'd1' AND time <= at(10) ORDER BY time;
DROP INDEX k;
SELECT * FROM series_indexes('v');
CREATE UNIQUE INDEX k ON v(time, device);
ALTER TABLE v ADD CONSTRAINT u UNIQUE USING INDEX k;
SELECT * FROM series_indexes('v');
ALTER TABLE v DROP CONSTRAINT u;
SELECT * FROM series_indexes('v');
-- Who asks for no locks gets none, but advice.
CREATE UNIQUE INDEX CONCURRENTLY k ON v(device, time);
SELECT * FROM series_indexes('v');
ALTER TABLE v ADD PRIMARY KEY USING INDEX k;
SELECT * FROM series_indexes('v');
DROP TABLE v;
CREATE TABLE v(device text, time timestamptz, value int, PRIMARY KEY (device, time)) USING heap;
INSERT INTO v SELECT 'd' || g % 3, at(g), g FROM generate_series(1, 3000) g;
ALTER TABLE v SET ACCESS METHOD varve;
SELECT * FROM series_indexes('v');
CALL varve.compact('v');
SELECT rows FROM varve.stats('v') WHERE part = 'tail';
CREATE TABLE w(LIKE v INCLUDING ALL) USING varve;
SELECT * FROM series_indexes('w');
-- Tables that are not varve tables have none, as CREATE INDEX would refuse it there.
CREATE TABLE h(LIKE v INCLUDING ALL) USING heap;
ALTER TABLE v SET ACCESS METHOD heap;
SELECT t, s.* FROM unnest('{v,h}'::text[]) t, series_indexes(t) s;
ALTER TABLE v SET ACCESS METHOD varve;
SELECT * FROM series_indexes('v');
DROP TABLE h;
CREATE TABLE IF NOT EXISTS v(device text, time timestamptz, PRIMARY KEY (device, time)) USING varve;
DROP TABLE v, w;

-- Deferrable keys, and those that others refer to.
CREATE TABLE v(device text, time timestamptz, UNIQUE (device, time) DEFERRABLE INITIALLY DEFERRED) USING varve;
SELECT * FROM series_indexes('v');
DROP TABLE v;
CREATE TABLE v(device text, time timestamptz, PRIMARY KEY (device, time)) USING varve;
CREATE TABLE w(device text, time timestamptz, UNIQUE (time, device), FOREIGN KEY (device, time) REFERENCES v) USING varve;
-- One that fails, in a part of the transaction that is undone then.
CREATE FUNCTION refuse_drop() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no drop'; END $$;
CREATE EVENT TRIGGER refuse_drop ON sql_drop WHEN TAG IN ('DROP INDEX') EXECUTE FUNCTION refuse_drop();
BEGIN;
SAVEPOINT s;
DROP INDEX v_pkey_series;
ROLLBACK TO s;
SELECT name FROM series_indexes('v');
COMMIT;
DROP EVENT TRIGGER refuse_drop;
DROP FUNCTION refuse_drop;
DROP INDEX v_pkey_series;
ALTER TABLE w DROP CONSTRAINT w_device_time_fkey, ADD FOREIGN KEY (device, time) REFERENCES v;
SELECT t, s.* FROM unnest('{v,w}'::text[]) t, series_indexes(t) s;
DROP TABLE v, w;

-- Which column is the time: the last one that says when. A key of numbers is one of ids.
CREATE TABLE v1(time timestamptz PRIMARY KEY, value int) USING varve;
CREATE TABLE v2(day date, a int, until timestamp, b uuid, c varchar(7), UNIQUE (day, a, until, b, c)) USING varve;
CREATE TABLE v3(a int, b int, PRIMARY KEY (a, b)) USING varve;
CREATE TABLE v4(a bigint PRIMARY KEY, time timestamptz) USING varve;
-- No series index takes these: other types, values that are equal but not the same bytes, keys of another kind.
CREATE TABLE v5(a numeric, time timestamptz, UNIQUE (a, time)) USING varve;
CREATE TABLE v6(a bpchar, time timestamptz, UNIQUE (a, time)) USING varve;
CREATE COLLATION nowhere (provider = icu, locale = 'und', deterministic = false);
CREATE TABLE v7(a text COLLATE nowhere, b text, time timestamptz, UNIQUE (a, time)) USING varve;
CREATE UNIQUE INDEX ON v7(b COLLATE nowhere, time);
CREATE UNIQUE INDEX ON v7(b, time) WHERE b > '';
CREATE UNIQUE INDEX ON v7(lower(b), time);
ALTER TABLE v7 ADD UNIQUE NULLS NOT DISTINCT (b, time);
CREATE TABLE v8(a int, time timestamptz, PRIMARY KEY (a, time)) USING heap;
SELECT t, s.* FROM generate_series(1, 8) g, concat('v', g) t, series_indexes(t) s;
DROP TABLE v1, v2, v3, v4, v5, v6, v7, v8;
DROP COLLATION nowhere;

-- A series index of one's own: there before the key it is enough; of the same columns it takes the automatic index's place. The layout
-- stays the key's.
CREATE TABLE v(site int, device int, time timestamptz, value int) USING varve;
CREATE INDEX own ON v USING varve (device, time);
ALTER TABLE v ADD PRIMARY KEY (site, device, time);
SELECT * FROM series_indexes('v');
ALTER TABLE v DROP CONSTRAINT v_pkey;
SELECT * FROM series_indexes('v');
DROP INDEX own;
ALTER TABLE v ADD PRIMARY KEY (site, device, time);
SELECT * FROM series_indexes('v');
CREATE INDEX own ON v USING varve (device, time);
SELECT * FROM series_indexes('v');
ALTER TABLE v DROP CONSTRAINT v_pkey;
DROP INDEX own;
ALTER TABLE v ADD PRIMARY KEY (device, time);
CREATE INDEX ON v USING varve (site, device, time);
INSERT INTO v SELECT g % 2, g % 4, at(g), g FROM generate_series(1, 2000) g;
CALL varve.compact('v');
EXPLAIN (COSTS OFF) SELECT value FROM v WHERE device = 1 AND time = at(5);
SELECT value FROM v WHERE device = 1 AND time = at(5);
CREATE INDEX v_pkey ON v USING varve (device, time);
CREATE INDEX IF NOT EXISTS v_pkey ON v USING varve (device, time);
SELECT * FROM series_indexes('v');
CREATE INDEX ON v USING varve (device, time);
SELECT * FROM series_indexes('v');
ALTER TABLE v DROP CONSTRAINT v_pkey;
SELECT * FROM series_indexes('v');
ALTER INDEX v_device_time_idx SET (of_key = on);
ALTER TABLE v ADD PRIMARY KEY (device, time);
SELECT * FROM series_indexes('v');
ALTER INDEX v_device_time_idx RESET (of_key);
SELECT * FROM series_indexes('v');
ALTER INDEX v_device_time_idx SET (of_key = on, fillfactor = 50, deduplicate_items = off);
ALTER INDEX v_device_time_idx SET (of_keys = on);
ALTER TABLE v DROP CONSTRAINT v_pkey;
SELECT name FROM series_indexes('v');
-- As a dump does it.
ALTER TABLE ONLY v ADD CONSTRAINT v_pkey PRIMARY KEY (device, time);
CREATE INDEX v_pkey_series ON public.v USING varve_series (device, "time") WITH (of_key='on');
CREATE INDEX renamed ON public.v USING varve_series (device, "time") WITH (of_key='on');
SELECT * FROM series_indexes('v');
CREATE INDEX another ON public.v USING varve_series (device, "time") WITH (of_key='on', fillfactor=70);
SELECT * FROM series_indexes('v');
DROP TABLE v;

-- Partitions.
CREATE TABLE p(device text, time timestamptz, value int, PRIMARY KEY (device, time)) PARTITION BY RANGE (time);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (at(0)) TO (at(1000)) USING varve;
CREATE TABLE p2(value int, device text NOT NULL, time timestamptz NOT NULL) USING varve;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (at(1000)) TO (at(2000));
CREATE TABLE p3(device text, time timestamptz, value int, PRIMARY KEY (device, time)) USING varve;
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (at(2000)) TO (at(3000));
CREATE TABLE p4 PARTITION OF p FOR VALUES FROM (at(3000)) TO (at(4000)) PARTITION BY LIST (device);
CREATE TABLE p4_1 PARTITION OF p4 FOR VALUES IN ('d1') USING varve;
CREATE TABLE p4_2 PARTITION OF p4 DEFAULT USING heap;
INSERT INTO p SELECT 'd' || g % 3, at(g), g FROM generate_series(0, 3999) g;
CALL varve.compact('p1');
INSERT INTO p VALUES ('d0', at(3), 0);
SELECT t, s.* FROM unnest('{p1,p2,p3,p4_1,p4_2}'::text[]) t, series_indexes(t) s;
-- Part of an index of the whole, an automatic index goes with that.
CREATE INDEX p_series ON ONLY p USING varve (device, time);
ALTER INDEX p_series ATTACH PARTITION p1_pkey_series;
SELECT * FROM series_indexes('p1');
DROP INDEX p_series;
ALTER TABLE p DETACH PARTITION p1;
ALTER TABLE p1 DROP CONSTRAINT p1_pkey;
CREATE INDEX p_series ON p USING varve (device, time);
ALTER TABLE p1 ADD PRIMARY KEY (device, time);
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (at(0)) TO (at(1000));
CREATE TABLE p5 PARTITION OF p FOR VALUES FROM (at(4000)) TO (at(5000)) USING varve;
SELECT t, s.* FROM unnest('{p1,p2,p3,p4_1,p4_2,p5}'::text[]) t, series_indexes(t) s;
ALTER TABLE p DROP CONSTRAINT p_pkey;
SELECT count(*) FROM p WHERE device = 'd1' AND time < at(100);
DROP INDEX p_series;
ALTER TABLE p ADD PRIMARY KEY (time, device);
SELECT t, s.* FROM unnest('{p1,p2,p3,p4_1,p4_2,p5}'::text[]) t, series_indexes(t) s;
ALTER TABLE p DROP CONSTRAINT p_pkey;
SELECT t, s.* FROM unnest('{p1,p2,p3,p4_1,p4_2,p5}'::text[]) t, series_indexes(t) s;
DROP TABLE p;

-- Whoever may make the key gets the index, whatever his search path, wherever the statement stands.
CREATE ROLE varve_keeper;
CREATE SCHEMA kept;
GRANT USAGE ON SCHEMA kept TO varve_keeper;
CREATE TABLE kept.v(device text, time timestamptz NOT NULL, value int) USING varve;
ALTER TABLE kept.v OWNER TO varve_keeper;
SET ROLE varve_keeper;
SET search_path = '';
ALTER TABLE kept.v ADD UNIQUE (device, time);
RESET ROLE;
GRANT CREATE ON SCHEMA kept TO varve_keeper;
SET ROLE varve_keeper;
ALTER TABLE kept.v ADD UNIQUE (device, time);
CREATE INDEX own ON kept.v USING varve (device, time);
DROP INDEX kept.own;
ALTER TABLE kept.v DROP CONSTRAINT v_device_time_key;
ALTER TABLE kept.v ADD UNIQUE (device, time);
RESET search_path;
RESET ROLE;
ALTER TABLE kept.v OWNER TO current_user;
SET ROLE varve_keeper;
CREATE INDEX stolen ON kept.v USING varve (device, time);
RESET ROLE;
SELECT * FROM series_indexes('kept.v');
DROP SCHEMA kept CASCADE;
DROP ROLE varve_keeper;
CREATE SCHEMA made
    CREATE TABLE v(device text, time timestamptz, PRIMARY KEY (device, time)) USING varve
    CREATE TABLE w(device text, time timestamptz, UNIQUE (device, time)) USING varve
    CREATE INDEX own ON w USING varve (device, time);
SELECT * FROM series_indexes('made.v');
SELECT * FROM series_indexes('made.w');
DROP SCHEMA made CASCADE;
BEGIN;
CREATE TEMP TABLE t(device text, time timestamptz, value int, PRIMARY KEY (device, time)) USING varve ON COMMIT DELETE ROWS;
INSERT INTO t SELECT 'd' || g % 3, at(g), g FROM generate_series(1, 3000) g;
SELECT count(*) FROM t WHERE device = 'd1' AND time <= at(10);
COMMIT;
CREATE UNLOGGED TABLE u(device text, time timestamptz, value int, PRIMARY KEY (device, time)) USING varve;
CREATE FUNCTION make_table(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE %I(device text, time timestamptz, PRIMARY KEY (device, time)) USING varve', name);
    EXECUTE format('INSERT INTO %I VALUES (''d1'', at(1))', name);
END $$;
BEGIN;
SAVEPOINT s;
SELECT make_table('f');
ROLLBACK TO s;
SELECT make_table('f');
COMMIT;
SELECT t, s.* FROM unnest('{t,u,f}'::text[]) t, series_indexes(t) s;
CREATE MATERIALIZED VIEW m USING varve AS SELECT g AS device, at(g) AS time FROM generate_series(1, 1000) g;
CREATE UNIQUE INDEX m_key ON m(device, time);
REFRESH MATERIALIZED VIEW CONCURRENTLY m;
REFRESH MATERIALIZED VIEW m;
SELECT * FROM series_indexes('m');
BEGIN;
CREATE TABLE two(device text, time timestamptz) USING varve;
DECLARE c CURSOR FOR TABLE two;
FETCH c;
CREATE UNIQUE INDEX ON two(device, time);
ROLLBACK;
-- Where event triggers do not fire, nothing is made.
SET session_replication_role = replica;
CREATE TABLE r(device text, time timestamptz, PRIMARY KEY (device, time)) USING varve;
RESET session_replication_role;
SELECT * FROM series_indexes('r');
DROP MATERIALIZED VIEW m;
DROP TABLE t, u, f, r;
DROP FUNCTION make_table, series_indexes, at;
