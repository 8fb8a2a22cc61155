//! Rollups in dumps, plain and not, of a superuser, of an owner, of some tables, in parallel: what is restored shows what was dumped,
//! buckets of rows that retention had taken included, before it is refreshed and afterwards.

use crate::report::Report;
use crate::server::{run as run_program, Cluster, Tree};
use crate::Result;
use postgres::Client;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

pub(super) const ROLLUPS: [&str; 3] = ["hourly", "daily", "monthly"];
/// What is dumped with `--table`.
const TABLES: [&str; 7] = [
    "cpu",
    "hourly",
    "hourly_stored",
    "daily",
    "daily_stored",
    "monthly",
    "monthly_stored",
];

/// How a dump is made, and by whom.
struct Way {
    name: &'static str,
    user: &'static str,
    format: &'static str,
    tables: bool,
    jobs: bool,
}

const fn way(name: &'static str, user: &'static str, format: &'static str) -> Way {
    Way {
        name,
        user,
        format,
        tables: false,
        jobs: false,
    }
}

pub fn run(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    // The worker would refresh while others look at what is restored.
    let cluster = Cluster::create(tree, &["varve.worker = off", "timezone = 'UTC'"])?;
    let mut client = cluster.database("source")?;
    create(&cluster, &mut client)?;
    let shown = shown(&mut client)?;
    let ways = [
        way("superuser", "postgres", "custom"),
        way("owner", "owner", "custom"),
        way("plain", "owner", "plain"),
        Way {
            tables: true,
            ..way("tables", "owner", "custom")
        },
        Way {
            jobs: true,
            ..way("parallel", "postgres", "directory")
        },
    ];
    for way in ways {
        let outcome = restored(&cluster, &way, &shown);
        report.check(&format!("rollups/dump of {}", way.name), outcome);
    }
    report.check("rollups/dump of a schema", without_rows(&cluster));
    report.check(
        "rollups/restored in sections",
        in_sections(&cluster, &shown),
    );
    Ok(())
}

/// Two levels and a third rollup, of which the first has lost rows to retention, and all have marks.
pub(super) fn create(cluster: &Cluster, client: &mut Client) -> Result<()> {
    client.batch_execute(
        "CREATE ROLE owner LOGIN; GRANT CREATE ON SCHEMA public TO owner; SET ROLE owner;
         CREATE TABLE cpu (gone int, time timestamptz NOT NULL, host text NOT NULL, n int) USING varve;
         CREATE INDEX ON cpu USING varve (host, time);
         ALTER TABLE cpu DROP COLUMN gone;
         INSERT INTO cpu SELECT '2026-01-01'::timestamptz + i * interval '1 minute', 'h' || i % 5, i % 7
         FROM generate_series(0, 119999) i;
         SELECT varve.create_rollup('hourly', $$ SELECT host, time_bucket('1 hour', time) AS bucket, count(*) AS rows,
             sum(n) AS sum FROM cpu GROUP BY bucket, host $$);
         SELECT varve.create_rollup('daily', $$ SELECT time_bucket('1 day', bucket, 'Europe/Berlin') AS day, sum(rows) AS rows
             FROM hourly GROUP BY day $$);
         SELECT varve.create_rollup('monthly', $$ SELECT host = 'h1' AS first, time_bucket('1 month', time) AS month,
             max(n) FILTER (WHERE n < 6) AS most FROM cpu WHERE n <> 3 GROUP BY 1, 2 $$);
         ALTER TABLE cpu RENAME COLUMN n TO number;
         SELECT varve.set_retention('cpu', now() - '2026-01-15'::timestamptz),
             varve.set_retention('hourly_stored', now() - '2026-01-10'::timestamptz)",
    )?;
    for name in ROLLUPS {
        client.batch_execute(&format!("CALL varve.refresh_rollup('{name}')"))?;
    }
    // A row that retention finds locked stays, though its bucket counts as removed.
    let mut other = cluster.connect("source")?;
    let mut lock = other.transaction()?;
    lock.batch_execute("SELECT FROM cpu WHERE time = '2026-01-02 03:04' FOR UPDATE")?;
    client.batch_execute("CALL varve.expire('cpu')")?;
    client.batch_execute("CALL varve.expire('hourly_stored')")?;
    lock.rollback()?;
    client.batch_execute(
        "INSERT INTO cpu VALUES ('2026-01-20 12:00:30', 'h2', 1000); DELETE FROM cpu WHERE time = '2026-01-21 12:01'",
    )?;
    let row = client.query_one(
        "SELECT (SELECT count(*) FROM cpu WHERE time < '2026-01-15'), (SELECT sum(marked_ranges)::bigint FROM varve.rollups)",
        &[],
    )?;
    let (left, marks): (i64, i64) = (row.get(0), row.get(1));
    if left == 0 || marks == 0 {
        return Err(format!("{left} rows left by retention, {marks} marks").into());
    }
    Ok(())
}

/// All that the rollups show.
pub(super) fn shown(client: &mut Client) -> Result<Vec<String>> {
    let all = ROLLUPS.iter().map(|name| {
        let query = format!("SELECT '{name}: ' || count(*) || ' ' || md5(string_agg(x::text, ';' ORDER BY x::text)) FROM {name} x");
        Ok(client.query_one(&query, &[])?.get(0))
    });
    all.collect()
}

pub(super) fn expect_shown(client: &mut Client, when: &str, shown: &[String]) -> Result<()> {
    let now = self::shown(client)?;
    if now != shown {
        return Err(format!("{when}: {shown:?} became {now:?}").into());
    }
    Ok(())
}

