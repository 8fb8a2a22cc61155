-- The series index: what it accepts, what it refuses, and what scans of it return.
CREATE TABLE si (host text, region int, t timestamptz, v float8, x numeric) USING varve;

-- What it refuses, when it is created.
CREATE INDEX ON si USING varve (host, t DESC);
CREATE INDEX ON si USING varve (host, t NULLS FIRST);
CREATE INDEX ON si USING varve (host, v);
CREATE INDEX ON si USING varve (t, host);
CREATE INDEX ON si USING varve (v, t);
CREATE INDEX ON si USING varve (x, t);
CREATE INDEX ON si USING varve (lower(host), t);
CREATE INDEX ON si USING varve (host, t) INCLUDE (v);
CREATE INDEX ON si USING varve (host, t) WHERE v > 0;
CREATE UNIQUE INDEX ON si USING varve (host, t);
ALTER TABLE si ADD EXCLUDE USING varve_series (host WITH =, t WITH =);
-- Types that it does not take, with the reason and a remedy.
CREATE TABLE si_odd (a jsonb, b numeric, c float4, d interval, e point, f int[], "Time of it" timestamptz, host text) USING varve;
CREATE INDEX ON si_odd USING varve (a, "Time of it");
CREATE INDEX ON si_odd USING varve (host, b, "Time of it");
CREATE INDEX ON si_odd USING varve (c, "Time of it");
CREATE INDEX ON si_odd USING varve (d, "Time of it");
CREATE INDEX ON si_odd USING varve (e, "Time of it");
CREATE INDEX ON si_odd USING varve (f, "Time of it");
CREATE INDEX ON si_odd USING varve (host, c);
CREATE INDEX ON si_odd USING varve ("Time of it", host);
CREATE INDEX ON si_odd USING varve (b);
CREATE INDEX ON si_odd USING varve (missing, "Time of it");
CREATE INDEX ON si_odd USING varve (a varve.text_ops, "Time of it");
ALTER TABLE si_odd ADD a_text text GENERATED ALWAYS AS (a::text) STORED;
CREATE INDEX ON si_odd USING varve (a_text, "Time of it");
CREATE TABLE si_timeless (host text, seconds float8) USING varve;
CREATE INDEX ON si_timeless USING varve (host, seconds);
CREATE TABLE si_parts (b numeric, t timestamptz) PARTITION BY RANGE (t);
CREATE INDEX ON si_parts USING varve (b, t);
DROP TABLE si_odd, si_timeless, si_parts;
CREATE TABLE si_char (host bpchar, short char(4), t timestamptz) USING varve;
CREATE INDEX ON si_char USING varve (host, t);
CREATE INDEX ON si_char USING varve (short, t);
DROP TABLE si_char;

-- What it accepts.
CREATE INDEX si_series ON si USING varve (host, region, t);
\d si_series
CREATE TYPE si_mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE si_types (a int2, b int4, c int8, d text, e varchar(9), f uuid, g date, h timestamp, i bool, j oid, k name, l "char",
                       m si_mood, n bytea, o inet, p macaddr, t date) USING varve;
CREATE INDEX ON si_types USING varve (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, t);
INSERT INTO si_types SELECT g % 3, g % 5, g % 2, 'd' || g % 2, 'e', md5((g % 3)::text)::uuid, '2024-01-01', '2024-01-01', g % 2 = 0, g % 3,
    'name', 'c', (ARRAY['sad', 'ok', 'happy'])[1 + g % 3]::si_mood, '\x01', '10.0.0.1', '00:00:00:00:00:01', '2024-01-01'::date + g
    FROM generate_series(1, 1000) g;
SET enable_seqscan = off;
SET varve.enable_aggregate = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM si_types WHERE a = 1 AND b = 2::int8 AND c = 1::int2 AND d = 'd1' AND m = 'ok' AND t < timestamp '2025-01-01';
SELECT count(*) FROM si_types WHERE a = 1 AND b = 2::int8 AND c = 1::int2 AND d = 'd1' AND m = 'ok' AND t < timestamp '2025-01-01';
SELECT count(*) FROM si_types WHERE a = 1 AND f = md5('1')::uuid AND k = 'name' AND i IN (true, false) AND e LIKE 'e%';
DROP TABLE si_types;
DROP TYPE si_mood;

