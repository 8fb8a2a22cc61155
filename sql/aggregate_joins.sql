-- Aggregates over joins whose other side names series, over OR, and by buckets of a zone's clock: answers beside a heap's.
SET timezone = 'UTC';
SET max_parallel_workers_per_gather = 0;
CREATE TABLE h(time timestamptz NOT NULL, series int, host text, value float8, level int);
CREATE TABLE v(LIKE h) USING varve;
CREATE INDEX ON v USING varve (series, time);
CREATE TABLE tags(id int PRIMARY KEY, host text, region text, wide bigint, small smallint, code varchar(10));
INSERT INTO tags SELECT g, 'host ' || g, 'region ' || g % 3, g, g, 'host ' || g FROM generate_series(1, 30) g;
INSERT INTO tags VALUES (99, 'none', 'region 0', NULL, NULL, NULL);
CREATE TABLE picks(id int, host text, weight int);
INSERT INTO picks SELECT g % 7, 'host ' || g % 7, g FROM generate_series(1, 15) g;
INSERT INTO picks VALUES (NULL, NULL, 1), (1000, 'host 1000', 2);
INSERT INTO h SELECT '2026-03-28Z'::timestamptz + m * interval '1 minute', s, 'host ' || s, (hashint4(m * 31 + s) & 1023) / 8.0, CASE WHEN m % 9 > 0 THEN m % 100 END
    FROM generate_series(0, 2999) m, generate_series(1, 20) s;
INSERT INTO v SELECT * FROM h;
INSERT INTO h SELECT '2026-03-28Z'::timestamptz + m * interval '1 minute', NULL, NULL, m, m FROM generate_series(0, 9) m;
INSERT INTO v SELECT * FROM h WHERE series IS NULL;
CALL varve.compact('v');
-- A tail.
INSERT INTO h SELECT '2026-03-30 02:00Z'::timestamptz + m * interval '1 second', m % 12, 'host ' || m % 12, m, m FROM generate_series(1, 40) m;
INSERT INTO v SELECT * FROM h WHERE time > '2026-03-30 02:00Z';
ANALYZE h; ANALYZE v; ANALYZE tags; ANALYZE picks;
-- Is the answer the heap's, and does the node give it?
CREATE FUNCTION answer(query text) RETURNS TABLE (answer text) LANGUAGE plpgsql AS $$
DECLARE line text; node bool := false; differences bigint;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || replace(query, '{t}', 'v') LOOP
        node := node OR line LIKE '%VarveAggregate%';
    END LOOP;
    EXECUTE format('SELECT count(*) FROM ((SELECT d::text FROM (%1$s) d EXCEPT ALL SELECT d::text FROM (%2$s) d) UNION ALL
                    (SELECT d::text FROM (%2$s) d EXCEPT ALL SELECT d::text FROM (%1$s) d)) e',
                   replace(query, '{t}', 'h'), replace(query, '{t}', 'v')) INTO differences;
    answer := CASE WHEN differences = 0 THEN 'equal' ELSE 'different' END || CASE WHEN node THEN ', by the node' ELSE ', by core' END;
    RETURN NEXT;
