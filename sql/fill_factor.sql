-- Fill factors: the lowest ones keep more of a page free than is left beside a chunk's tuples, or a row of the tail. Heap takes an empty page for those then.
CREATE SCHEMA fill_factor;
SET search_path = fill_factor, public;
SET client_min_messages = warning;
SET varve.batch_rows = 100;
CREATE PROCEDURE work(on_table text) LANGUAGE plpgsql AS $$
BEGIN
    -- Rows of the tail, one by one.
    FOR i IN 1..50 LOOP
        EXECUTE format('INSERT INTO %s VALUES ($1, ''2025-01-01'', 1)', on_table) USING i;
    END LOOP;
    COMMIT;
    -- Chunks of a page and less, and longer ones.
    FOR i IN 1..3 LOOP
        EXECUTE format('INSERT INTO %s SELECT g %% 3, timestamptz ''2026-01-01'' + $1 * interval ''1 day'' + g * interval ''1 s'', sin(g)
                        FROM generate_series(1, 100 * $1 * $1 * $1) g', on_table) USING i;
    END LOOP;
    COMMIT;
    -- More changes of single rows than a header has place for, so that it is replaced.
    FOR i IN 1..300 LOOP
        EXECUTE format('UPDATE %s SET value = -1 WHERE host = $1 %% 3 AND time = timestamptz ''2026-01-04'' + $1 * interval ''1 s''', on_table) USING i;
        COMMIT;
    END LOOP;
    EXECUTE format('DELETE FROM %s WHERE host = 1 AND time < timestamptz ''2026-01-04 00:20''', on_table);
    EXECUTE format('INSERT INTO %s SELECT 4, timestamptz ''2026-01-01'' + g * interval ''1 s'', g FROM generate_series(1, 400) g', on_table);
END $$;
CREATE PROCEDURE make(percent int) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE h%s(host int, time timestamptz, value float8, PRIMARY KEY (host, time)) USING heap WITH (fillfactor = %1$s)', percent);
    EXECUTE format('CREATE TABLE v%s(host int, time timestamptz, value float8, PRIMARY KEY (host, time)) USING varve WITH (fillfactor = %1$s)', percent);
    CALL work('h' || percent);
    CALL work('v' || percent);
END $$;
CREATE FUNCTION compare(percent int, OUT has_chunks bool, OUT differing bigint, OUT faults bigint) LANGUAGE plpgsql AS $$
BEGIN
    SELECT count(*) > 0 INTO has_chunks FROM varve.chunks(('v' || percent)::regclass);
    SELECT count(*) INTO faults FROM varve.verify(('v' || percent)::regclass);
    EXECUTE format('SELECT count(*) FROM ((TABLE h%s EXCEPT ALL TABLE v%1$s) UNION ALL (TABLE v%1$s EXCEPT ALL TABLE h%1$s)) d', percent) INTO differing;
END $$;
CALL make(10);
CALL make(20);
CALL make(25);
CALL make(30);
CALL make(50);
CALL make(90);
SELECT percent, c.* FROM unnest('{10,20,25,30,50,90}'::int[]) percent, compare(percent) c;
CALL varve.compact('v10');
CALL varve.compact('v20');
CALL varve.compact('v25');
CALL varve.compact('v30');
CALL varve.compact('v50');
CALL varve.compact('v90');
SELECT percent, c.* FROM unnest('{10,20,25,30,50,90}'::int[]) percent, compare(percent) c;
DROP SCHEMA fill_factor CASCADE;
