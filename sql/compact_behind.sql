-- A compact of new rows of short series behind chunks of their own: those of the months between are not looked at.
SET timezone = UTC;
\set ECHO none
\i sql/include/asked_for.psql
\set ECHO all
CREATE PROCEDURE settle(name regclass) LANGUAGE plpgsql AS $$
BEGIN
    FOR round IN 1..20 LOOP
        CALL varve.compact(name);
        COMMIT;
        EXIT WHEN (SELECT count(*) FILTER (WHERE level = 0) FROM varve.chunks(name)) = 0 AND round > 1;
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;
CREATE PROCEDURE fill(name text, has_own bool) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE %I(time timestamptz NOT NULL, host int NOT NULL, a float8, PRIMARY KEY (host, time)) USING varve
        WITH (autovacuum_enabled = false)', name);
    IF has_own THEN
        EXECUTE format('INSERT INTO %I SELECT ''2025-01-01''::timestamptz + n / 50 * interval ''10 s'', n %% 50, n %% 1000
            FROM generate_series(0, 1100 * 50 - 1) n', name);
        CALL settle(name::regclass);
    END IF;
    FOR month IN 2..9 LOOP
        EXECUTE format('INSERT INTO %I SELECT ''2025-01-01''::timestamptz + %s * interval ''1 month'' + n / 50 * interval ''10 s''
            + hashint4(n) %% 1000000 * interval ''1 us'', n %% 50, n FROM generate_series(0, 400 * 50 - 1) n', name, month);
        CALL settle(name::regclass);
    END LOOP;
END $$;
CALL fill('short', false);
CALL fill('long', true);
INSERT INTO short SELECT '2026-02-01'::timestamptz + n / 50 * interval '10 s', n % 50, n FROM generate_series(0, 999) n;
INSERT INTO long SELECT '2026-02-01'::timestamptz + n / 50 * interval '10 s', n % 50, n FROM generate_series(0, 999) n;
SELECT FROM pg_stat_force_next_flush();
SELECT asked_for('short') AS short, asked_for('long') AS long \gset
CALL varve.compact('short');
CALL varve.compact('long');
SELECT FROM pg_stat_force_next_flush();
SELECT asked_for('short') - :short AS short, asked_for('long') - :long AS long \gset
SELECT :long - :short < 100 AS follows_what_is_new;
SELECT (SELECT count(*) FROM long) AS rows, (SELECT count(*) FROM varve.verify('long')) AS faults;
DROP TABLE short, long;
DROP FUNCTION asked_for;
DROP PROCEDURE settle, fill;