END $$;
-- A series index names chunks; EXPLAIN says by which column.
EXPLAIN (COSTS OFF) SELECT count(*), max(value) FROM v WHERE series IN (SELECT id FROM tags WHERE host = 'host 7');
SELECT * FROM answer('SELECT count(*), max(value), sum(level) FROM {t} WHERE series IN (SELECT id FROM tags WHERE host IN (''host 3'', ''host 7'', ''none''))');
SELECT * FROM answer('SELECT time_bucket(''1 hour'', time), series, avg(value) FROM {t} WHERE series IN (SELECT id FROM tags WHERE region = ''region 1'') AND time < ''2026-03-29Z'' GROUP BY 1, 2');
-- Not unique: each value once under IN, as often as it comes in a join.
SELECT * FROM answer('SELECT count(*), sum(level) FROM {t} WHERE series IN (SELECT id FROM picks)');
SELECT * FROM answer('SELECT count(*), sum(level) FROM {t} WHERE EXISTS (SELECT FROM picks WHERE picks.id = {t}.series AND weight > 3)');
SELECT * FROM answer('SELECT series, count(*), sum(level), max(value) FROM {t} JOIN picks ON series = id GROUP BY series');
SELECT * FROM answer('SELECT count(*) FROM picks p, {t} t WHERE t.series = p.id AND p.weight < 10 AND t.level > 50');
-- Other types, texts, columns that are no keys.
SELECT * FROM answer('SELECT count(*), sum(level) FROM {t} JOIN tags ON series = wide WHERE region = ''region 2''');
SELECT * FROM answer('SELECT count(*), sum(level) FROM {t} JOIN tags ON series = small WHERE region = ''region 2''');
SELECT * FROM answer('SELECT count(*), sum(level) FROM {t} JOIN tags USING (host) WHERE region = ''region 2''');
SELECT * FROM answer('SELECT count(*), sum(level) FROM {t} JOIN tags ON {t}.host = code WHERE region = ''region 2''');
SELECT * FROM answer('SELECT count(*), max(time) FROM {t} JOIN picks ON level = weight');
-- Nobody is named.
SELECT * FROM answer('SELECT count(*), sum(level) FROM {t} JOIN tags ON series = id WHERE region = ''nowhere''');
SELECT * FROM answer('SELECT series, count(*) FROM {t} JOIN tags ON series = id WHERE region = ''nowhere'' GROUP BY series');
-- Parameters, and an other side that is run again; deleted rows.
SET plan_cache_mode = force_generic_plan;
PREPARE p(text) AS SELECT count(*), sum(level) FROM v WHERE series IN (SELECT id FROM tags WHERE region = $1);
EXECUTE p('region 0');
EXECUTE p('region 1');
RESET plan_cache_mode;
SELECT * FROM answer('SELECT r, n FROM (VALUES (''region 0''), (''region 1''), (''x'')) list(r), LATERAL (SELECT count(*) AS n FROM {t} JOIN tags ON series = id WHERE region = r) counted');
BEGIN;
DELETE FROM h WHERE series = 3; DELETE FROM v WHERE series = 3;
SELECT * FROM answer('SELECT series, count(*), sum(level) FROM {t} JOIN tags ON series = id WHERE region = ''region 0'' GROUP BY series');
ROLLBACK;
-- The other side has the rows that the statement's snapshot shows, whatever was done to them.
VACUUM tags;
SELECT * FROM answer('SELECT series, count(*) FROM {t} JOIN tags ON series = id WHERE region IN (''region 0'', ''region 2'') GROUP BY series');
BEGIN;
DECLARE of_v CURSOR FOR SELECT series, count(*), sum(level) FROM v WHERE series IN (SELECT id FROM tags WHERE region = 'region 1') GROUP BY series ORDER BY series;
UPDATE tags SET region = 'region 1' WHERE id IN (3, 6);
DELETE FROM tags WHERE id IN (1, 4);
INSERT INTO tags VALUES (0, 'host 0', 'region 1');
SELECT * FROM answer('SELECT series, count(*) FROM {t} JOIN tags ON series = id WHERE region = ''region 1'' GROUP BY series');
SAVEPOINT s;
UPDATE tags SET region = 'region 1';
SELECT count(*) FROM v WHERE series IN (SELECT id FROM tags WHERE region = 'region 1');
ROLLBACK TO s;
SELECT * FROM answer('SELECT series, count(*) FROM {t} JOIN tags ON series = id WHERE region = ''region 1'' GROUP BY series');
FETCH ALL FROM of_v;
ROLLBACK;
SELECT * FROM answer('SELECT series, count(*) FROM {t} JOIN tags ON series = id WHERE region = ''region 1'' GROUP BY series');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM answer('SELECT series, count(*) FROM {t} JOIN tags ON series = id WHERE region = ''region 1'' GROUP BY series');
SELECT count(*) > 0 AS notes_what_it_read FROM pg_locks WHERE relation = 'tags'::regclass AND mode = 'SIReadLock';
COMMIT;
-- Columns that came later, and values that are stored elsewhere.
ALTER TABLE tags ADD COLUMN added text DEFAULT 'as ever', ADD COLUMN long text;
ALTER TABLE tags ALTER long SET STORAGE external;
UPDATE tags SET added = 'other', long = repeat(id::text, 3000) WHERE id % 5 = 0;
UPDATE tags SET long = 'short' WHERE id % 5 = 1;
SELECT * FROM answer('SELECT series, count(*) FROM {t} JOIN tags ON series = id WHERE added = ''as ever'' GROUP BY series');
SELECT * FROM answer('SELECT series, count(*) FROM {t} JOIN tags ON series = id WHERE long IN (''short'', repeat(''5'', 3000)) GROUP BY series');
SELECT * FROM answer('SELECT series, count(*) FROM {t} JOIN tags ON series = id WHERE long IS NULL AND added <> ''other'' GROUP BY series');
SELECT answer.* FROM (SELECT string_agg(quote_literal('host ' || g), ', ') AS hosts FROM generate_series(5, 40) g) many,
    answer(format('SELECT series, count(*) FROM {t} JOIN tags ON series = id WHERE tags.host IN (%s) GROUP BY series', hosts));
