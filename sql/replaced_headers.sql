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
