//! Jobs in dumps: of a superuser, of a table's owner, of one table; and a rollup whose rows come one table after the other, with the
//! worker between them.

use super::await_true;
use crate::report::Report;
use crate::server::{run as run_program, Cluster, Tree};
use crate::Result;
use postgres::Client;
use std::sync::Arc;

const JOBS: &str =
    "SELECT string_agg(\"table\"::text || ' ' || kind || ' ' || enabled || ' ' || coalesce(schedule::text, '-') || ' '
         || coalesce(keep::text, '-') || ' ' || coalesce(series_filter, '-'), '; ' ORDER BY id)
     FROM varve.jobs";

pub fn run(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    let cluster = Cluster::create(tree, &[])?;
    let mut client = cluster.database("source")?;
    client.batch_execute(
        "CREATE ROLE owner LOGIN; GRANT CREATE ON SCHEMA public TO owner; SET ROLE owner;
         CREATE TABLE t(time timestamptz NOT NULL, host text NOT NULL) USING varve;
         CREATE INDEX ON t USING varve (host, time);
         SELECT varve.set_retention('t', '90 days');
         SELECT varve.set_retention('t', '2 days', $$host LIKE 'it''s %'$$);
         SELECT varve.alter_job(id, enabled => false) FROM varve.jobs WHERE kind = 'compact'",
    )?;
    client.batch_execute("CALL varve.expire('t')")?;
    let jobs = jobs(&mut client)?;
    let ways: [(&str, &str, &[&str]); 3] = [
        ("superuser", "postgres", &[]),
        ("owner", "owner", &[]),
        ("table", "owner", &["--table=t"]),
    ];
    for (name, user, options) in ways {
        let outcome = restored(&cluster, name, user, options, &jobs);
        report.check(&format!("worker/jobs in a dump of {name}"), outcome);
    }
    report.check(
        "worker/rollup restored without its rows, and then with them",
        in_steps(tree),
    );
    Ok(())
}

/// What the worker stored of a rollup before its rows come out of the dump would be there twice.
fn in_steps(tree: &Arc<Tree>) -> Result<()> {
    const SHOWN: &str = "SELECT count(*) || ' ' || coalesce(sum(n), 0) FROM hourly";
    let cluster = Cluster::create(tree, &["varve.worker = on"])?;
    let mut client = cluster.database("rolled_up")?;
    client.batch_execute(
        "CREATE TABLE cpu(time timestamptz NOT NULL, host text NOT NULL) USING varve;
         CREATE INDEX ON cpu USING varve (host, time);
         INSERT INTO cpu SELECT '2026-01-01'::timestamptz + i * interval '1 minute', 'h' || i % 3 FROM generate_series(0, 9999) i;
         SELECT varve.create_rollup('hourly', $$ SELECT time_bucket('1 hour', time) AS bucket, host, count(*) AS n
             FROM cpu GROUP BY bucket, host $$)",
    )?;
    client.batch_execute("CALL varve.refresh_rollup('hourly')")?;
    let shown: String = client.query_one(SHOWN, &[])?.get(0);
    client.batch_execute("CREATE DATABASE rolled_up_again")?;
    let file = cluster.data().join("rolled_up.dump");
    let host = format!("--host={}", cluster.host().display());
    let mut dump = cluster.tree.program_as_server("pg_dump");
    dump.args(["--username=postgres", "--format=custom", &host])
        .arg(format!("--file={}", file.display()))
        .arg("rolled_up");
    run_program(&mut dump)?;
    let restore = |options: &[&str]| {
        let mut restore = cluster.tree.program_as_server("pg_restore");
        restore
            .args(["--username=postgres", "--dbname=rolled_up_again", &host])
            .args(options)
            .arg(&file);
        run_program(&mut restore)
    };
    restore(&["--schema-only"])?;
    let mut client = cluster.connect("rolled_up_again")?;
    restore(&["--data-only", "--table=cpu"])?;
    client.batch_execute("ANALYZE cpu")?;
    await_true(
        &mut client,
        "a refresh",
        "SELECT runs + failures > 0 FROM varve.jobs WHERE kind = 'refresh'",
    )?;
    restore(&["--data-only", "--table=hourly_stored"])?;
    for refresh in ["", "CALL varve.refresh_rollup('hourly')"] {
        client.batch_execute(refresh)?;
        let now: String = client.query_one(SHOWN, &[])?.get(0);
        if now != shown {
            return Err(format!("{shown} became {now} after {refresh:?}").into());
        }
    }
    Ok(())
}

fn jobs(client: &mut Client) -> Result<String> {
    let row = client.query_one(JOBS, &[])?;
    Ok(row.get::<_, Option<String>>(0).unwrap_or_default())
}

/// Dumps and restores as one user. The owner of tables finds the extension in the database.
fn restored(cluster: &Cluster, name: &str, user: &str, options: &[&str], jobs: &str) -> Result<()> {
    let target = format!("restored_{name}");
    let mut admin = cluster.connect("postgres")?;
    admin.batch_execute(&format!("CREATE DATABASE {target}"))?;
    if user == "owner" {
        let mut client = cluster.connect(&target)?;
        client.batch_execute("CREATE EXTENSION varve; GRANT CREATE ON SCHEMA public TO owner")?;
    }
    let file = cluster.data().join(format!("{name}.dump"));
    run_program(
        cluster
            .tree
            .program_as_server("pg_dump")
            .arg(format!("--host={}", cluster.host().display()))
            .args(["--format=custom", &format!("--username={user}")])
            .args(options)
            .arg(format!("--file={}", file.display()))
            .arg("source"),
    )?;
    let mut restore = cluster.tree.program_as_server("pg_restore");
    restore
        .arg(format!("--host={}", cluster.host().display()))
        .args([&format!("--username={user}"), &format!("--dbname={target}")])
        .arg(&file);
    if name == "owner" {
        // What the dump says about the extension only a superuser may do again; it is there already.
        restore.stderr(std::process::Stdio::null()).status()?;
    } else {
        run_program(&mut restore)?;
    }
    let found = self::jobs(&mut cluster.connect(&target)?)?;
    if found != jobs || found.is_empty() {
        return Err(format!("jobs were {jobs}, and are {found}").into());
    }
    Ok(())
}
