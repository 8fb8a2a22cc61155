-- The fast form of the nearest-row join of docs/reference/asof.md: an index descent per row, and the other form agrees.
SET timezone = 'UTC';
CREATE TABLE quotes AS SELECT n % 50 AS series, timestamptz '2024-01-01' + n * interval '1 second' AS time, n AS bid FROM generate_series(1, 50000) n;
CREATE INDEX ON quotes (series, time);
CREATE TABLE trades AS SELECT n % 60 AS series, timestamptz '2024-01-01' + n * 7 * interval '1 second' AS time, n AS size FROM generate_series(1, 5000) n;
ANALYZE quotes, trades;
EXPLAIN (COSTS OFF)
SELECT t.*, q.bid FROM trades t
LEFT JOIN LATERAL (SELECT q.time, q.bid FROM quotes q WHERE q.series = t.series AND q.time <= t.time ORDER BY q.time DESC LIMIT 1) q ON true;
CREATE TEMPORARY TABLE by_index AS
SELECT t.*, q.bid FROM trades t
LEFT JOIN LATERAL (SELECT q.time, q.bid FROM quotes q WHERE q.series = t.series AND q.time <= t.time ORDER BY q.time DESC LIMIT 1) q ON true;
CREATE TEMPORARY TABLE by_window AS
SELECT series, time, size, bid
FROM (SELECT series, time, size, last(bid, time) FILTER (WHERE size IS NULL) OVER (PARTITION BY series ORDER BY time, size NULLS FIRST) AS bid
      FROM (SELECT series, time, NULL::int AS size, bid FROM quotes UNION ALL SELECT series, time, size, NULL FROM trades) both_tables) s
WHERE size IS NOT NULL;
SELECT count(*) AS rows, count(bid) AS matched, (SELECT count(*) FROM (SELECT * FROM by_index EXCEPT SELECT * FROM by_window) d) AS differences FROM by_index;
DROP TABLE quotes, trades;
