-- Rows of the tail go to few pages, though each page has room for some: in one statement, and one by one.
SET timezone = UTC;
CREATE PROCEDURE settle(name regclass) LANGUAGE plpgsql AS $$
BEGIN
    FOR round IN 1..20 LOOP
        CALL varve.compact(name);
        COMMIT;
        EXIT WHEN (SELECT count(*) FILTER (WHERE level = 0) FROM varve.chunks(name)) = 0 AND round > 1;
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;
CREATE FUNCTION tail_pages(name text, OUT pages bigint, OUT rows bigint) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SELECT count(DISTINCT block), count(*) FROM (SELECT (ctid::text::point)[0] AS block FROM %I) r WHERE block < 1e9', name)
        INTO pages, rows;
END $$;
CREATE TABLE holes(time timestamptz NOT NULL, host int NOT NULL, a float8, b int, PRIMARY KEY (host, time)) USING varve WITH (autovacuum_enabled = false);
INSERT INTO holes SELECT '2026-01-01'::timestamptz + n / 500 * interval '10 s', n % 500, hashint4(n), hashint4(n) FROM generate_series(0, 1100 * 500 - 1) n;
CALL settle('holes');
SELECT pg_relation_size('holes') / 8192 > 500 AS is_large;
SET varve.fresh_chunks = 0;
INSERT INTO holes SELECT '2026-02-01'::timestamptz + n / 500 * interval '10 s', n % 500, n, n FROM generate_series(0, 1999) n;
SELECT pages < 60 AS few, rows FROM tail_pages('holes');
DO $$ BEGIN
    FOR n IN 2000..3999 LOOP
        INSERT INTO holes VALUES ('2026-02-01'::timestamptz + n / 500 * interval '10 s', n % 500, n, n);
    END LOOP;
END $$;
SELECT pages < 100 AS few, rows FROM tail_pages('holes');
CALL varve.compact('holes');
SELECT * FROM tail_pages('holes');
SELECT count(*), (SELECT count(*) FROM varve.verify('holes')) AS faults FROM holes;
DROP TABLE holes;
DROP FUNCTION tail_pages;
DROP PROCEDURE settle;