-- Schema elements and copies of definitions.
CREATE SCHEMA si_schema CREATE TABLE inner_table (host int, t date) USING varve CREATE INDEX inner_index ON inner_table USING varve (host, t);
CREATE TABLE si_like (LIKE si INCLUDING INDEXES) USING varve;
SELECT indexdef FROM pg_indexes WHERE tablename IN ('inner_table', 'si_like') ORDER BY 1;
DROP SCHEMA si_schema CASCADE;
DROP TABLE si_like;

-- Ordinary indexes: a notice; promises about all rows only while there are no chunks.
INSERT INTO si SELECT 'h' || g % 4, g % 2, timestamptz '2024-01-01' + g * interval '10 s', g, g FROM generate_series(1, 4000) g;
CREATE UNIQUE INDEX ON si (host, region, (v + 0));
ALTER TABLE si ADD UNIQUE NULLS NOT DISTINCT (host, v);
ALTER TABLE si ADD EXCLUDE USING btree (v WITH =);
CREATE INDEX si_v ON si (v);
CREATE INDEX CONCURRENTLY si_expression ON si ((1 / v)) WHERE v <> 0;
CREATE INDEX si_brin ON si USING brin (t);
REINDEX TABLE si;
DROP INDEX si_expression, si_v, si_brin;

-- Ordered scans in both directions, tail rows among rows of chunks, bounds inside a chunk.
INSERT INTO si VALUES ('h1', 1, '2024-01-01 01:00:05', -1), ('h1', 1, '2024-01-01 00:00:01', -2), ('h1', NULL, '2024-01-01 01:00:05', -3),
    (NULL, 1, '2024-01-01 01:00:05', -4), (NULL, NULL, NULL, -5), ('h1', 1, NULL, -6);
EXPLAIN (COSTS OFF) SELECT v FROM si WHERE host = 'h1' AND region = 1 AND t >= '2024-01-01 00:59' ORDER BY t LIMIT 9;
SELECT v FROM si WHERE host = 'h1' AND region = 1 AND t >= '2024-01-01 00:59' ORDER BY t LIMIT 9;
EXPLAIN (COSTS OFF) SELECT v FROM si WHERE host = 'h1' AND region = 1 AND t < '2024-01-01 01:01' ORDER BY t DESC LIMIT 9;
SELECT v FROM si WHERE host = 'h1' AND region = 1 AND t < '2024-01-01 01:01' ORDER BY t DESC LIMIT 9;
SELECT v FROM si WHERE host = 'h1' AND region = 1 ORDER BY t DESC LIMIT 3;
EXPLAIN (COSTS OFF) SELECT host, region, t, v FROM si ORDER BY host, region, t;
SELECT host, region, t, v FROM si ORDER BY host, region, t LIMIT 2;
SELECT host, region, t, v FROM si ORDER BY host DESC, region DESC, t DESC LIMIT 4;
SELECT v FROM si WHERE host IS NULL ORDER BY v;
SELECT v FROM si WHERE host = 'h1' AND t IS NULL;
SELECT v FROM si WHERE host IN ('h3', 'h0', NULL, 'h3') AND region IN (0, 1) AND t < '2024-01-01 00:02' ORDER BY host, region, t;
SELECT count(*) FROM si WHERE host = 'h1' AND t IN ('2024-01-01 01:00:05', '2024-01-01 00:00:50', '2000-01-01');
SELECT count(*) FROM si WHERE (host, region) > ('h1', 0) AND host LIKE 'h2%';

-- Inner side of a nested loop; cursors; changes through the index.
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
EXPLAIN (COSTS OFF) SELECT k, count(v), max(t) FROM (VALUES ('h0'), ('h2'), ('h9')) k(k) LEFT JOIN si ON host = k AND region = 0 GROUP BY k ORDER BY k;
SELECT k, count(v), max(t) FROM (VALUES ('h0'), ('h2'), ('h9')) k(k) LEFT JOIN si ON host = k AND region = 0 GROUP BY k ORDER BY k;
RESET enable_hashjoin;
RESET enable_material;
RESET enable_mergejoin;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT v FROM si WHERE host = 'h1' AND region = 1 ORDER BY t;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH FORWARD 3 FROM c;
FETCH LAST FROM c;
MOVE BACKWARD 1 IN c;
DELETE FROM si WHERE host = 'h1' AND region = 1 AND v < 30;
FETCH FIRST FROM c;
SELECT v FROM si WHERE host = 'h1' AND region = 1 ORDER BY t LIMIT 2;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT v FROM si WHERE host = 'h2' AND region = 0 ORDER BY t FOR UPDATE;
FETCH 2 FROM c;
UPDATE si SET v = -100, t = t + interval '1 s' WHERE CURRENT OF c;
FETCH 1 FROM c;
DELETE FROM si WHERE CURRENT OF c;
SELECT v FROM si WHERE host = 'h2' AND region = 0 ORDER BY t LIMIT 3;
COMMIT;
EXPLAIN (COSTS OFF) UPDATE si SET v = v + 0.5 WHERE host = 'h3' AND t < '2024-01-01 00:02';
UPDATE si SET v = v + 0.5 WHERE host = 'h3' AND t < '2024-01-01 00:02' RETURNING v;
SELECT v FROM si WHERE host = 'h3' AND t < '2024-01-01 00:03';

