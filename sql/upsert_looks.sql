-- An upsert of a compressed row looks into the chunk that is entered under the row's series, and where the row is there, into no other one that shares it.
CREATE TABLE ul(time timestamptz, sensor int, value float8, PRIMARY KEY (sensor, time)) USING varve;
CREATE FUNCTION at(i int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT '2026-01-01'::timestamptz + i * interval '1 s' $$;
INSERT INTO ul SELECT at(t), s, t FROM generate_series(1, 300) t, generate_series(1, 200) s;
CALL varve.compact('ul');
INSERT INTO ul SELECT at(t), s, -t FROM generate_series(10, 300, 10) t, generate_series(1, 200) s ON CONFLICT (sensor, time) DO UPDATE SET value = EXCLUDED.value;
CALL varve.compact('ul');
SELECT keyed, count(*) > 0 AS some FROM varve.chunks('ul') GROUP BY keyed ORDER BY keyed;
CREATE FUNCTION blocks(statement text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || statement INTO plan;
    RETURN plan -> 0 -> 'Plan' -> 'Shared Hit Blocks';
END $$;
CREATE FUNCTION upsert(s int, t int) RETURNS text LANGUAGE sql AS $$
    SELECT format('INSERT INTO ul VALUES (at(%s), %s, 0) ON CONFLICT (sensor, time) DO UPDATE SET value = EXCLUDED.value', t, s)
$$;
-- The session knows the chunks from now on.
SELECT blocks(upsert(7, 101)) > 0 AS looked, blocks(upsert(7, 110)) > 0 AS looked;
SELECT blocks(upsert(7, 102)) AS alone, blocks(upsert(7, 120)) AS shared \gset
SELECT :alone < :shared AS fewer;
SELECT count(*), sum(value) FROM ul;
-- Rows that are in neither, or gone from both, are new.
DELETE FROM ul WHERE sensor = 8 AND time IN (at(101), at(110));
INSERT INTO ul VALUES (at(101), 8, 1), (at(110), 8, 2), (at(301), 8, 3);
INSERT INTO ul VALUES (at(102), 8, 1) ON CONFLICT DO NOTHING;
INSERT INTO ul VALUES (at(120), 8, 1);
INSERT INTO ul VALUES (at(103), 8, 1);
SELECT count(*), sum(value) FROM ul;
SELECT * FROM varve.verify('ul');
DROP TABLE ul;
DROP FUNCTION at, blocks, upsert;
