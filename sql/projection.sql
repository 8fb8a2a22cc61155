-- A scan of a varve table decodes only the columns that its node asks for; whoever wants more gets more.
CREATE TABLE p(time timestamptz NOT NULL, a text, b int, c numeric, d float8) USING varve;
INSERT INTO p SELECT '2026-01-01'::timestamptz + i * interval '1 s', 'x' || i, i, i / 4.0, i / 8.0 FROM generate_series(1, 3000) i;
ALTER TABLE p ADD COLUMN e int DEFAULT 7;
-- The last column alone, a column between, none.
SELECT sum(d), count(*) FROM p;
SELECT c FROM p WHERE b BETWEEN 5 AND 7;
SELECT count(*) FROM p;
SELECT sum(e), sum(b) FROM p WHERE d > 100;
-- Whole rows.
SELECT p FROM p WHERE b = 5;
SELECT row_to_json(p)->>'c' FROM p WHERE b = 6;
SELECT count(*) FROM (SELECT p FROM p OFFSET 0) s WHERE (s.p).b = 9;
-- Rows that are copied, sorted, joined, locked, updated, and seen by a trigger.
SELECT a, c FROM p WHERE b < 4 ORDER BY c DESC FOR UPDATE;
SELECT x.a, y.d FROM p x JOIN p y USING (b) WHERE x.b IN (4, 2000) ORDER BY x.b;
UPDATE p SET c = 1 WHERE b < 3 RETURNING *;
CREATE FUNCTION p_seen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE NOTICE 'old %', OLD; RETURN OLD; END $$;
CREATE TRIGGER p_seen BEFORE DELETE ON p FOR EACH ROW EXECUTE FUNCTION p_seen();
DELETE FROM p WHERE b = 11 RETURNING d;
-- Quals on columns that are not shown, in subqueries and by TID.
SELECT a FROM p WHERE c = 500 AND EXISTS (SELECT FROM p q WHERE q.d = p.d AND q.e = 7);
SELECT d FROM p WHERE ctid = (SELECT ctid FROM p WHERE b = 77);
SELECT count(DISTINCT a), max(tableoid::regclass::text) FROM p TABLESAMPLE system (100);
-- Columns that only the conditions of an index name; what others change meanwhile is in specs/index-recheck.
CREATE INDEX ON p USING varve (b, time);
CALL varve.compact('p');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT d FROM p WHERE b = 30;
SELECT d FROM p WHERE b = 30 AND time > '2026-01-01' AND a > 'x' ORDER BY time DESC LIMIT 1;
SELECT count(x.d) FROM p x JOIN p y ON x.b = y.b + 1 WHERE y.b IN (5, 2999, 3000);
DROP TABLE p;
DROP FUNCTION p_seen;