-- Names of any length, behind columns of any length, dropped ones, and nulls.
CREATE TABLE labels (gone int8, id int, name text, flag bool, padded char(8), last varchar);
INSERT INTO labels SELECT CASE WHEN g % 4 > 0 THEN g END, g, CASE WHEN g % 9 > 0 THEN repeat('n', (g % 9 - 1) * 21) || g % 10 END,
        CASE WHEN g % 5 > 0 THEN true END, CASE WHEN g % 7 > 0 THEN 'p' || g % 3 END, CASE WHEN g % 3 > 0 THEN repeat('l', g % 2 * 130) END
    FROM generate_series(0, 80) g;
ALTER TABLE labels DROP gone;
INSERT INTO labels SELECT g, '5', g % 2 = 0, 'p1', '' FROM generate_series(0, 9) g;
INSERT INTO labels VALUES (1, '', true, '', '');
SELECT condition, answer.* FROM (VALUES ('name = ''5'''), ('name = '''''), ('name IN (''5'', ''n'', repeat(''n'', 126) || ''7'')'), ('name = repeat(''n'', 126) || ''6'''),
        ('name = repeat(''n'', 105) || ''4'' AND flag'), ('padded = ''p1'''), ('padded IN (''p1'', ''p2   '') AND name = ''1'''), ('last = repeat(''l'', 130)'),
        ('last = '''' AND name = ''5'''), ('name = ''5'' OR last = '''''), ('name IS NULL AND last = '''''), ('flag AND padded = '''' AND name = ''''')) c(condition),
    answer(format('SELECT series, count(*) FROM {t} JOIN labels ON series = id WHERE %s GROUP BY series', condition));
-- The scan counts.
BEGIN;
SELECT pg_stat_get_xact_numscans('tags'::regclass) AS scans, pg_stat_get_xact_tuples_returned('tags'::regclass) AS rows \gset
SELECT count(*) FROM v WHERE series IN (SELECT id FROM tags WHERE region = 'region 1');
SELECT pg_stat_get_xact_numscans('tags'::regclass) - :scans AS scans, pg_stat_get_xact_tuples_returned('tags'::regclass) - :rows AS rows;
COMMIT;
-- Core's: outer and anti joins, conditions on both sides, two equalities, columns of the other side, three relations.
SELECT * FROM answer('SELECT count(*), sum(level) FROM {t} LEFT JOIN tags ON series = id');
SELECT * FROM answer('SELECT count(*), sum(level) FROM {t} WHERE NOT EXISTS (SELECT FROM tags WHERE id = series)');
SELECT * FROM answer('SELECT count(*), sum(level) FROM {t} JOIN tags ON series = id AND level > small');
SELECT * FROM answer('SELECT count(*), sum(level) FROM {t} JOIN tags ON series = id AND {t}.host = tags.host');
SELECT * FROM answer('SELECT region, count(*), sum(level) FROM {t} JOIN tags ON series = id GROUP BY region');
SELECT * FROM answer('SELECT count(*), sum(level) FROM {t} JOIN tags ON series = tags.id JOIN picks ON tags.id = picks.id');
SELECT * FROM answer('SELECT sum(level + id) FROM {t} JOIN tags ON series = id');

-- Short series share chunks, sorted by series: those that are listed are looked for.
INSERT INTO h SELECT '2026-03-28Z'::timestamptz + m * interval '1 minute', 100 + s, CASE WHEN s % 3 > 0 THEN 'host ' || s END, m + s / 8.0, m * s % 100
    FROM generate_series(0, 19) m, generate_series(0, 499) s;
