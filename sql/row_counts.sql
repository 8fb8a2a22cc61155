-- How many rows views of statistics say that there are, beside a heap: compact changes nothing, and VACUUM counts rows, not chunks.
CREATE TABLE h (time timestamptz, series int, value float8, PRIMARY KEY (series, time)) WITH (autovacuum_enabled = off);
CREATE TABLE v (time timestamptz, series int, value float8, PRIMARY KEY (series, time)) USING varve WITH (autovacuum_enabled = off);
CREATE FUNCTION counts(OUT "table" name, OUT live bigint, OUT changed_since_analyze bigint) RETURNS SETOF record LANGUAGE sql AS
    'SELECT relname, n_live_tup, n_mod_since_analyze FROM pg_stat_user_tables WHERE relid IN (''h''::regclass, ''v''::regclass) ORDER BY relname';
CREATE PROCEDURE on_both(statement text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format(statement, 'h');
    EXECUTE format(statement, 'v');
END $$;
CALL on_both('INSERT INTO %s SELECT ''2026-01-01Z''::timestamptz + g * interval ''1 s'', g %% 10, g FROM generate_series(1, 10000) g');
CALL on_both('DELETE FROM %s WHERE value <= 2500');
CALL varve.compact('v');
SELECT FROM pg_stat_force_next_flush();
SELECT "table", live FROM counts();
-- Changes of compressed rows, and late ones.
CALL on_both('DELETE FROM %s WHERE value <= 3000');
CALL on_both('UPDATE %s SET value = -value WHERE value > 9990');
CALL on_both('INSERT INTO %s SELECT ''2026-01-01Z''::timestamptz + g * interval ''1 s'', 20, g FROM generate_series(1, 300) g');
CALL varve.compact('v');
SELECT FROM pg_stat_force_next_flush();
SELECT "table", live FROM counts();
VACUUM h, v;
SELECT FROM pg_stat_force_next_flush();
SELECT "table", live FROM counts();
-- The tail is sealed beside it, and chunks are merged.
CALL on_both('INSERT INTO %s SELECT ''2026-02-01Z''::timestamptz + g * interval ''1 s'', g %% 10, g FROM generate_series(1, 10000) g');
SELECT FROM pg_stat_force_next_flush();
SELECT "table", live FROM counts();
CALL varve.compact('v');
SELECT FROM pg_stat_force_next_flush();
SELECT "table", live FROM counts();
ANALYZE h, v;
SELECT FROM pg_stat_force_next_flush();
SELECT "table", live, changed_since_analyze FROM counts();
CALL on_both('INSERT INTO %s SELECT ''2026-03-01Z''::timestamptz + g * interval ''1 s'', g %% 10, g FROM generate_series(1, 50) g');
CALL varve.compact('v');
SELECT FROM pg_stat_force_next_flush();
SELECT "table", live, changed_since_analyze FROM counts();
DROP PROCEDURE on_both;
DROP FUNCTION counts;
DROP TABLE h, v;
