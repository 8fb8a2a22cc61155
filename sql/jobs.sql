-- Jobs: what varve.jobs shows, who sees it, and how jobs are run and altered; see docs/reference/worker.md.
CREATE TABLE jobs_t (time timestamptz NOT NULL, host text NOT NULL, v float8) USING varve;
CREATE TABLE plain (time timestamptz) USING heap;
-- Every varve table has a job that compacts it.
SELECT id = 'jobs_t'::regclass::oid::bigint * 1000 AS has_the_id, "table", kind, schedule, enabled, runs, failures FROM varve.jobs WHERE "table" = 'jobs_t'::regclass;
INSERT INTO jobs_t SELECT '2026-01-01'::timestamptz + i * interval '1 s', 'h' || i % 3, i FROM generate_series(1, 400) i;
SELECT id AS job FROM varve.jobs WHERE "table" = 'jobs_t'::regclass \gset
CALL varve.run_job(:job);
SELECT kind, rows, runs, failures, last_sqlstate, last_error, duration > '0' AS took, last_run <= now() AS ran FROM varve.jobs WHERE id = :job;
-- What is there was written once, with the room that headers keep for changes.
SELECT written BETWEEN s.bytes AND s.bytes + 1000 AS once, wal > written AS is_logged FROM varve.jobs, varve.stats('jobs_t') s WHERE id = :job AND part = 'chunks';
SELECT written, wal FROM varve.jobs WHERE id = :job \gset
SELECT * FROM varve.verify('jobs_t');
SELECT * FROM varve.progress;

-- It can be altered, and dumps have what was said.
SELECT varve.alter_job(:job, enabled => false);
SELECT schedule, enabled, due FROM varve.jobs WHERE id = :job;
SELECT varve.alter_job(:job, schedule => '1 day', enabled => true);
SELECT schedule, enabled, due FROM varve.jobs WHERE id = :job;
SELECT objtype, objname, label FROM pg_seclabels WHERE provider = 'varve';
-- By CALL a job runs in any case.
SELECT varve.alter_job(:job, enabled => false);
CALL varve.run_job(:job);
SELECT runs, due, written = :written AS has_written_nothing, wal > :wal AS is_logged FROM varve.jobs WHERE id = :job;

-- What the label of a dump brings is looked at.
SECURITY LABEL FOR varve ON TABLE jobs_t IS '[{"n": 0, "kind": "compact", "enabled": true}]';
SELECT kind, schedule, enabled FROM varve.jobs WHERE id = :job;
-- A rule that a dump brings waits for its turn: the table's rows, indexes and foreign keys may be on their way.
SECURITY LABEL FOR varve ON TABLE jobs_t
IS '[{"n": 1, "kind": "expire", "enabled": true, "every": [0, 0, 3600000000], "keep": [0, 1, 0], "column": [1, "time"]}]';
SELECT kind, keep, due, next_run > now() + interval '50 minutes' AS is_put_off FROM varve.jobs WHERE "table" = 'jobs_t'::regclass AND kind = 'expire';
SECURITY LABEL FOR varve ON TABLE jobs_t IS 'nonsense';
SECURITY LABEL FOR varve ON TABLE jobs_t IS '[{"n": 1, "kind": "expire", "enabled": true, "keep": [0, -1, 0]}]';
SECURITY LABEL FOR varve ON TABLE jobs_t IS '[{"n": 1, "kind": "sing", "enabled": true}]';
SECURITY LABEL FOR varve ON TABLE plain IS 'nonsense';
SECURITY LABEL FOR varve ON COLUMN jobs_t.v IS '[]';
SECURITY LABEL FOR varve ON TABLE jobs_t IS NULL;
-- A table that becomes a heap keeps its rules, and its dump has them.
SECURITY LABEL FOR varve ON TABLE plain
IS '[{"n": 1, "kind": "expire", "enabled": true, "every": [0, 0, 3600000000], "keep": [0, 1, 0], "column": [1, "time"]}]';
SELECT count(*) FROM varve.jobs WHERE "table" = 'plain'::regclass;
SECURITY LABEL FOR varve ON TABLE plain IS NULL;

-- Jobs that are not there, and of others.
CALL varve.run_job(1);
CALL varve.run_job(NULL);
SELECT varve.alter_job(1, enabled => true);
SELECT varve.alter_job(:job, schedule => '0');
SELECT varve.alter_job(:job, schedule => '-1 day');
-- A schedule that is longer than the calendar is one run.
SELECT varve.alter_job(:job, schedule => '293000 years');
CALL varve.run_job(:job);
SELECT next_run, due, last_error FROM varve.jobs WHERE id = :job;
BEGIN;
CALL varve.run_job(:job);
ROLLBACK;
CREATE ROLE varve_jobs_other;
SET ROLE varve_jobs_other;
SELECT count(*) FROM varve.jobs;
SELECT count(*) FROM varve.progress;
CALL varve.run_job(:job);
SELECT varve.alter_job(:job, enabled => false);
SELECT count(*) FROM varve.job_states;
SELECT varve.due_jobs();
RESET ROLE;
DROP ROLE varve_jobs_other;

