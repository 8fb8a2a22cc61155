//! Jobs in dumps: of a superuser, of a table's owner, of one table.

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
