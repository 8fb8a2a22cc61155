-- Aggregates answered by headers and bounds of blocks, without decoding; and where these are not the answer.
SET timezone = 'UTC';
SET max_parallel_workers_per_gather = 0;
CREATE TABLE h(time timestamptz NOT NULL, sensor int, value float8, small real, level int, ok bool, note text, zero float8);
CREATE TABLE v(LIKE h) USING varve;
CREATE INDEX ON v USING varve (sensor, time);
INSERT INTO h SELECT '2026-01-01Z'::timestamptz + m * interval '1 minute', s, 20 + (hashint4(m * 5 + s) & 1023) / 8.0, m % 9 / 4.0, CASE WHEN m % 5 > 0 THEN m % 1000 - 500 END,
    m % 3 = 0, 'n' || m % 4, CASE m % 3 WHEN 0 THEN -0.0 ELSE m % 3 END FROM generate_series(0, 9999) m, generate_series(1, 4) s;
INSERT INTO v SELECT * FROM h;
CALL varve.compact('v');
VACUUM ANALYZE h; VACUUM ANALYZE v;
-- What a query has read, and whether its answer is the heap's.
CREATE FUNCTION reads(query text) RETURNS TABLE (counted text) LANGUAGE plpgsql AS $$
DECLARE line text; differences bigint;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || replace(query, '{t}', 'v') LOOP
        IF line ~ '^ *(Chunks|Blocks|Tail)' THEN counted := concat_ws(', ', counted, trim(line)); END IF;
    END LOOP;
    EXECUTE format('SELECT count(*) FROM ((SELECT d::text FROM (%1$s) d EXCEPT ALL SELECT d::text FROM (%2$s) d) UNION ALL
                    (SELECT d::text FROM (%2$s) d EXCEPT ALL SELECT d::text FROM (%1$s) d)) e',
                   replace(query, '{t}', 'h'), replace(query, '{t}', 'v')) INTO differences;
    IF differences > 0 THEN counted := 'differs: ' || counted; END IF;
    RETURN NEXT;
