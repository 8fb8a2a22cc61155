-- Rows that are too long for a page, whatever TOAST does: heap refuses them, and so do bulk loads into chunks, with heap's message. Beside a heap.
CREATE SCHEMA long_rows;
SET search_path = long_rows, public;
SET client_min_messages = warning;
SET varve.batch_rows = 10;
CREATE FUNCTION outcome(statement text, name text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    changed bigint;
BEGIN
    EXECUTE format(statement, name);
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN changed || ' rows';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
CREATE FUNCTION on_both(statement text) RETURNS TABLE(varve text, same bool) LANGUAGE plpgsql AS $$
BEGIN
    varve := outcome(statement, 'v');
    same := varve = outcome(statement, 'h');
    RETURN NEXT;
END $$;
CREATE PROCEDURE make(columns text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('DROP TABLE IF EXISTS v, h');
    EXECUTE format('CREATE TABLE v(k int, time timestamptz NOT NULL, %s) USING varve', columns);
    EXECUTE format('CREATE TABLE h(k int, time timestamptz NOT NULL, %s) USING heap', columns);
END $$;

-- What TOAST must leave where it is.
CALL make('big text');
ALTER TABLE v ALTER big SET STORAGE PLAIN;
ALTER TABLE h ALTER big SET STORAGE PLAIN;
SELECT n, o.* FROM unnest('{100, 8000, 8114, 8115, 8116, 8117, 8118, 8119, 8120, 8121, 8122, 8123, 8124, 8125, 8126, 8127, 8128, 8129, 8130, 9000}'::int[]) n,
    on_both(format('INSERT INTO %%s SELECT i, timestamptz ''2026-01-01'' + i * interval ''1 s'', repeat(''x'', %s) FROM generate_series(1, 20) i', n)) o;
SELECT n, o.* FROM unnest('{8110, 8111, 8112, 8113, 8114, 8115, 8116, 8117, 8118, 8119, 8120, 9000}'::int[]) n,
    on_both(format('INSERT INTO %%s SELECT NULL, timestamptz ''2026-01-01'' + i * interval ''1 s'', repeat(''x'', %s) FROM generate_series(1, 20) i', n)) o;
SELECT count(*), (SELECT count(*) FROM v) AS varve FROM h;
-- What it can move away, of any length.
CALL make('big text, other text');
SELECT n, o.* FROM unnest('{100, 8000, 9000, 100000}'::int[]) n,
    on_both(format('INSERT INTO %%s SELECT i, timestamptz ''2026-01-01'' + i * interval ''1 s'', (SELECT string_agg(md5(g::text), '''') FROM generate_series(1, %s / 32) g), ''y'' FROM generate_series(1, 20) i', n)) o;
SELECT count(*), (SELECT count(*) FROM v) AS varve FROM h;
-- Many columns of a fixed length, and many short ones.
CREATE FUNCTION columns(type text, n int) RETURNS text LANGUAGE sql AS $$ SELECT string_agg(format('c%s %s', g, type), ', ') FROM generate_series(1, n) g $$;
CREATE FUNCTION values_of(value text, n int, nulls int) RETURNS text LANGUAGE sql AS
$$ SELECT string_agg(CASE WHEN g <= nulls THEN 'NULL' ELSE value END, ', ') FROM generate_series(1, n) g $$;
CALL make(columns('float8', 1200));
SELECT nulls, o.* FROM unnest('{0, 199, 200, 201, 202, 203, 204, 205, 206, 207, 208, 1200}'::int[]) nulls,
    on_both(format('INSERT INTO %%s SELECT i, timestamptz ''2026-01-01'' + i * interval ''1 s'', %s FROM generate_series(1, 20) i', values_of('i', 1200, nulls))) o;
CALL make(columns('text', 1200));
SELECT nulls, length, o.* FROM unnest('{0, 700, 800}'::int[]) nulls, unnest('{1, 10, 23, 24, 100}'::int[]) length,
    on_both(format('INSERT INTO %%s SELECT i, timestamptz ''2026-01-01'' + i * interval ''1 s'', %s FROM generate_series(1, 20) i',
        values_of(format('repeat(''z'', %s)', length), 1200, nulls))) o;
SELECT count(*), (SELECT count(*) FROM v) AS varve FROM h;
DROP SCHEMA long_rows CASCADE;
