-- Headers that were replaced leave entries in a series index. Scans have those marked dead that nobody needs, and the index uses their place.
CREATE TABLE h(host int, time timestamptz, value int, PRIMARY KEY (host, time));
SET client_min_messages = warning;
CREATE TABLE v(LIKE h INCLUDING ALL) USING varve;
RESET client_min_messages;
INSERT INTO h SELECT 1, '2026-01-01'::timestamptz + g * interval '1 s', g FROM generate_series(1, 10000) g;
INSERT INTO v SELECT * FROM h;
CALL varve.compact('v');
-- Changes single rows in transactions of their own, some forty of which replace a header; a row of each step of the chunk is looked up.
CREATE PROCEDURE change(rows int, keys int) LANGUAGE plpgsql AS $$
DECLARE at timestamptz;
BEGIN
    FOR i IN 1..rows LOOP
        at := '2026-01-01'::timestamptz + (i::bigint * 7919 % keys + 1) * interval '1 s';
        UPDATE v SET value = value + 1 WHERE host = 1 AND time = at; COMMIT;
        UPDATE h SET value = value + 1 WHERE host = 1 AND time = at; COMMIT;
        IF i % 20 = 0 THEN
            at := '2026-01-01'::timestamptz + (i * 51 % 10000 + 1) * interval '1 s';
            INSERT INTO v VALUES (1, at, 0) ON CONFLICT (host, time) DO UPDATE SET value = v.value + 2; COMMIT;
            INSERT INTO h VALUES (1, at, 0) ON CONFLICT (host, time) DO UPDATE SET value = h.value + 2; COMMIT;
        END IF;
    END LOOP;
END $$;
CREATE FUNCTION buffers(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE query;
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT json) ' || query INTO plan;
    RETURN (plan->0->'Plan'->>'Shared Hit Blocks')::bigint + (plan->0->'Plan'->>'Shared Read Blocks')::bigint;
END $$;
CREATE VIEW differences AS
    (SELECT 'heap' AS only_in, h::text AS row FROM h EXCEPT ALL SELECT 'heap', v::text FROM v) UNION ALL
    (SELECT 'varve', v::text FROM v EXCEPT ALL SELECT 'varve', h::text FROM h);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
CALL change(4000, 9000);
SELECT * FROM differences;
SELECT count(*), sum(value) FROM (SELECT value FROM v WHERE host = 1 ORDER BY host, time) s;
SELECT count(*), sum(value) FROM (SELECT value FROM v WHERE host = 1 ORDER BY host DESC, time DESC) s;
SELECT * FROM varve.verify('v');
SELECT buffers($$SELECT value FROM v WHERE host = 1 AND time = '2026-01-01 02:40:00'$$) < 80 AS few;
-- Their place is used again.
CALL change(4000, 9000);
SELECT * FROM differences;
SELECT * FROM varve.verify('v');
VACUUM v;
SELECT * FROM differences;
SELECT * FROM varve.verify('v');
CALL varve.compact('v');
SELECT * FROM differences;
DROP TABLE h, v CASCADE;
DROP PROCEDURE change;
DROP FUNCTION buffers;