fn restored(cluster: &Cluster, way: &Way, shown: &[String]) -> Result<()> {
    let target = format!("restored_{}", way.name);
    let mut client = dump_and_restore(cluster, way, &target, &[])?;
    expect_shown(&mut client, "restored", shown)?;
    for name in ROLLUPS {
        client.batch_execute(&format!("CALL varve.refresh_rollup('{name}')"))?;
        expect_shown(&mut client, "refreshed", shown)?;
    }
    client.batch_execute("INSERT INTO cpu VALUES ('2026-01-20 13:00:30', 'h2', 5)")?;
    let row = client.query_one(
        "SELECT (SELECT sum(marked_ranges)::bigint FROM varve.rollups),
            (SELECT rows FROM hourly WHERE bucket = '2026-01-20 13:00' AND host = 'h2')",
        &[],
    )?;
    let (marks, rows): (i64, i64) = (row.get(0), row.get(1));
    if (marks, rows) != (3, 13) {
        return Err(format!("{marks} marks, and {rows} rows, after a late row").into());
    }
    client.batch_execute("DELETE FROM cpu WHERE time = '2026-01-20 13:00:30'")?;
    client.batch_execute("CALL varve.refresh_rollup('hourly')")?;
    expect_shown(&mut client, "changed", shown)?;
    match client.batch_execute("INSERT INTO cpu VALUES ('2026-01-02', 'h2', 5)") {
        Err(error) if error.code().is_some_and(|code| code.code() == "55000") => Ok(()),
        Err(error) => Err(error.into()),
        Ok(()) => Err("a row of a time that retention had taken was let in".into()),
    }
}

/// Without rows there is no bucket to keep, and any row is welcome.
fn without_rows(cluster: &Cluster) -> Result<()> {
    let way = way("schema", "postgres", "custom");
    let mut client = dump_and_restore(cluster, &way, "restored_schema", &["--schema-only"])?;
    for step in [
        "INSERT INTO cpu VALUES ('2026-01-02', 'h2', 5)",
        "CALL varve.refresh_rollup('hourly')",
    ] {
        client.batch_execute(step)?;
        let rows: i64 = client.query_one("SELECT count(*) FROM hourly", &[])?.get(0);
        if rows != 1 {
            return Err(format!("{rows} buckets after {step}").into());
        }
    }
    Ok(())
}

/// Nothing is refreshed before the restore is through: rows of the dump would come on top of what was computed.
fn in_sections(cluster: &Cluster, shown: &[String]) -> Result<()> {
    let way = way("sections", "postgres", "custom");
    let (target, dump) = (
        "restored_sections",
        dump(cluster, &way, "restored_sections", &[])?,
    );
    for section in ["pre-data", "data", "post-data"] {
        let mut restore = restore(cluster, &way, target, &dump);
        run_program(restore.arg(format!("--section={section}")))?;
        let mut client = cluster.connect(target)?;
        let refreshed = client.batch_execute("CALL varve.refresh_rollup('hourly')");
        match refreshed {
            Ok(()) if section == "post-data" => expect_shown(&mut client, section, shown)?,
            Ok(()) => return Err(format!("refreshed after {section}").into()),
            Err(error) if section == "post-data" => return Err(error.into()),
            Err(error) if error.code().is_some_and(|code| code.code() == "55000") => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Dumps and restores.
fn dump_and_restore(
    cluster: &Cluster,
    way: &Way,
    target: &str,
    options: &[&str],
) -> Result<Client> {
    let dump = dump(cluster, way, target, options)?;
    let mut restore = restore(cluster, way, target, &dump);
    if way.user == "owner" && !way.tables {
        // What the dump says about the extension only a superuser may do again; it is there already.
        restore.stderr(Stdio::null()).status()?;
    } else {
        run_program(&mut restore)?;
    }
    cluster.connect(target)
}

/// A dump by one user, and a database for it. One who may not create the extension finds it there.
fn dump(cluster: &Cluster, way: &Way, target: &str, options: &[&str]) -> Result<PathBuf> {
    let mut admin = cluster.connect("postgres")?;
    admin.batch_execute(&format!("CREATE DATABASE {target}"))?;
    if way.user == "owner" {
        let mut client = cluster.connect(target)?;
        client.batch_execute("CREATE EXTENSION varve; GRANT CREATE ON SCHEMA public TO owner")?;
    }
    let file = cluster.data().join(format!("{target}.dump"));
    let tables = TABLES.iter().filter(|_| way.tables);
    let mut dump = cluster.tree.program_as_server("pg_dump");
    dump.args(connection(cluster, way))
        .arg(format!("--format={}", way.format))
        .args(options)
        .args(tables.map(|table| format!("--table={table}")))
        .arg(format!("--file={}", file.display()))
        .arg("source");
    run_program(&mut dump)?;
    Ok(file)
}

fn restore(cluster: &Cluster, way: &Way, target: &str, dump: &Path) -> Command {
    let is_plain = way.format == "plain";
    let program = if is_plain { "psql" } else { "pg_restore" };
    let mut restore = cluster.tree.program_as_server(program);
    restore
        .args(connection(cluster, way))
        .arg(format!("--dbname={target}"));
    if is_plain {
        restore
            .args(["--quiet", "--no-psqlrc", "--file"])
            .stdout(Stdio::null());
    }
    if way.jobs {
        restore.arg("--jobs=2");
    }
    restore.arg(dump);
    restore
}

fn connection(cluster: &Cluster, way: &Way) -> [String; 2] {
    let host = format!("--host={}", cluster.host().display());
    [host, format!("--username={}", way.user)]
}
