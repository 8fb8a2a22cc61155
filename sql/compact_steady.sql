-- A table that gets a few rows of each of many series, again and again, and a compact after each time: rows are rewritten once for each
-- level of eleven chunks, and a compact that finds nothing new does nothing.

CREATE TABLE steady(time timestamptz NOT NULL, host int, a float8, b int, PRIMARY KEY (host, time)) USING varve
    WITH (autovacuum_enabled = false);
CREATE TABLE twin(LIKE steady);
CREATE TABLE written(round int, bytes numeric);
DO $$
DECLARE before pg_lsn;
BEGIN
    FOR round IN 0..24 LOOP
        INSERT INTO twin
            SELECT '2026-01-01'::timestamptz + (round * 6 + t) * interval '10 s', h, hashint4(t * 1000 + h) % 1000 / 10.0, t + h
            FROM generate_series(1, 6) t, generate_series(1, 300) h;
        INSERT INTO steady SELECT * FROM twin WHERE time > '2026-01-01'::timestamptz + round * interval '60 s';
        COMMIT;
        before := pg_current_wal_insert_lsn();
        CALL varve.compact('steady');
        INSERT INTO written VALUES (round, pg_current_wal_insert_lsn() - before);
    END LOOP;
END $$;
SELECT level, count(*) AS chunks, sum(rows) AS rows, bool_and(keyed) AS keyed FROM varve.chunks('steady') GROUP BY level ORDER BY level;
(TABLE steady EXCEPT ALL TABLE twin) UNION ALL (TABLE twin EXCEPT ALL TABLE steady);
SELECT count(*) AS faults FROM varve.verify('steady');
-- Idle.
CREATE PROCEDURE wal_of_compact(OUT is_quiet bool) LANGUAGE plpgsql AS $$
DECLARE before pg_lsn;
BEGIN
    COMMIT;
    before := pg_current_wal_insert_lsn();
    CALL varve.compact('steady');
    is_quiet := pg_current_wal_insert_lsn() - before < 4000;
END $$;
CALL wal_of_compact(NULL);
CALL wal_of_compact(NULL);
-- Neither after DELETE and VACUUM have left holes, once they are filled.
DELETE FROM steady WHERE host % 7 = 0;
DELETE FROM twin WHERE host % 7 = 0;
CALL varve.compact('steady');
VACUUM steady;
CALL varve.compact('steady');
CALL wal_of_compact(NULL);
-- A row that VACUUM has seen before compact is found, too, and one that ANALYZE has.
INSERT INTO steady VALUES ('2026-01-02', 1, 1, 1);
INSERT INTO twin VALUES ('2026-01-02', 1, 1, 1);
VACUUM steady;
CALL varve.compact('steady');
SELECT tail_rows FROM varve.tables WHERE "table" = 'steady'::regclass;
INSERT INTO steady VALUES ('2026-01-03', 1, 1, 1);
INSERT INTO twin VALUES ('2026-01-03', 1, 1, 1);
VACUUM ANALYZE steady;
ANALYZE steady;
CALL varve.compact('steady');
SELECT tail_rows FROM varve.tables WHERE "table" = 'steady'::regclass;
-- A header without rows, which no index leads to, is found after VACUUM.
UPDATE steady SET a = a + 1;
UPDATE twin SET a = a + 1;
VACUUM steady;
CALL varve.compact('steady');
CALL varve.compact('steady');
SELECT count(*) FILTER (WHERE deleted = rows) AS without_rows FROM varve.chunks('steady');
CALL wal_of_compact(NULL);
(TABLE steady EXCEPT ALL TABLE twin) UNION ALL (TABLE twin EXCEPT ALL TABLE steady);
SELECT count(*) AS faults FROM varve.verify('steady');
DROP PROCEDURE wal_of_compact;
DROP TABLE steady, twin, written;