-- A clock that was wrong holds up no job: here it was a year ahead when the jobs ran last.
SELECT varve.alter_job(:job, schedule => '1 hour', enabled => true);
CALL varve.run_job(:job);
SELECT due, next_run > now() AS later FROM varve.jobs WHERE id = :job;
BEGIN;
UPDATE pg_class SET relkind = 'r', relhasrules = false WHERE oid = 'varve.job_states'::regclass;
UPDATE varve.job_states SET last_run = last_run + interval '1 year', next_run = next_run + interval '1 year' WHERE job = :job;
UPDATE pg_class SET relkind = 'm', relhasrules = true WHERE oid = 'varve.job_states'::regclass;
COMMIT;
SELECT due, next_run FROM varve.jobs WHERE id = :job;
CALL varve.run_job(:job);
SELECT due, next_run > now() AS later, next_run < now() + interval '2 hours' AS soon FROM varve.jobs WHERE id = :job;

-- Space that could not be given back puts compaction off, but not that of new rows; these wait for as long as it rests. It is due all the time.
CREATE TABLE jobs_dead (time timestamptz NOT NULL, host int NOT NULL) USING varve;
SELECT id AS compaction FROM varve.jobs WHERE "table" = 'jobs_dead'::regclass \gset
CALL varve.run_job(:compaction);
CREATE FUNCTION put_down(run timestamptz, took interval, next timestamptz) RETURNS void LANGUAGE sql AS $$
    UPDATE pg_class SET relkind = 'r', relhasrules = false WHERE oid = 'varve.job_states'::regclass;
    UPDATE varve.job_states SET last_run = run, duration_us = extract(epoch FROM took) * 1000000, next_run = next
        WHERE job = (SELECT id FROM varve.jobs WHERE "table" = 'jobs_dead'::regclass);
    UPDATE pg_class SET relkind = 'm', relhasrules = true WHERE oid = 'varve.job_states'::regclass
$$;
SELECT due, next_run, pending FROM varve.jobs WHERE id = :compaction;
INSERT INTO jobs_dead SELECT '2026-01-01'::timestamptz + i * interval '1 s', 1 FROM generate_series(1, 600) i;
SELECT pg_stat_force_next_flush();
SELECT put_down(now() - interval '20 s', '1 ms', now() + interval '30 s');
SELECT due, next_run <= clock_timestamp() AS is_now, pending FROM varve.jobs WHERE id = :compaction;
SELECT put_down(now() - interval '20 s', '1 ms', NULL);
SELECT due, next_run <= clock_timestamp() AS is_now, pending FROM varve.jobs WHERE id = :compaction;
INSERT INTO jobs_dead SELECT '2026-01-01 12:00'::timestamptz + i * interval '1 s', 1 FROM generate_series(1, 500) i;
SELECT pg_stat_force_next_flush();
SELECT put_down(now() - interval '20 s', '1 ms', now() + interval '30 s');
SELECT due, next_run <= clock_timestamp() AS is_now, pending FROM varve.jobs WHERE id = :compaction;
INSERT INTO jobs_dead SELECT '2026-01-02'::timestamptz + i * interval '1 s', 1 FROM generate_series(1, 16000) i;
SELECT pg_stat_force_next_flush();
SELECT put_down(now() - interval '20 s', '1 ms', now() + interval '30 s');
SELECT due, next_run <= clock_timestamp() AS is_now, pending FROM varve.jobs WHERE id = :compaction;
SELECT put_down(now() - interval '20 s', '1 min', NULL);
SELECT due, next_run <= clock_timestamp() AS is_now, pending FROM varve.jobs WHERE id = :compaction;
INSERT INTO jobs_dead SELECT '2026-01-03'::timestamptz + i * interval '1 s', 1 FROM generate_series(1, 50000) i;
SELECT pg_stat_force_next_flush();
SELECT due, next_run <= clock_timestamp() AS is_now, pending FROM varve.jobs WHERE id = :compaction;

-- What a run that failed was to do waits until it is tried again. The worker stays no longer than a minute for that.
CREATE FUNCTION put_down_failure(next timestamptz) RETURNS void LANGUAGE sql AS $$
    UPDATE pg_class SET relkind = 'r', relhasrules = false WHERE oid = 'varve.job_states'::regclass;
    UPDATE varve.job_states SET failing = 3, next_run = next
        WHERE job = (SELECT id FROM varve.jobs WHERE "table" = 'jobs_dead'::regclass);
    UPDATE pg_class SET relkind = 'm', relhasrules = true WHERE oid = 'varve.job_states'::regclass
$$;
SELECT put_down_failure(now() + interval '1 hour');
SELECT due, next_run <= clock_timestamp() AS is_now, (SELECT count(*) FROM varve.due_jobs() d WHERE d.id = :compaction) AS awaited
FROM varve.jobs WHERE id = :compaction;
SELECT put_down_failure(now() + interval '30 s');
SELECT due, next_run <= clock_timestamp() AS is_now, (SELECT count(*) FROM varve.due_jobs() d WHERE d.id = :compaction) AS awaited
FROM varve.jobs WHERE id = :compaction;
-- The clock was a year ahead when it failed.
SELECT put_down(now() + interval '1 year', '1 ms', now() + interval '1 year');
SELECT due, next_run, (SELECT count(*) FROM varve.due_jobs() d WHERE d.id = :compaction) AS awaited FROM varve.jobs WHERE id = :compaction;
CALL varve.run_job(:compaction);
SELECT failing FROM varve.job_states WHERE job = :compaction;

DROP FUNCTION put_down, put_down_failure;
DROP TABLE jobs_t, jobs_dead, plain;
-- What became of its jobs goes with a table.
SELECT count(*) FROM varve.job_states WHERE job / 1000 = :job / 1000;
