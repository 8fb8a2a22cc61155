-- Jobs as users and workers see them: docs/reference/worker.md. It asks for rollups, so it comes after them.
CREATE VIEW varve.jobs AS
WITH known AS MATERIALIZED (
    SELECT d.id, c.oid AS table_oid, c.oid::regclass AS "table", d.kind, d.schedule, d.enabled, d.keep, d.series_filter, d.time_unit,
        -- What was put down by a clock that has been set back since says nothing.
        CASE WHEN s.last_run > clock_timestamp() THEN NULL ELSE s.next_run END AS put_off,
        CASE WHEN s.last_run > clock_timestamp() THEN NULL ELSE s.last_run END AS last_run, s.duration_us, s.rows, s.bytes, coalesce(s.written, 0) AS written, coalesce(s.wal, 0) AS wal, coalesce(s.runs, 0) AS runs, coalesce(s.failures, 0) AS failures,
        coalesce(s.failing, 0) AS failing, s.last_sqlstate, s.last_error,
        CASE WHEN d.kind <> 'expire' THEN
            CASE WHEN w.changes < s.seen THEN w.changes ELSE w.changes - coalesce(s.seen, 0) END
        END AS pending,
        d.kind = 'refresh' AND EXISTS (SELECT FROM varve.rollup_mark m WHERE m.stored = c.oid AND m.by_ddl) AS is_marked,
        coalesce(current_setting('varve.seal_rows', true)::bigint, 16384) AS seal_rows,
        coalesce(current_setting('varve.batch_rows', true)::bigint, 500) AS least_rows,
        coalesce(current_setting('varve.seal_after', true)::interval, '10 s') AS seal_after
    FROM pg_class c
    JOIN pg_am a ON a.oid = c.relam
    CROSS JOIN LATERAL varve.job_definitions(c.oid) d
    LEFT JOIN varve.job_states s ON s.job = d.id
    -- A rollup is due by what happens to its source.
    CROSS JOIN LATERAL (SELECT CASE WHEN d.kind = 'refresh'
                               THEN (SELECT varve.source_changes(r.source) FROM varve.rollup r WHERE r.stored = c.oid)
                               ELSE varve.changes(c.oid) END AS changes OFFSET 0) w
    WHERE a.amname = 'varve' AND c.relkind IN ('r', 'm') AND c.relpersistence <> 't' AND pg_has_role(c.relowner, 'USAGE')
), timed AS (
    SELECT *, CASE
        WHEN by_clock THEN put_off
        WHEN kind = 'refresh' THEN CASE WHEN pending > 0 OR is_marked THEN coalesce(put_off, clock_timestamp()) END
        WHEN pending < least_rows THEN NULL
        WHEN pending >= 4 * seal_rows THEN clock_timestamp()
        WHEN pending >= seal_rows THEN coalesce(rested, clock_timestamp())
        -- As many as least_rows stand for space that is to be given back.
        WHEN pending >= 2 * least_rows THEN coalesce(greatest(rested, last_run + seal_after), clock_timestamp())
        ELSE coalesce(greatest(rested, put_off, last_run + seal_after), clock_timestamp())
    END AS begins
    FROM known, LATERAL (SELECT kind = 'expire' OR failing > 0 OR schedule IS NOT NULL AS by_clock,
        -- It rests four times as long as its last run took.
        last_run + 5 * duration_us * interval '1 us' AS rested) l
)
SELECT id, "table", kind, schedule, enabled, keep, series_filter, time_unit,
    -- A job that has failed is due until a run succeeds, one that goes by the clock when its time has come, others as long as rows or space wait.
    enabled AND CASE WHEN failing > 0 THEN true WHEN by_clock THEN coalesce(begins <= clock_timestamp(), true) ELSE begins IS NOT NULL END AS due,
    begins AS next_run,
    pending, CASE WHEN kind = 'compact' THEN pending / greatest(seal_rows, 1) END AS rounds_behind,
    CASE WHEN kind = 'compact' AND pending > 0 THEN clock_timestamp() - last_run END AS oldest, last_run, duration_us * interval '1 us' AS duration, rows, bytes, written, wal, runs, failures, last_sqlstate, last_error
FROM timed;
COMMENT ON VIEW varve.jobs IS 'jobs of the tables that you own, and what became of them';
GRANT SELECT ON varve.jobs TO PUBLIC;

-- What waits for the worker of this database, whether it is to be run now, and how far the worker has fallen behind. For jobs that fail it
-- does not stay for more than a minute.
CREATE FUNCTION varve.due_jobs(OUT id bigint, OUT is_now boolean, OUT pending bigint, OUT rounds_behind bigint) RETURNS SETOF record LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT j.id, coalesce(j.next_run <= clock_timestamp(), true), j.pending, j.rounds_behind FROM varve.jobs j
    WHERE j.due AND (coalesce(j.next_run < clock_timestamp() + interval '1 min', true) OR NOT EXISTS (SELECT FROM varve.job_states s WHERE s.job = j.id AND s.failing > 0))
    AND NOT EXISTS (
        SELECT FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
        CROSS JOIN LATERAL unnest(s.setconfig) AS one
        WHERE d.datname = current_database() AND s.setrole = 0
        AND lower(one) ~ '^varve\.worker=(of|f|n|0)')
    ORDER BY j.kind DESC, j.last_run NULLS FIRST, j.id;
END;
REVOKE ALL ON FUNCTION varve.due_jobs() FROM PUBLIC;
