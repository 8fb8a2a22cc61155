-- Rows of the tail that nobody has touched are sealed page by page, others one by one: a heap has the same rows.
SET varve.fresh_chunks = 0;
-- Pages are marked as visible to all only when it is on disk that their writers have committed.
SET synchronous_commit = on;
CREATE EXTENSION pg_visibility;
CREATE TABLE sealed(time timestamptz NOT NULL, host int NOT NULL, gone int, note text, doc text, PRIMARY KEY (host, time)) USING varve
    WITH (autovacuum_enabled = false);
ALTER TABLE sealed ALTER doc SET STORAGE external;
CREATE TABLE twin(LIKE sealed INCLUDING STORAGE) USING heap;
CREATE PROCEDURE in_both(command text) LANGUAGE plpgsql AS $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY '{sealed, twin}'::text[] LOOP
        EXECUTE replace(command, '{t}', t);
    END LOOP;
END $$;
-- Every fortieth row has a value elsewhere.
CREATE PROCEDURE fill(first int, last int) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN first..last LOOP
        CALL in_both(format($f$ INSERT INTO {t} (time, host, note, doc) VALUES ('2026-01-01'::timestamptz + %1$s * interval '1 s', %1$s %% 10,
            CASE WHEN %1$s %% 7 > 0 THEN 'row %1$s' END, CASE WHEN %1$s %% 40 = 0 THEN repeat('%1$s;', 1500) END) $f$, i));
    END LOOP;
END $$;
-- Rows that the next compact cannot take as they lie.
CREATE PROCEDURE touch(first int) LANGUAGE plpgsql AS $$
BEGIN
    CALL in_both(format($f$ UPDATE {t} SET note = note || ', changed' WHERE extract(epoch FROM time - '2026-01-01')::int BETWEEN %1$s + 20 AND %1$s + 40 $f$, first));
    CALL in_both(format($f$ DELETE FROM {t} WHERE extract(epoch FROM time - '2026-01-01')::int BETWEEN %1$s + 60 AND %1$s + 80 $f$, first));
    BEGIN
        CALL in_both(format($f$ DELETE FROM {t} WHERE extract(epoch FROM time - '2026-01-01')::int BETWEEN %1$s + 100 AND %1$s + 120 $f$, first));
        RAISE division_by_zero;
    EXCEPTION WHEN division_by_zero THEN NULL;
    END;
    PERFORM FROM sealed WHERE extract(epoch FROM time - '2026-01-01')::int BETWEEN first + 140 AND first + 160 FOR UPDATE;
    PERFORM FROM sealed WHERE extract(epoch FROM time - '2026-01-01')::int BETWEEN first + 180 AND first + 200 FOR KEY SHARE;
END $$;
-- What differs, and what the table has; nothing of it lies in the tail.
CREATE PROCEDURE expect_same(what text) LANGUAGE plpgsql AS $$
DECLARE missing bigint; extra bigint; found bigint; chunks numeric; wrong bigint; bad bigint;
BEGIN
    SELECT count(*) INTO missing FROM (TABLE twin EXCEPT ALL TABLE sealed) m;
    SELECT count(*) INTO extra FROM (TABLE sealed EXCEPT ALL TABLE twin) e;
    SELECT count(*) INTO found FROM sealed;
    SELECT sum(rows) INTO chunks FROM varve.chunks('sealed');
    SELECT count(*) INTO wrong FROM varve.verify('sealed');
    SELECT count(*) INTO bad FROM pg_check_visible('sealed');
    RAISE NOTICE '%: % missing, % extra, % of % rows in chunks, % faults, % wrongly visible', what, missing, extra, chunks, found, wrong, bad;
END $$;
CALL fill(0, 999);
CALL varve.compact('sealed');
CALL expect_same('untouched');
CALL fill(1000, 1999);
CALL touch(1000);
CALL varve.compact('sealed');
CALL expect_same('touched');
CALL fill(2000, 2999);
VACUUM sealed;
SELECT all_visible > 0 AS has_visible_pages FROM pg_visibility_map_summary('sealed');
CALL varve.compact('sealed');
CALL expect_same('all visible');
CALL fill(3000, 3499);
VACUUM sealed;
CALL touch(3000);
CALL fill(3500, 3999);
CALL varve.compact('sealed');
CALL expect_same('both');
ALTER TABLE sealed DROP COLUMN gone, ADD COLUMN added int DEFAULT 7;
ALTER TABLE twin DROP COLUMN gone, ADD COLUMN added int DEFAULT 7;
CALL fill(4000, 4999);
CALL touch(4000);
CALL varve.compact('sealed');
CALL expect_same('other columns');
-- VACUUM finds what was deleted.
VACUUM sealed;
CALL expect_same('vacuumed');
-- An unlogged table has no log to write it to.
CREATE UNLOGGED TABLE unlogged(time timestamptz NOT NULL, v int) USING varve;
DO $$ BEGIN FOR i IN 1..500 LOOP INSERT INTO unlogged VALUES ('2026-01-01'::timestamptz + i * interval '1 s', i); END LOOP; END $$;
CALL varve.compact('unlogged');
SELECT count(*), sum(v), (SELECT sum(rows) FROM varve.chunks('unlogged')) AS in_chunks FROM unlogged;
DROP TABLE sealed, twin, unlogged;
DROP PROCEDURE in_both, fill, touch, expect_same;
DROP EXTENSION pg_visibility;
