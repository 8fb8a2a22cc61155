-- Jobs: compaction and retention, by a background worker or by CALL (docs/reference/worker.md). What jobs a table has is kept in its
-- security label of provider varve; what became of them in varve.job_states, which the library writes. That is a materialized view
-- in name only: publications FOR ALL TABLES must not ask subscribers for it.
CREATE MATERIALIZED VIEW varve.job_states USING heap AS
SELECT 0::bigint AS job, NULL::timestamptz AS next_run, NULL::timestamptz AS last_run, 0::bigint AS duration_us,
    0::bigint AS rows, 0::bigint AS bytes, 0::bigint AS runs, 0::bigint AS failures, 0::bigint AS failing, 0::bigint AS seen,
    0::bigint AS pid, 0::bigint AS by_worker, NULL::timestamptz AS started, 0::bigint AS done, 0::bigint AS total,
    NULL::text AS phase, NULL::text AS last_error, NULL::text AS last_sqlstate
WHERE false;
CREATE INDEX job_states_job ON varve.job_states (job);
REVOKE ALL ON varve.job_states FROM PUBLIC;

CREATE FUNCTION varve.job_definitions("table" oid, OUT id bigint, OUT kind text, OUT schedule interval, OUT enabled bool,
    OUT keep interval, OUT series_filter text, OUT time_unit text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'varve_job_definitions_wrapper' LANGUAGE C STRICT STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION varve.job_definitions(oid) IS 'the jobs of a table as they were defined; see the view varve.jobs';

CREATE FUNCTION varve.changes("table" oid) RETURNS bigint LANGUAGE sql STABLE PARALLEL RESTRICTED
RETURN pg_stat_get_tuples_inserted("table") + pg_stat_get_tuples_updated("table") + pg_stat_get_tuples_deleted("table");
COMMENT ON FUNCTION varve.changes(oid) IS 'rows of a table that were ever inserted, updated and deleted, as far as statistics know';

CREATE VIEW varve.jobs AS
WITH known AS (
    SELECT d.id, c.oid AS table_oid, c.oid::regclass AS "table", d.kind, d.schedule, d.enabled, d.keep, d.series_filter, d.time_unit,
        s.next_run, s.last_run, s.duration_us, s.rows, s.bytes, coalesce(s.runs, 0) AS runs, coalesce(s.failures, 0) AS failures,
        coalesce(s.failing, 0) AS failing, s.last_sqlstate, s.last_error,
        CASE WHEN d.kind = 'compact' THEN
            CASE WHEN varve.changes(c.oid) < s.seen THEN varve.changes(c.oid)
            ELSE varve.changes(c.oid) - coalesce(s.seen, 0) END
        END AS pending,
        coalesce(current_setting('varve.seal_rows', true)::bigint, 16384) AS seal_rows,
        coalesce(current_setting('varve.batch_rows', true)::bigint, 500) AS least_rows,
        coalesce(current_setting('varve.seal_after', true)::interval, '10 s') AS seal_after
    FROM pg_class c
    JOIN pg_am a ON a.oid = c.relam
    CROSS JOIN LATERAL varve.job_definitions(c.oid) d
    LEFT JOIN varve.job_states s ON s.job = d.id
    WHERE a.amname = 'varve' AND c.relkind IN ('r', 'm') AND c.relpersistence <> 't' AND pg_has_role(c.relowner, 'USAGE')
)
SELECT id, "table", kind, schedule, enabled, keep, series_filter, time_unit,
    enabled AND CASE
        WHEN failing > 0 OR schedule IS NOT NULL THEN coalesce(next_run <= clock_timestamp(), true)
        WHEN pending < least_rows THEN false
        WHEN pending >= 32 * seal_rows THEN true
        WHEN next_run > clock_timestamp() THEN false
        ELSE pending >= seal_rows OR coalesce(last_run + seal_after <= clock_timestamp(), true)
    END AS due,
    CASE WHEN kind <> 'compact' OR failing > 0 OR schedule IS NOT NULL THEN next_run END AS next_run,
    pending, last_run, duration_us * interval '1 us' AS duration, rows, bytes, runs, failures, last_sqlstate, last_error
FROM known;
COMMENT ON VIEW varve.jobs IS 'jobs of the tables that you own, and what became of them';
GRANT SELECT ON varve.jobs TO PUBLIC;

CREATE VIEW varve.progress AS
SELECT d.id, c.oid::regclass AS "table", d.kind, s.pid::int AS pid, s.by_worker = 1 AS by_worker, s.started, s.phase, s.done, s.total
FROM pg_class c
JOIN pg_am a ON a.oid = c.relam
CROSS JOIN LATERAL varve.job_definitions(c.oid) d
JOIN varve.job_states s ON s.job = d.id
WHERE a.amname = 'varve' AND c.relkind IN ('r', 'm') AND pg_has_role(c.relowner, 'USAGE')
AND EXISTS (SELECT FROM pg_stat_get_activity(s.pid::int) b WHERE b.backend_start <= s.started);
COMMENT ON VIEW varve.progress IS 'jobs that run now, and how far they are';
GRANT SELECT ON varve.progress TO PUBLIC;

-- Ids of the jobs that the worker of this database is to run now.
CREATE FUNCTION varve.due_jobs(OUT id bigint) RETURNS SETOF bigint LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT j.id FROM varve.jobs j
    WHERE j.due AND NOT EXISTS (
        SELECT FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
        CROSS JOIN LATERAL unnest(s.setconfig) AS one
        WHERE d.datname = current_database() AND s.setrole = 0
        AND lower(one) ~ '^varve\.worker=(of|f|n|0)')
    ORDER BY j.kind DESC, j.last_run NULLS FIRST, j.id;
END;
REVOKE ALL ON FUNCTION varve.due_jobs() FROM PUBLIC;

CREATE FUNCTION varve.set_retention("table" regclass, keep interval, series_filter text DEFAULT NULL, time_unit text DEFAULT NULL)
RETURNS bigint
AS 'MODULE_PATHNAME', 'varve_set_retention_wrapper' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION varve.set_retention(regclass, interval, text, text) IS
'deletes rows of a table, or of series that pass a filter, when they are older than that; returns the id of the job';

CREATE FUNCTION varve.remove_retention("table" regclass, series_filter text DEFAULT NULL) RETURNS void
AS 'MODULE_PATHNAME', 'varve_remove_retention_wrapper' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION varve.remove_retention(regclass, text) IS 'removes the retention rule of a table that has this filter, or none';

CREATE FUNCTION varve.expiring("table" regclass, OUT id bigint, OUT keep interval, OUT series_filter text, OUT rows bigint,
    OUT chunks bigint, OUT bytes bigint, OUT oldest text, OUT newest text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'varve_expiring_wrapper' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION varve.expiring(regclass) IS 'what the retention rules of a table would delete now';

CREATE PROCEDURE varve.expire("table" regclass)
AS 'MODULE_PATHNAME', 'varve_expire' LANGUAGE C;
COMMENT ON PROCEDURE varve.expire(regclass) IS 'applies the retention rules of a table now; not inside a transaction block';

CREATE PROCEDURE varve.run_job(id bigint)
AS 'MODULE_PATHNAME', 'varve_run_job' LANGUAGE C;
COMMENT ON PROCEDURE varve.run_job(bigint) IS 'runs a job now; not inside a transaction block';

CREATE FUNCTION varve.alter_job(id bigint, schedule interval DEFAULT NULL, enabled bool DEFAULT NULL) RETURNS void
AS 'MODULE_PATHNAME', 'varve_alter_job_wrapper' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION varve.alter_job(bigint, interval, bool) IS 'says how often a job runs, and whether it does';
