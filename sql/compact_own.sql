-- A compact of a few new rows beside many long series: it looks at the chunks of those by their headers, page by page.
SET timezone = UTC;
CREATE PROCEDURE fill(name text, series int) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE %I(time timestamptz NOT NULL, host int NOT NULL, a float8, PRIMARY KEY (host, time)) USING varve
        WITH (autovacuum_enabled = false)', name);
    EXECUTE format('INSERT INTO %I SELECT ''2026-01-01''::timestamptz + n / %s * interval ''10 s'', n %% %2$s, n %% 1000 / 10.0
        FROM generate_series(0, 1100 * %2$s - 1) n', name, series);
    COMMIT;
    FOR round IN 1..20 LOOP
        CALL varve.compact(name::regclass);
        COMMIT;
        EXIT WHEN (SELECT count(*) FILTER (WHERE level = 0) FROM varve.chunks(name::regclass)) = 0 AND round > 1;
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;
CALL fill('few', 50);
CALL fill('many', 1000);
SELECT (SELECT count(*) FROM varve.chunks('few')) AS few, (SELECT count(*) FROM varve.chunks('many')) AS many;
\set ECHO none
\i sql/include/asked_for.psql
\set ECHO all
INSERT INTO few SELECT '2026-02-01'::timestamptz + n / 20 * interval '10 s', n % 20, n FROM generate_series(0, 999) n;
INSERT INTO many SELECT '2026-02-01'::timestamptz + n / 20 * interval '10 s', n % 20, n FROM generate_series(0, 999) n;
SELECT FROM pg_stat_force_next_flush();
SELECT asked_for('few') AS few, asked_for('many') AS many \gset
CALL varve.compact('few');
CALL varve.compact('many');
SELECT FROM pg_stat_force_next_flush();
SELECT asked_for('few') - :few AS few, asked_for('many') - :many AS many \gset
-- Less than one buffer for two chunks, the index included.
SELECT (:many - :few) * 2 < 950 AS follows_what_is_new;
SELECT (SELECT count(*) FROM few) AS few, (SELECT count(*) FROM many) AS many, (SELECT count(*) FROM varve.verify('many')) AS faults;

-- What has become of the long series is looked at more closely: rows that are gone, rows among the others, a new column.
CREATE FUNCTION state(OUT rows bigint, OUT chunks bigint, OUT deleted bigint, OUT fresh bigint, OUT faults bigint) LANGUAGE sql AS $$
    SELECT (SELECT count(*) FROM few), count(*), sum(deleted), count(*) FILTER (WHERE level = 0), (SELECT count(*) FROM varve.verify('few')) FROM varve.chunks('few')
$$;
DELETE FROM few WHERE host = 7 AND time < '2026-01-01 01:00';
DELETE FROM few WHERE host = 8 AND time = '2026-01-01 01:00';
INSERT INTO few SELECT '2026-01-01 00:00:05'::timestamptz + n * interval '10 s', 9, n FROM generate_series(0, 599) n;
CALL varve.compact('few');
SELECT * FROM state();
DELETE FROM few WHERE host = 8 AND time < '2026-01-01 01:00';
CALL varve.compact('few');
SELECT * FROM state();
ALTER TABLE few ADD b text DEFAULT 'b';
INSERT INTO few SELECT '2026-02-02'::timestamptz + n / 20 * interval '10 s', n % 20, n, n FROM generate_series(0, 999) n;
CALL varve.compact('few');
SELECT * FROM state();
SELECT count(*) FILTER (WHERE b = 'b') AS before, count(*) FILTER (WHERE b <> 'b') AS after FROM few;

-- Keys of several columns, of text, without a value, and too long for a header.
CREATE TABLE wide(a int, key text, time timestamptz NOT NULL, b int, value float8) USING varve WITH (autovacuum_enabled = false);
CREATE INDEX ON wide USING varve (b, key, time);
CREATE TABLE wide_heap(LIKE wide);
INSERT INTO wide_heap SELECT n, CASE n % 4 WHEN 0 THEN NULL WHEN 1 THEN 'short' WHEN 2 THEN repeat('long', 40) ELSE '' END,
    '2026-01-01'::timestamptz + n * interval '1 s', n % 3, n FROM generate_series(0, 35999) n;
INSERT INTO wide TABLE wide_heap;
CALL varve.compact('wide');
SELECT count(*) AS own FROM varve.chunks('wide') WHERE level > 0;
INSERT INTO wide_heap SELECT n, CASE n % 4 WHEN 0 THEN NULL WHEN 1 THEN 'short' WHEN 2 THEN repeat('long', 40) ELSE '' END,
    '2026-01-01 05:00'::timestamptz + n * interval '1 s', n % 3, n FROM generate_series(0, 35999) n;
INSERT INTO wide SELECT * FROM wide_heap OFFSET 36000;
CALL varve.compact('wide');
SELECT count(*) AS own, count(*) FILTER (WHERE level = 0) AS fresh FROM varve.chunks('wide');
SELECT count(*) AS wrong FROM ((TABLE wide EXCEPT ALL TABLE wide_heap) UNION ALL (TABLE wide_heap EXCEPT ALL TABLE wide)) w;
SELECT * FROM varve.verify('wide');
DROP TABLE few, many, wide, wide_heap;
DROP FUNCTION asked_for, state;
DROP PROCEDURE fill;
