-- What was decoded of chunks stays with the session when a transaction ends. Who asks for a header sees its tuple and its notes first, so
-- changes, compaction and DDL show at once. A heap beside it, asked the same after each step.
CREATE FUNCTION at(seconds int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS
  $$ SELECT timestamptz '2026-01-01 00:00:00Z' + seconds * interval '1 s' $$;
CREATE TABLE s (host int, time timestamptz, v float8, note text) USING varve;
CREATE INDEX ON s USING varve (host, time);
INSERT INTO s SELECT h, at(g), g + sqrt(h), 'note ' || md5((g * h)::text) FROM generate_series(1, 40) h, generate_series(1, 600) g;
CALL varve.compact('s');
CREATE TABLE h (LIKE s);
INSERT INTO h TABLE s;
CREATE INDEX ON h (host, time);
-- Newest rows, single rows and ranges of each series, as text, from both.
CREATE FUNCTION asked(name text) RETURNS TABLE (rows bigint, hash text) LANGUAGE plpgsql AS $$
  BEGIN
    RETURN QUERY EXECUTE format($q$
      SELECT count(l), md5(string_agg(l::text, ',' ORDER BY k, part, l.time)) FROM generate_series(0, 41) k, LATERAL (
        (SELECT 1 AS part, t.* FROM %1$I t WHERE host = k ORDER BY time DESC LIMIT 2) UNION ALL
        (SELECT 2, t.* FROM %1$I t WHERE host = k AND time = at(299 + k)) UNION ALL
        (SELECT 3, t.* FROM %1$I t WHERE host = k AND time >= at(3 * k) ORDER BY time LIMIT 3)) l $q$, name);
  END $$;
-- What is folded from columns, of blocks that were decoded before.
CREATE FUNCTION folded(name text) RETURNS text LANGUAGE plpgsql AS $$
  DECLARE hash text;
  BEGIN
    EXECUTE format($q$
      SELECT md5(string_agg(x::text, ',' ORDER BY host)) FROM
        (SELECT host, count(*), min(v), max(v), max(time) FROM %I WHERE v > 100.5 AND time < at(500) GROUP BY host) x $q$, name)
    INTO hash;
    RETURN hash;
  END $$;
-- What all rows add up to, those of chunks together.
CREATE FUNCTION summed(name text) RETURNS text LANGUAGE plpgsql AS $$
  DECLARE sums text;
  BEGIN
    EXECUTE format($q$ SELECT (count(*), count(time), sum(host), count(v), round(avg(v)::numeric, 6), max(host), min(time))::text FROM %I $q$, name)
    INTO sums;
    RETURN sums;
  END $$;
CREATE FUNCTION alike() RETURNS TABLE (rows bigint, alike boolean, whole bigint) LANGUAGE sql AS $$
  SELECT a.rows, a.hash IS NOT DISTINCT FROM b.hash AND folded('s') IS NOT DISTINCT FROM folded('h') AND summed('s') IS NOT DISTINCT FROM summed('h'),
         (SELECT count(*) FROM ((TABLE s EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE s)) x)
  FROM asked('s') a, asked('h') b $$;
CREATE PROCEDURE twice(statement text) LANGUAGE plpgsql AS
  $$ BEGIN EXECUTE format(statement, 's'); EXECUTE format(statement, 'h'); END $$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT * FROM alike();
SELECT * FROM alike();

-- A query of its own transaction reads index and header; no piece.
CREATE FUNCTION buffers(statement text) RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE plan json;
  BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || statement INTO plan;
    plan := plan->0->'Plan';
    RETURN (plan->>'Shared Hit Blocks')::bigint + (plan->>'Shared Read Blocks')::bigint;
  END $$;
CREATE TEMP TABLE costs (kept boolean, buffers bigint);
SELECT count(note) FROM s WHERE host = 17 AND time = at(300);
INSERT INTO costs SELECT true, buffers('SELECT * FROM s WHERE host = 17 AND time = at(300)');
SET varve.session_cache = 0;
SELECT * FROM alike();
INSERT INTO costs SELECT false, buffers('SELECT * FROM s WHERE host = 17 AND time = at(300)');
SELECT kept, buffers <= 5 AS few FROM costs ORDER BY kept;
SELECT * FROM alike();
RESET varve.session_cache;
-- So little room that nearly everything goes.
SET varve.session_cache = '64kB';
SELECT * FROM alike();
SELECT * FROM alike();
RESET varve.session_cache;
SELECT * FROM alike();

-- Changes that are undone, and that are not.
BEGIN;
CALL twice('UPDATE %I SET note = ''changed'' WHERE host = 17 AND time >= at(300)');
SELECT * FROM alike();
ROLLBACK;
SELECT * FROM alike();
BEGIN;
SAVEPOINT a;
CALL twice('DELETE FROM %I WHERE host = 17');
SELECT * FROM alike();
ROLLBACK TO a;
SELECT * FROM alike();
CALL twice('DELETE FROM %I WHERE host = 18 AND time > at(300)');
COMMIT;
SELECT * FROM alike();
CALL twice('UPDATE %I SET v = -v WHERE host = 19 AND time < at(100)');
SELECT * FROM alike();
-- Notes, one after the other; then headers with a delete map.
CALL twice('DELETE FROM %I WHERE host = 20 AND time = at(600)');
SELECT * FROM alike();
CALL twice('DELETE FROM %I WHERE host = 20 AND time = at(599)');
SELECT * FROM alike();
CALL twice('UPDATE %I SET note = note || ''!'' WHERE host = 20 AND time = at(598)');
SELECT * FROM alike();
CALL twice('DELETE FROM %I WHERE time > at(590) AND host %% 3 = 0');
SELECT * FROM alike();
BEGIN;
SELECT 1 / (v - v)::int FROM s WHERE host = 21 ORDER BY time;
ROLLBACK;
SELECT * FROM alike();
-- Other places of headers, and other headers in their places.
CALL varve.compact('s');
SELECT * FROM alike();
VACUUM s;
CALL varve.compact('s');
SELECT * FROM alike();
VACUUM FREEZE s;
SELECT * FROM alike();
CALL twice('DELETE FROM %I');
VACUUM s;
CALL twice('INSERT INTO %I SELECT h, at(g), g - sqrt(h), ''other '' || md5((g * h)::text) FROM generate_series(1, 40) h, generate_series(1, 600) g');
CALL varve.compact('s');
SELECT * FROM alike();
VACUUM FULL s;
SELECT * FROM alike();
-- The same file, emptied within its transaction: the same places, and the same writer.
BEGIN;
TRUNCATE s, h;
CALL twice('INSERT INTO %I SELECT h, at(g), g, ''first'' FROM generate_series(1, 40) h, generate_series(1, 600) g');
SELECT * FROM alike();
TRUNCATE s, h;
CALL twice('INSERT INTO %I SELECT h, at(g), -g, ''second'' FROM generate_series(1, 40) h, generate_series(1, 600) g');
SELECT * FROM alike();
SAVEPOINT a;
TRUNCATE s, h;
CALL twice('INSERT INTO %I SELECT h, at(g), 7, ''third'' FROM generate_series(1, 40) h, generate_series(1, 600) g');
SELECT * FROM alike();
ROLLBACK TO a;
SELECT * FROM alike();
COMMIT;
SELECT * FROM alike();
BEGIN;
TRUNCATE s, h;
SELECT * FROM alike();
ROLLBACK;
SELECT * FROM alike();

-- Columns that come, go, and change.
CALL twice('ALTER TABLE %I ADD more int DEFAULT 7');
SELECT * FROM alike();
CALL twice('ALTER TABLE %I DROP note');
SELECT * FROM alike();
CALL twice('ALTER TABLE %I ALTER v TYPE numeric USING v::numeric(10, 2)');
SELECT * FROM alike();
CALL twice('ALTER TABLE %I ADD note varchar(90) DEFAULT ''abc''');
CALL twice('UPDATE %I SET note = host || '' '' || v WHERE host < 20');
CALL varve.compact('s');
SELECT * FROM alike();
CALL twice('ALTER TABLE %I ALTER note TYPE text');
SELECT * FROM alike();
CALL twice('ALTER TABLE %I ALTER more TYPE oid');
SELECT * FROM alike();
BEGIN;
CALL twice('ALTER TABLE %I DROP more');
SELECT * FROM alike();
ROLLBACK;
SELECT * FROM alike();

-- Values that outlive the transaction: a cursor, and loops over rows in procedures that commit.
CALL twice('UPDATE %I SET note = ''note '' || md5((extract(epoch FROM time - at(0))::int * host)::text)');
CALL varve.compact('s');
BEGIN;
DECLARE c CURSOR WITH HOLD FOR SELECT host, note FROM s WHERE host IN (3, 17) ORDER BY host DESC, time;
FETCH 1 FROM c;
COMMIT;
SELECT count(*), max(note) FROM s WHERE host = 20;
FETCH 2 FROM c;
MOVE 598 FROM c;
FETCH 1 FROM c;
CLOSE c;
CREATE PROCEDURE walk(OUT rows int, OUT wrong int) LANGUAGE plpgsql AS $$
  DECLARE r record; other text;
  BEGIN
    rows := 0; wrong := 0;
    FOR r IN SELECT * FROM s WHERE host IN (5, 6) ORDER BY host, time LOOP
      rows := rows + 1;
      SELECT note INTO other FROM s WHERE host = 41 - r.host AND time = r.time;
      IF rows % 50 = 0 THEN COMMIT; END IF;
      IF other IS DISTINCT FROM 'note ' || md5((extract(epoch FROM r.time - at(0))::int * (41 - r.host))::text)
         OR r.note IS DISTINCT FROM 'note ' || md5((extract(epoch FROM r.time - at(0))::int * r.host)::text) THEN
        wrong := wrong + 1;
      END IF;
      IF rows % 70 = 0 THEN ROLLBACK; END IF;
    END LOOP;
  END $$;
CALL walk(NULL, NULL);
-- An older snapshot and a newer one of the same chunk, by turns.
BEGIN;
DECLARE old CURSOR FOR SELECT host, v FROM s WHERE host IN (30, 31) ORDER BY host, time DESC;
FETCH 1 FROM old;
CALL twice('DELETE FROM %I WHERE host IN (30, 31) AND time > at(595)');
SELECT * FROM alike();
FETCH 2 FROM old;
MOVE 596 FROM old;
FETCH 2 FROM old;
SELECT count(*) FROM s WHERE host = 31;
FETCH 2 FROM old;
COMMIT;
SELECT * FROM alike();
SELECT * FROM varve.verify('s');
DROP TABLE s, h;
-- The same name again.
CREATE TABLE s (host int, time timestamptz, v float8, note text) USING varve;
CREATE INDEX ON s USING varve (host, time);
INSERT INTO s SELECT h, at(g), 0, 'new' FROM generate_series(1, 40) h, generate_series(1, 600) g;
CREATE TABLE h (LIKE s);
INSERT INTO h TABLE s;
SELECT * FROM alike();
DROP TABLE s, h;
DROP PROCEDURE walk, twice;
DROP FUNCTION at, alike, asked, folded, buffers;
