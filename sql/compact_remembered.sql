-- A session that compacts a table again looks at what is new in it, whatever is there besides: it remembers what it has seen.
SET timezone = UTC;
CREATE PROCEDURE fill(name text, series int) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE %I(time timestamptz NOT NULL, host int NOT NULL, a float8, PRIMARY KEY (host, time)) USING varve
        WITH (autovacuum_enabled = false)', name);
    EXECUTE format('INSERT INTO %I SELECT ''2026-01-01''::timestamptz + n / %s * interval ''10 s'', n %% %2$s, n %% 1000 / 10.0
        FROM generate_series(0, 1100 * %2$s - 1) n', name, series);
    COMMIT;
END $$;
\set ECHO none
\i sql/include/asked_for.psql
\set ECHO all
CREATE PROCEDURE add(name text, number int) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('INSERT INTO %I SELECT ''2026-02-01''::timestamptz + %s * interval ''1 day'' + n / 20 * interval ''10 s'', n %% 20, n
        FROM generate_series(0, 999) n', name, number);
END $$;
CREATE TABLE spent(number int, few bigint, many bigint);
CALL fill('few', 50);
CALL fill('many', 400);
-- Somebody's snapshot may keep a table from being settled, for a while.
CREATE PROCEDURE settle(name text) LANGUAGE plpgsql AS $$
BEGIN
    FOR round IN 1..50 LOOP
        CALL varve.compact(name::regclass);
        COMMIT;
        EXIT WHEN (SELECT relallvisible > 0 FROM pg_class WHERE relname = name || '_pkey_series');
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;
CALL settle('few');
CALL settle('many');
SELECT unnest(ARRAY[
    format('CALL add(''few'', %s)', number),
    format('CALL add(''many'', %s)', number),
    'SELECT FROM pg_stat_force_next_flush()',
    format('INSERT INTO spent VALUES (%s, -asked_for(''few''), -asked_for(''many''))', number),
    'CALL varve.compact(''few'')',
    'CALL varve.compact(''many'')',
    'SELECT FROM pg_stat_force_next_flush()',
    format('UPDATE spent SET few = few + asked_for(''few''), many = many + asked_for(''many'') WHERE number = %s', number)
]) FROM generate_series(1, 3) number \gexec
SELECT min(many) > 10 AND min(many - few) < 35 AS follows_what_is_new FROM spent;
SELECT (SELECT count(*) FROM few) AS few, (SELECT count(*) FROM many) AS many, (SELECT count(*) FROM varve.verify('few')) AS faults_of_few,
    (SELECT count(*) FROM varve.verify('many')) AS faults_of_many;

-- Whatever becomes of the table meanwhile: changes, other indexes, other columns, another file, another size of chunks.
CREATE TABLE twin(LIKE many);
INSERT INTO twin TABLE many;
CREATE FUNCTION state(OUT rows bigint, OUT wrong bigint, OUT faults bigint, OUT fresh bigint) LANGUAGE sql AS $$
    SELECT (SELECT count(*) FROM many), (SELECT count(*) FROM ((TABLE many EXCEPT ALL TABLE twin) UNION ALL (TABLE twin EXCEPT ALL TABLE many)) w),
        (SELECT count(*) FROM varve.verify('many')), (SELECT count(*) FROM varve.chunks('many') WHERE level = 0)
$$;
CALL varve.compact('many');
DELETE FROM many WHERE host % 10 = 1 AND time > '2026-01-01 01:00';
DELETE FROM twin WHERE host % 10 = 1 AND time > '2026-01-01 01:00';
CALL varve.compact('many');
SELECT * FROM state();
UPDATE many SET a = a + 1 WHERE host % 50 = 3 AND time < '2026-01-01 00:05';
UPDATE twin SET a = a + 1 WHERE host % 50 = 3 AND time < '2026-01-01 00:05';
CALL varve.compact('many');
SELECT * FROM state();
INSERT INTO twin SELECT '2026-01-01 00:00:05'::timestamptz + n / 4 * interval '10 s', n % 4, n FROM generate_series(0, 4399) n;
INSERT INTO many SELECT '2026-01-01 00:00:05'::timestamptz + n / 4 * interval '10 s', n % 4, n FROM generate_series(0, 4399) n;
CALL varve.compact('many');
SELECT * FROM state();
ALTER TABLE many ADD b int DEFAULT 7;
ALTER TABLE twin ADD b int DEFAULT 7;
INSERT INTO twin SELECT '2026-03-01'::timestamptz + n / 4 * interval '10 s', n % 4, n, n FROM generate_series(0, 4399) n;
INSERT INTO many SELECT '2026-03-01'::timestamptz + n / 4 * interval '10 s', n % 4, n, n FROM generate_series(0, 4399) n;
CALL varve.compact('many');
SELECT * FROM state();
CREATE INDEX other ON many USING varve (b, time);
DELETE FROM many WHERE host = 5;
DELETE FROM twin WHERE host = 5;
CALL varve.compact('many');
DROP INDEX other;
INSERT INTO twin SELECT '2026-03-02'::timestamptz + n / 4 * interval '10 s', n % 4, n, n FROM generate_series(0, 4399) n;
INSERT INTO many SELECT '2026-03-02'::timestamptz + n / 4 * interval '10 s', n % 4, n, n FROM generate_series(0, 4399) n;
CALL varve.compact('many');
SELECT * FROM state();
SET varve.chunk_rows = 1024;
INSERT INTO twin SELECT '2026-03-03'::timestamptz + n / 4 * interval '10 s', n % 4, n, n FROM generate_series(0, 4399) n;
INSERT INTO many SELECT '2026-03-03'::timestamptz + n / 4 * interval '10 s', n % 4, n, n FROM generate_series(0, 4399) n;
CALL varve.compact('many');
RESET varve.chunk_rows;
SELECT * FROM state();
TRUNCATE many, twin;
INSERT INTO twin SELECT '2026-01-01'::timestamptz + n / 40 * interval '10 s', n % 40, n, n FROM generate_series(0, 43999) n;
INSERT INTO many TABLE twin;
CALL varve.compact('many');
VACUUM FULL many;
INSERT INTO twin SELECT '2026-01-01 00:00:05'::timestamptz + n / 4 * interval '10 s', n % 4, n, n FROM generate_series(0, 4399) n;
INSERT INTO many SELECT '2026-01-01 00:00:05'::timestamptz + n / 4 * interval '10 s', n % 4, n, n FROM generate_series(0, 4399) n;
CALL varve.compact('many');
SELECT * FROM state();
DROP TABLE few, many, twin, spent;
DROP FUNCTION asked_for, state;
DROP PROCEDURE fill, add, settle;