INSERT INTO v SELECT * FROM h WHERE series >= 100;
INSERT INTO h VALUES ('2026-03-28Z', NULL, 'nobody', 1, 1);
INSERT INTO v VALUES ('2026-03-28Z', NULL, 'nobody', 1, 1);
CALL varve.compact('v');
SELECT * FROM answer('SELECT series, count(*), sum(level), max(value) FROM {t} WHERE series IN (99, 100, 101, 250, 251, 398, 599, 600, 700) GROUP BY series');
SELECT * FROM answer('SELECT count(*), sum(level), max(value) FROM {t} WHERE series = 333');
SELECT * FROM answer('SELECT count(*), sum(level), max(value) FROM {t} WHERE series = 333 AND time >= ''2026-03-28 00:05Z'' AND time < ''2026-03-28 00:09Z'' AND level > 10');
SELECT * FROM answer('SELECT series, count(*) FROM {t} WHERE series IN (150, 250, 350, 450) AND host IS NOT NULL GROUP BY series');
SELECT * FROM answer('SELECT series, string_agg(level::text, '','' ORDER BY time) FROM {t} WHERE series IN (105, 222, 333, 597) GROUP BY series');
CREATE TABLE even AS SELECT 100 + g * 2 AS id FROM generate_series(-10, 300) g;
SELECT * FROM answer('SELECT max(value), count(*) FROM {t} WHERE series IN (SELECT id FROM even WHERE id % 17 = 3)');
SELECT * FROM answer('SELECT time_bucket(''5 minutes'', time), avg(value) FROM {t} WHERE series IN (SELECT id FROM even) GROUP BY 1');
DELETE FROM h WHERE series % 50 = 7 OR series = 333 AND level < 50;
DELETE FROM v WHERE series % 50 = 7 OR series = 333 AND level < 50;
SELECT * FROM answer('SELECT series, count(*), sum(level) FROM {t} WHERE series IN (156, 157, 158, 333, 407) GROUP BY series');
UPDATE h SET level = 1000 WHERE series IN (200, 201) AND level > 30;
UPDATE v SET level = 1000 WHERE series IN (200, 201) AND level > 30;
SELECT * FROM answer('SELECT series, count(*), sum(level) FROM {t} WHERE series IN (199, 200, 201, 202) GROUP BY series');

-- OR: what is unknown is no reason.
SELECT * FROM answer('SELECT count(*), sum(level) FROM {t} WHERE level < 5 OR level > 95 OR level IS NULL');
SELECT * FROM answer('SELECT count(*), sum(level) FROM {t} WHERE (level = 3 AND value > 100) OR (series = 4 AND time < ''2026-03-28 05:00Z'') OR host = ''host 9''');
SELECT * FROM answer('SELECT count(*), sum(level) FROM {t} WHERE (level = 3 OR value > 100) AND (series IN (2, 4) OR host = ''host 11'')');
SELECT * FROM answer('SELECT count(*), sum(level) FROM {t} WHERE level < 3 OR level % 7 = 2');
SELECT * FROM answer('SELECT count(*), sum(level) FROM {t} WHERE series = 3 OR time < ''2020-01-01Z''');

-- The clock is put forward in the night to 29 March, and back in that to 25 October.
INSERT INTO h SELECT '2026-10-24 20:00Z'::timestamptz + m * interval '7 minutes', 5, 'host 5', m, m FROM generate_series(0, 2999) m;
INSERT INTO v SELECT * FROM h WHERE time > '2026-10-01Z';
CALL varve.compact('v');
SELECT width, zone, answer.* FROM (VALUES ('10 minutes'), ('1 hour'), ('5 hours'), ('1 day'), ('1 week'), ('1 month')) w(width), (VALUES ('Europe/Berlin'), ('Australia/Lord_Howe'), ('EST5EDT'), ('+05:45')) z(zone),
    answer(format('SELECT time_bucket(%L, time, %L), count(*), sum(level) FROM {t} GROUP BY 1', width, zone)) ORDER BY zone, width::interval;
SET timezone = 'Europe/Berlin';
SELECT unit, answer.* FROM (VALUES ('minute'), ('hour'), ('day'), ('week'), ('month'), ('year')) w(unit), answer(format('SELECT date_trunc(%L, time), count(*), sum(level) FROM {t} GROUP BY 1', unit));
SELECT * FROM answer('SELECT time::date, series, count(*), sum(level) FROM {t} GROUP BY 1, 2');
SELECT * FROM answer('SELECT date_trunc(''day'', time, ''America/New_York''), count(*), sum(level) FROM {t} WHERE time > ''2026-10-25 01:17Z'' GROUP BY 1');
RESET timezone;
DROP TABLE h, v, tags, labels, picks, even;
DROP FUNCTION answer;
