-- A compact of a few new rows reads a large series index once, and VACUUM once more.
SET timezone = UTC;
CREATE TABLE wide(time timestamptz NOT NULL, host text NOT NULL, a float8) USING varve WITH (autovacuum_enabled = false);
CREATE INDEX ON wide USING varve (host, time);
INSERT INTO wide SELECT '2026-01-01'::timestamptz + n / 2000 * interval '10 s', repeat('h', 400) || n % 2000, n % 1000 / 10.0
    FROM generate_series(0, 1100 * 1000 - 1) n;
DO $$ BEGIN
    FOR round IN 1..20 LOOP
        CALL varve.compact('wide');
        COMMIT;
        EXIT WHEN (SELECT count(*) FILTER (WHERE level = 0) FROM varve.chunks('wide')) = 0 AND round > 1;
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;
CREATE FUNCTION asked_for() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_stat_clear_snapshot();
    RETURN (SELECT idx_blks_read + idx_blks_hit FROM pg_statio_all_tables WHERE relid = 'wide'::regclass);
END $$;
SELECT pg_relation_size('wide_host_time_idx') / 8192 AS pages \gset
SELECT :pages > 100 AS is_large;
INSERT INTO wide SELECT '2026-02-01'::timestamptz + n / 10 * interval '10 s', repeat('h', 400) || n % 10, n FROM generate_series(0, 599) n;
SELECT FROM pg_stat_force_next_flush();
SELECT asked_for() AS before \gset
CALL varve.compact('wide');
SELECT FROM pg_stat_force_next_flush();
SELECT asked_for() - :before < :pages * 5 / 2 AS reads_it_twice;
SELECT count(*) FILTER (WHERE level = 0) AS fresh, (SELECT count(*) FROM wide) AS rows, (SELECT count(*) FROM varve.verify('wide')) AS faults
FROM varve.chunks('wide');
DROP TABLE wide;
DROP FUNCTION asked_for;
