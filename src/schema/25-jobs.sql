-- Jobs: compaction, retention and refreshes of rollups, by a background worker or by CALL (docs/reference/worker.md). What jobs a table has is kept in its
-- security label of provider varve; what became of them in varve.job_states, which the library writes. That is a materialized view
-- in name only (05-marks.sql).
CREATE MATERIALIZED VIEW varve.job_states USING heap AS
SELECT 0::bigint AS job, NULL::timestamptz AS next_run, NULL::timestamptz AS last_run, 0::bigint AS duration_us,
    0::bigint AS rows, 0::bigint AS bytes, 0::bigint AS runs, 0::bigint AS failures, 0::bigint AS failing, 0::bigint AS written, 0::bigint AS wal, 0::bigint AS seen,
    0::bigint AS pid, 0::bigint AS by_worker, NULL::timestamptz AS started, 0::bigint AS done, 0::bigint AS total,
    0::bigint AS left_bytes,
    NULL::text AS phase, NULL::text AS last_error, NULL::text AS last_sqlstate
WHERE varve.is_refreshed();
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
