-- A small table does not become much larger by compact: what is merged goes back into the pages that it came from.

CREATE TABLE small(time timestamptz NOT NULL, host int, a float8, b float8, c float8, d float8) USING varve;
CREATE INDEX ON small USING varve (host, time);
INSERT INTO small
    SELECT '2026-01-01'::timestamptz + t * interval '10 s', h, hashint4(t * 10 + h) % 100, hashint4(t * 11 + h) % 1000,
           hashint4(t * 12 + h) % 10000, hashint4(t * 13 + h) % 100000
    FROM generate_series(1, 2000) t, generate_series(1, 10) h;
CREATE TABLE twin AS TABLE small;
SELECT pg_relation_size('small') AS before \gset
CALL varve.compact('small');
SELECT count(*) AS chunks, bool_and(one_series) AS one_series, pg_relation_size('small') <= :before * 1.2 AS stays_small
FROM varve.chunks('small');
-- Not even what is left of some chunks after others went.
DELETE FROM small WHERE host IN (2, 5, 7);
DELETE FROM twin WHERE host IN (2, 5, 7);
CALL varve.compact('small');
SELECT count(*) AS chunks, pg_relation_size('small') <= :before * 0.9 AS gets_smaller FROM varve.chunks('small');
(TABLE small EXCEPT ALL TABLE twin) UNION ALL (TABLE twin EXCEPT ALL TABLE small);
SELECT count(*) AS faults FROM varve.verify('small');
DROP TABLE small, twin;
-- Nor one of tiny chunks, whose pieces take the line pointers that headers need: it ends within a quarter of what it has to have.
CREATE TABLE tiny(time timestamptz NOT NULL, host int NOT NULL, value float8, PRIMARY KEY (host, time)) USING varve WITH (autovacuum_enabled = false);
CREATE FUNCTION is_long() RETURNS bool LANGUAGE sql AS $$
    SELECT pg_relation_size('tiny') > 16384 + 8192 * 1.25 * greatest((SELECT count(*) / 12.0 FROM varve.chunks('tiny')),
        (SELECT sum(bytes) / 8168 FROM varve.stats('tiny') WHERE part IN ('tail', 'chunks', 'headers')))
$$;
CREATE PROCEDURE feed(chunk_rows int, hosts int, rounds int, OUT is_often_long bool) LANGUAGE plpgsql AS $$
DECLARE long int := 0;
BEGIN
    PERFORM set_config('varve.chunk_rows', chunk_rows::text, false), setseed(0.5);
    FOR round IN 1..rounds LOOP
        INSERT INTO tiny SELECT '2026-01-01'::timestamptz + (round * 100 + n / hosts) * interval '1 s', n % hosts, random() FROM generate_series(0, 1999) n;
        COMMIT;
        CALL varve.compact('tiny');
        DELETE FROM tiny WHERE random() < 0.6;
        -- Somebody may still have seen the rows.
        FOR try IN 1..3 LOOP
            COMMIT;
            CALL varve.compact('tiny');
            EXIT WHEN NOT is_long();
        END LOOP;
        long := long + is_long()::int;
    END LOOP;
    -- Others may have looked at the table all the while.
    is_often_long := long > 2;
END $$;
CALL feed(4, 100, 8, NULL);
SELECT pg_current_wal_insert_lsn() AS before \gset
CALL varve.compact('tiny');
SELECT pg_current_wal_insert_lsn() - :'before' < 4000 AS is_quiet;
TRUNCATE tiny;
CALL feed(16, 40, 8, NULL);
SELECT count(*) AS faults FROM varve.verify('tiny');
DROP TABLE tiny;
DROP PROCEDURE feed;
DROP FUNCTION is_long;
