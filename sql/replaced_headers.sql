-- Headers that changes of many chunks write go where there is room, at line pointers that name headers, before the file grows for them.
CREATE TABLE v(time timestamptz NOT NULL, host int NOT NULL, a int, b int, c int, PRIMARY KEY (host, time)) USING varve
    WITH (autovacuum_enabled = false);
INSERT INTO v
    SELECT '2026-01-01'::timestamptz + t * interval '10 s', h, abs(hashint4(t * 100 + h)) % 100, abs(hashint4(t * 101 + h)) % 1000, abs(hashint4(t * 102 + h)) % 100
    FROM generate_series(0, 2499) t, generate_series(1, 100) h;
CALL varve.compact('v');
SELECT pg_relation_size('v') AS before, count(*) AS rows FROM v \gset
DELETE FROM v WHERE (extract(epoch FROM time)::bigint / 10 + host) % 25 = 0;
SELECT :rows - count(*) AS deleted, (pg_relation_size('v') - :before) / 8192 <= 2 AS hardly_grows FROM v;
SELECT count(*) AS faults FROM varve.verify('v');
DROP TABLE v;
-- Nor does it grow while there are pages that nobody has anything on, though many others before them have room, and no such line pointer. New
-- versions of rows fill the pages where headers were put last.
CREATE TABLE w(time timestamptz NOT NULL, host int NOT NULL, a int, PRIMARY KEY (host, time)) USING varve
    WITH (autovacuum_enabled = false, vacuum_truncate = off);
INSERT INTO w SELECT '2026-01-01'::timestamptz + t * interval '10 s', h, t % 100 FROM generate_series(0, 1999) t, generate_series(1, 10) h;
CALL varve.compact('w');
SET varve.batch_rows = 1000000;
INSERT INTO w SELECT '2026-02-01'::timestamptz + t * interval '10 s', 11, t FROM generate_series(1, 10000) t;
INSERT INTO w SELECT '2026-02-01'::timestamptz + t * interval '10 s', 12, t FROM generate_series(1, 40000) t;
DELETE FROM w WHERE host = 11 AND (ctid::text::point)[1] > 30;
DELETE FROM w WHERE host = 12 AND time < '2026-02-05';
VACUUM w;
SELECT pg_relation_size('w') AS before FROM w LIMIT 1 \gset
DO $$ BEGIN
    FOR i IN 0 .. 99 LOOP
        UPDATE w SET a = -1 WHERE host <= 10 AND (extract(epoch FROM time)::bigint / 10 + host) % 100 = i;
        COMMIT;
    END LOOP;
END $$;
SELECT count(*) FILTER (WHERE a = -1) AS updated, (pg_relation_size('w') - :before) / 8192 <= 1 AS hardly_grows FROM w;
SELECT count(*) AS faults FROM varve.verify('w');
RESET varve.batch_rows;
DROP TABLE w;