END $$;
SELECT * FROM reads('SELECT count(*), count(level), count(note), max(value), min(value), sum(value), avg(value), round(stddev(value)::numeric, 9), sum(level), avg(level), min(level), max(level) FROM {t}');
SELECT * FROM reads('SELECT bool_and(ok), bool_or(ok), min(time), max(time), min(small), max(small), avg(small) FROM {t}');
SELECT * FROM reads('SELECT sensor, count(*), max(value), avg(value) FROM {t} GROUP BY sensor');
SELECT * FROM reads('SELECT time_bucket(''1 year'', time), sensor % 2, max(value) FROM {t} GROUP BY 1, 2');
SELECT * FROM reads('SELECT sensor FROM {t} GROUP BY sensor');
-- Conditions that hold for all rows of a chunk, by its bounds, and such as hold for none.
SELECT * FROM reads('SELECT sum(value) FROM {t} WHERE value > 1 AND time < ''2027-01-01Z'' AND sensor >= 3');
-- The ends of a range: whole blocks in between are answered by their bounds, but their squares are not known.
SELECT * FROM reads('SELECT max(value), avg(value), count(*) FROM {t} WHERE sensor = 2 AND time >= ''2026-01-02 03:00Z'' AND time < ''2026-01-07 21:00Z''');
SELECT * FROM reads('SELECT round(stddev(value)::numeric, 9), round(avg(value)::numeric, 9) FROM {t} WHERE sensor = 2 AND time >= ''2026-01-02 03:00Z'' AND time < ''2026-01-07 21:00Z''');
-- Not the answer: the sign of a zero that is the least, sums of float4, texts, filters, expressions.
SELECT * FROM reads('SELECT min(zero) FROM {t}');
SELECT * FROM reads('SELECT max(zero) FROM {t}');
SELECT * FROM reads('SELECT sum(small) FROM {t}');
SELECT * FROM reads('SELECT min(note), max(value) FROM {t}');
SELECT * FROM reads('SELECT count(*) FILTER (WHERE ok), max(value + 1) FROM {t}');
SELECT * FROM reads('SELECT first(value, time), last(value, time), max(value) FROM {t} WHERE sensor = 1');
-- What the index has left out.
EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT count(*) FROM v WHERE sensor = 4;
-- A column that came later has its default everywhere.
ALTER TABLE h ADD COLUMN late int DEFAULT 5, ADD COLUMN later float8 DEFAULT 0.5, ADD COLUMN none text;
ALTER TABLE v ADD COLUMN late int DEFAULT 5, ADD COLUMN later float8 DEFAULT 0.5, ADD COLUMN none text;
SELECT * FROM reads('SELECT sum(late), avg(late), max(later), sum(later), stddev(later), count(none), late FROM {t} GROUP BY late');
SELECT * FROM reads('SELECT sum(late), max(later), avg(later), count(none), count(late), max(value) FROM {t}');
-- Deleted rows: of this transaction, unwritten or not, and of others.
BEGIN;
DELETE FROM h WHERE sensor = 2 AND time = '2026-01-03Z'; DELETE FROM v WHERE sensor = 2 AND time = '2026-01-03Z';
SELECT * FROM reads('SELECT count(*), max(value), sum(value) FROM {t}');
ROLLBACK;
DELETE FROM h WHERE sensor = 3 AND time < '2026-01-01 10:00Z'; DELETE FROM v WHERE sensor = 3 AND time < '2026-01-01 10:00Z';
SELECT * FROM reads('SELECT sensor, count(*), max(value), sum(value) FROM {t} GROUP BY sensor');
-- Rows are gone from every block: those that are left are counted by the header, and blocks that move no extreme stay as they are.
DELETE FROM h WHERE extract(minute FROM time)::int % 10 = 3; DELETE FROM v WHERE extract(minute FROM time)::int % 10 = 3;
SELECT * FROM reads('SELECT count(*), max(value), min(level), max(time), min(small) FROM {t}');
SELECT * FROM reads('SELECT sensor, count(*), max(value), count(level), bool_or(ok) FROM {t} GROUP BY sensor');
SELECT * FROM reads('SELECT time_bucket(''1 year'', time), max(value), min(zero), max(zero) FROM {t} GROUP BY 1');
SELECT * FROM reads('SELECT max(value), sum(level) FROM {t} WHERE level > 400');
-- What the rows that are left add up to is decoded once in a session, until others are gone.
SELECT * FROM reads('SELECT avg(value), sum(level), count(note), sum(small), sum(late), max(value), count(*) FROM {t}');
SELECT * FROM reads('SELECT avg(value), sum(level), count(note), sum(late), max(value), count(*) FROM {t}');
SELECT * FROM reads('SELECT avg(value), round(stddev(value)::numeric, 9), round(variance(small)::numeric, 9) FROM {t}');
SELECT * FROM reads('SELECT avg(value), round(stddev(value)::numeric, 9), sum(value), min(value), max(level) FROM {t}');
SELECT * FROM reads('SELECT sensor, avg(value), avg(level) FROM {t} GROUP BY sensor');
SELECT * FROM reads('SELECT sum(zero), min(zero), max(zero), avg(zero), sum(later) FROM {t}');
BEGIN;
DELETE FROM h WHERE sensor = 1 AND time = '2026-01-02Z'; DELETE FROM v WHERE sensor = 1 AND time = '2026-01-02Z';
SELECT * FROM reads('SELECT avg(value), sum(level), count(note), count(*) FROM {t}');
ROLLBACK;
SELECT * FROM reads('SELECT avg(value), sum(level), count(note), count(*) FROM {t}');
-- The greatest of all is among them.
DELETE FROM h WHERE value > 147; DELETE FROM v WHERE value > 147;
SELECT * FROM reads('SELECT count(*), max(value) FROM {t}');
SELECT * FROM reads('SELECT sensor, max(value) FROM {t} GROUP BY sensor');
SELECT * FROM reads('SELECT avg(value), sum(level), count(note), count(*) FROM {t}');
SELECT * FROM reads('SELECT avg(value), sum(level), count(note), count(*) FROM {t}');
BEGIN;
DELETE FROM h WHERE value > 146; DELETE FROM v WHERE value > 146;
SELECT * FROM reads('SELECT count(*), max(value) FROM {t}');
ROLLBACK;
INSERT INTO h SELECT now(), 9, g FROM generate_series(1, 10) g; INSERT INTO v SELECT * FROM h WHERE sensor = 9;
SELECT * FROM reads('SELECT count(*), max(value), sum(value) FROM {t}');
DROP TABLE h, v;

-- Sums and squares that overflow raise what core raises; a mean whose squares overflow as well.
CREATE TABLE o(t timestamptz, a float8, b float8, c float8, d bigint) USING varve;
CREATE INDEX ON o USING varve (t);
INSERT INTO o SELECT '2026-01-01Z'::timestamptz + g * interval '1 s', 1e308, CASE g % 2 WHEN 0 THEN 1e200 ELSE -1e200 END,
    CASE WHEN g < 5000 THEN 1 WHEN g = 7000 THEN 'Infinity'::float8 WHEN g = 7001 THEN '-Infinity' WHEN g = 9000 THEN 'NaN' ELSE -1 END, 9e18 FROM generate_series(1, 20000) g;
CALL varve.compact('o');
SELECT sum(a) FROM o;
SELECT avg(b) FROM o;
SELECT stddev(b) FROM o;
SELECT sum(b), min(b), max(b) FROM o;
SELECT sum(c), avg(c), min(c), max(c), count(c) FROM o;
SELECT sum(c), avg(c), min(c), max(c), count(c) FROM o WHERE t < '2026-01-01 00:30Z';
SELECT sum(d), avg(d) FROM o;
DROP TABLE o;
DROP FUNCTION reads;
