-- Expressions and predicates of ordinary indexes are computed for compressed rows too, though the index does not hold them:
-- what they raise for one of them they raise at once.
CREATE TABLE t(time timestamptz NOT NULL, a int, b int) USING varve;
INSERT INTO t SELECT '2026-01-01'::timestamptz + i * interval '1 s', i, i - 700 FROM generate_series(1, 1000) i;
SELECT sum(rows) FROM varve.chunks('t');
CREATE INDEX ON t ((a / b));
CREATE INDEX ON t (a) WHERE a / b > 1;
CREATE INDEX ON t ((a / b)) WHERE b > 0;
DELETE FROM t WHERE b = 0;
CREATE INDEX ON t ((a / b));
DROP TABLE t;
