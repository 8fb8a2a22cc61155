-- Tools that come with PostgreSQL and look at tables and indexes from below, on every kind of varve table: they answer, or say why not.
CREATE SCHEMA tools;
CREATE SCHEMA contrib;
DO $$
DECLARE tool text;
BEGIN
    FOREACH tool IN ARRAY ARRAY['amcheck', 'pageinspect', 'pgstattuple', 'pg_visibility', 'pgrowlocks', 'pg_prewarm', 'pg_buffercache',
        'pg_freespacemap', 'pg_surgery']
    LOOP
        EXECUTE format('CREATE EXTENSION %I SCHEMA tools', tool);
    END LOOP;
END $$;
SET search_path = contrib, tools, public;
SET varve.batch_rows = 1000;
CREATE FUNCTION at(seconds int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT timestamptz '2026-01-01 00:00:00Z' + seconds * interval '1 s' $$;

-- A tail alone, chunks alone, and both, with a key and without; rows that were deleted, updated (some of them where they were) and
-- compacted since; an expression; a key that keeps its rows in the tail; a mark of old rows that an index covers and a chunk has.
CREATE TABLE bare_tail(time timestamptz NOT NULL, host int NOT NULL, value float8) USING varve;
CREATE TABLE bare_chunks(LIKE bare_tail) USING varve;
CREATE TABLE bare_both(LIKE bare_tail) USING varve;
CREATE INDEX ON bare_both USING varve (host, time);
CREATE INDEX ON bare_both ((value + 1)) WHERE host < 5;
CREATE TABLE keyed_tail(LIKE bare_tail, PRIMARY KEY (host, time)) USING varve;
CREATE TABLE keyed_chunks(LIKE bare_tail, PRIMARY KEY (host, time)) USING varve;
CREATE TABLE keyed_both(LIKE bare_tail, PRIMARY KEY (host, time)) USING varve;
CREATE TABLE keyed_expression(LIKE bare_tail) USING varve;
CREATE UNIQUE INDEX ON keyed_expression (host, (value + 1), time);
CREATE INDEX ON keyed_expression (value) INCLUDE (host);
CREATE TABLE keyed_deferrable(LIKE bare_tail, UNIQUE (host, time) DEFERRABLE) USING varve;
CREATE TABLE wide_key(time timestamptz NOT NULL, host text NOT NULL, PRIMARY KEY (host, time)) USING varve;
CREATE TABLE empty(LIKE bare_tail, PRIMARY KEY (host, time)) USING varve;
CREATE FUNCTION fill(name text, row_by_row bool, first int, last int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT row_by_row THEN
        EXECUTE format('INSERT INTO %I SELECT at(g / 10), g %% 10, g FROM generate_series($1, $2) g', name) USING first, last;
        RETURN;
    END IF;
    FOR g IN first..last LOOP
        EXECUTE format('INSERT INTO %I VALUES (at($1 / 10), $1 %% 10, $1)', name) USING g;
    END LOOP;
END $$;
SELECT count(fill(name, true, 1, 500)) FROM unnest(ARRAY['bare_tail', 'bare_both', 'keyed_tail', 'keyed_both', 'keyed_expression', 'keyed_deferrable']) name;
SELECT count(fill(name, false, 1, 3000)) FROM unnest(ARRAY['bare_chunks', 'keyed_chunks']) name;
CALL varve.compact('bare_both');
CALL varve.compact('keyed_both');
CALL varve.compact('keyed_deferrable');
SELECT count(fill(name, false, 501, 3000)) FROM unnest(ARRAY['bare_both', 'keyed_both', 'keyed_deferrable']) name;
SELECT count(fill(name, true, 3001, 3500)) FROM unnest(ARRAY['bare_both', 'keyed_both', 'keyed_expression', 'keyed_deferrable']) name;
INSERT INTO wide_key SELECT at(g), repeat('k', 900) || g FROM generate_series(1, 3000) g;
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['bare_tail', 'bare_both', 'keyed_tail', 'keyed_both', 'keyed_chunks', 'keyed_expression', 'keyed_deferrable'] LOOP
        EXECUTE format('DELETE FROM %I WHERE value::int %% 97 = 0', name);
        EXECUTE format('UPDATE %I SET value = value + 0.5 WHERE value::int %% 89 = 0', name);
        EXECUTE format('UPDATE %I SET time = time + interval ''1 year'' WHERE value::int %% 83 = 0', name);
    END LOOP;
END $$;

-- What a statement gives: whether rows, or which error.
CREATE FUNCTION attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE rows bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM (%s) AS answer', statement) INTO rows;
    RETURN CASE WHEN rows > 0 THEN 'answers' ELSE 'no rows' END;
EXCEPTION WHEN OTHERS THEN RETURN CASE WHEN SQLERRM <> '' THEN SQLSTATE END;
END $$;

-- amcheck finds an entry for every row that an ordinary index covers, and refuses what is none of its own.
CREATE VIEW indexes AS SELECT c.relname AS index, t.relname AS "table", a.amname AS method, c.oid FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid JOIN pg_am a ON a.oid = c.relam
    WHERE t.relnamespace = 'contrib'::regnamespace;
CREATE VIEW checks AS SELECT index, method,
    attempt(format('SELECT bt_index_check(%s, heapallindexed => true)', oid)) AS "check",
    attempt(format('SELECT bt_index_parent_check(%s, heapallindexed => true, rootdescend => true)', oid)) AS parent_check FROM indexes;
SELECT * FROM checks ORDER BY index COLLATE "C";
VACUUM bare_both, keyed_both, keyed_tail, keyed_chunks, keyed_expression, keyed_deferrable;
SELECT method, "check", parent_check, count(*) FROM checks WHERE method = 'btree' GROUP BY 1, 2, 3;
CALL varve.compact('bare_both');
CALL varve.compact('keyed_both');
SELECT fill('keyed_both', true, 3501, 3600);
SELECT method, "check", parent_check, count(*) FROM checks WHERE method = 'btree' GROUP BY 1, 2, 3;
-- In a transaction that has changed the table, and by an old snapshot.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) > 0 FROM keyed_both;
INSERT INTO keyed_both SELECT at(g), 100, g FROM generate_series(1, 3000) g;
INSERT INTO keyed_both VALUES (at(1), 101, 1);
DELETE FROM keyed_both WHERE host = 3;
UPDATE bare_both SET value = 0 WHERE host = 4;
SELECT method, "check", parent_check, count(*) FROM checks WHERE method = 'btree' GROUP BY 1, 2, 3;
ROLLBACK;
-- It does find a row that has no entry.
CREATE FUNCTION unseen(name text, statement text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE pg_index SET indislive = false WHERE indexrelid = name::regclass;
    UPDATE pg_class SET relname = relname WHERE oid = (SELECT indrelid FROM pg_index WHERE indexrelid = name::regclass);
    EXECUTE statement;
    UPDATE pg_index SET indislive = true WHERE indexrelid = name::regclass;
    UPDATE pg_class SET relname = relname WHERE oid = (SELECT indrelid FROM pg_index WHERE indexrelid = name::regclass);
END $$;
SELECT unseen('keyed_deferrable_host_time_key', $$INSERT INTO keyed_deferrable VALUES (at(1), 1000, 1)$$);
SELECT attempt($$SELECT bt_index_check('keyed_deferrable_host_time_key', heapallindexed => true)$$);

-- What is no heap says so; what reads pages, reads them. Which pages nbtree has deleted is its own business.
CREATE VIEW relations AS SELECT relname AS name, quote_literal(relname) AS quoted, amname AS method FROM pg_class c JOIN pg_am a ON a.oid = relam
    WHERE relnamespace = 'contrib'::regnamespace AND relkind IN ('r', 'i') AND pg_relation_size(c.oid) > 0;
CREATE FUNCTION of_all(statement text) RETURNS TABLE (method name, answer text) LANGUAGE sql AS $$
    SELECT DISTINCT r.method, attempt(replace(statement, '$1', quoted)) FROM relations r ORDER BY 1, 2 $$;
SELECT * FROM of_all('SELECT * FROM pgstattuple($1)');
SELECT * FROM of_all('SELECT * FROM pgstattuple_approx($1)');
SELECT * FROM of_all('SELECT * FROM pgstatindex($1)');
SELECT * FROM of_all('SELECT pg_relpages($1)');
SELECT * FROM of_all('SELECT * FROM pgrowlocks($1)');
SELECT * FROM of_all('SELECT pg_prewarm($1)');
SELECT * FROM of_all('SELECT pg_freespace($1)');
SELECT * FROM of_all('SELECT * FROM verify_heapam($1)');
SELECT * FROM of_all('SELECT heap_force_kill($1, ARRAY[''(0,1)'']::tid[])');
SELECT * FROM of_all('SELECT pg_visibility($1)');
SELECT * FROM of_all('SELECT pg_check_visible($1)');
SELECT * FROM of_all('SELECT pg_check_frozen($1)');
SELECT * FROM of_all('SELECT pg_truncate_visibility_map($1)');
SELECT * FROM of_all('SELECT page_header(get_raw_page($1, b::int)) FROM generate_series(0, pg_relation_size($1) / 8192 - 1) b');
SELECT * FROM of_all('SELECT * FROM heap_page_items(get_raw_page($1, 0))');
SELECT attempt($$SELECT * FROM heap_page_item_attrs(get_raw_page('keyed_both', 0), 'keyed_both')$$);
SELECT * FROM of_all('SELECT bt_metap($1)');
SET client_min_messages = warning;
SELECT * FROM of_all('SELECT i.* FROM generate_series(1, pg_relation_size($1) / 8192 - 1) b, bt_page_items($1, b) i');
SELECT * FROM of_all('SELECT i.* FROM generate_series(1, pg_relation_size($1) / 8192 - 1) b, bt_page_items(get_raw_page($1, b::int)) i');
RESET client_min_messages;
SELECT count(*) > 0 AS buffers FROM pg_buffercache b JOIN pg_class c ON b.relfilenode = pg_relation_filenode(c.oid) WHERE c.relname = 'keyed_both';
-- Nothing of it has done harm.
SELECT "table", count(f.*) FROM (SELECT DISTINCT "table" FROM indexes) t, LATERAL varve.verify("table"::regclass) f GROUP BY 1;
RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA tools, contrib CASCADE;