-- What is created later covers what is there, chunks and tail.
CREATE INDEX CONCURRENTLY si_time ON si USING varve (t);
DROP INDEX si_series;
SELECT count(*), min(v) FROM si WHERE t < '2024-01-01 01:00';
SELECT v FROM si WHERE t < '2024-01-01 01:00' ORDER BY t DESC LIMIT 3;
REINDEX INDEX CONCURRENTLY si_time;
CALL varve.compact('si');
SELECT count(*), min(v) FROM si WHERE t < '2024-01-01 01:00';
VACUUM si;
SELECT v FROM si WHERE t < '2024-01-01 01:00' ORDER BY t DESC LIMIT 3;
SELECT * FROM varve.verify('si');
-- A whole table is not read through it.
RESET enable_seqscan;
RESET enable_bitmapscan;
EXPLAIN (COSTS OFF) SELECT sum(v) FROM si WHERE t > '2023-01-01';
DROP TABLE si;

-- Keys of type char(n) are found by literals and parameters of any length: trailing blanks do not count. First in a chunk
-- that is not keyed, then in keyed ones, those of one series and the tail.
SET enable_bitmapscan = off;
SET varve.enable_aggregate = off;
CREATE TABLE si_char (k char(4), t int NOT NULL, v int) USING varve;
CREATE INDEX ON si_char USING varve (k, t);
CREATE PROCEDURE si_chars() LANGUAGE plpgsql AS $$
DECLARE condition text; index_rows bigint; all_rows bigint;
BEGIN
    FOREACH condition IN ARRAY ARRAY['k = ''a''', 'k = ''é   ''', 'k = ''a         ''', 'k = ''a''::char(9)', 'k = ''abcd''', 'k = ''abcde''', 'k = ''''',
        'k IN (''a'', ''é'', ''none'')', 'k = ANY (ARRAY[''a'', ''ab''::char(2)])', 'k = ''a'' AND t BETWEEN 300 AND 1800', 'k > ''a'' AND k <= ''ab''', 'k < ''abcde'''] LOOP
        SET LOCAL enable_seqscan = off;
        SET LOCAL enable_indexscan = on;
        EXECUTE 'SELECT count(*) FROM si_char WHERE ' || condition INTO index_rows;
        SET LOCAL enable_seqscan = on;
        SET LOCAL enable_indexscan = off;
        EXECUTE 'SELECT count(*) FROM si_char WHERE ' || condition INTO all_rows;
        RAISE NOTICE '%: % rows%', condition, all_rows, CASE WHEN index_rows <> all_rows THEN format(', and %s by the index', index_rows) ELSE '' END;
    END LOOP;
END $$;
INSERT INTO si_char SELECT (ARRAY['a', 'b', 'é', 'ab', 'abcd'])[i % 5 + 1], i, i FROM generate_series(1, 2500) i;
CALL si_chars();
CALL varve.compact('si_char');
INSERT INTO si_char SELECT (ARRAY['a', 'b', 'é', 'ab', 'abcd', ''])[i % 6 + 1], i, i FROM generate_series(1, 3000) i;
INSERT INTO si_char SELECT 'a', i, i FROM generate_series(1, 600) i;
INSERT INTO si_char VALUES ('a', 1, 1), ('é', 1, 1), ('abcd', 1, 1);
CALL si_chars();
PREPARE si_char(bpchar) AS SELECT t FROM si_char WHERE k = $1 ORDER BY t DESC LIMIT 2;
EXECUTE si_char('b'); EXECUTE si_char('b       ');
DELETE FROM si_char WHERE k = 'a';
SELECT count(*) FROM si_char WHERE k = 'a   ';
DROP TABLE si_char;
DROP PROCEDURE si_chars;
