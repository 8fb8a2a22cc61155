//! pg_upgrade: what rollups have stored and marked, chunks, keys and jobs are as they were, and go on.

use super::dumped::{create, expect_shown, shown, ROLLUPS};
use crate::heap_pair;
use crate::report::Report;
use crate::server::{run as run_program, Cluster, Tree};
use crate::Result;
use postgres::Client;
use std::fs;
use std::sync::Arc;

const SETTINGS: [&str; 2] = ["varve.worker = off", "timezone = 'UTC'"];

pub fn run(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    report.check("rollups/pg_upgrade", upgraded(tree));
    Ok(())
}

fn upgraded(tree: &Arc<Tree>) -> Result<()> {
    let mut old = Cluster::create(tree, &SETTINGS)?;
    let mut client = old.database("source")?;
    create(&old, &mut client)?;
    client.batch_execute(
        "RESET ROLE;
         CREATE TABLE keyed (device int, time timestamptz, value int, PRIMARY KEY (device, time)) USING varve;
         INSERT INTO keyed SELECT i % 9, '2026-01-01'::timestamptz + i * interval '1 s', i FROM generate_series(1, 20000) i",
    )?;
    client.batch_execute("CALL varve.compact('keyed')")?;
    client.batch_execute(
        "UPDATE keyed SET value = -1 WHERE device = 3 AND time > '2026-01-01 05:00'",
    )?;
    let (rollups, rest) = (shown(&mut client)?, state(&mut client)?);
    drop(client);
    let mut new = Cluster::create(tree, &SETTINGS)?;
    old.stop()?;
    new.stop()?;
    let work = tree.directory("upgrade")?;
    // It writes what it does, and why it fails, to stdout.
    let log = work.join("pg_upgrade.log");
    let ended = run_program(
        tree.program_as_server("pg_upgrade")
            .current_dir(&work)
            .stdout(fs::File::create(&log)?)
            .arg(format!("--old-bindir={}", tree.bin().display()))
            .arg(format!("--new-bindir={}", tree.bin().display()))
            .arg(format!("--old-datadir={}", old.data().display()))
            .arg(format!("--new-datadir={}", new.data().display()))
            .arg(format!("--socketdir={}", new.host().display()))
            .arg("--username=postgres"),
    );
    if let Err(error) = ended {
        return Err(format!("{error}{}", fs::read_to_string(&log)?).into());
    }
    new.start()?;
    let mut client = new.connect("source")?;
    expect_shown(&mut client, "after pg_upgrade", &rollups)?;
    let now = state(&mut client)?;
    if now != rest {
        return Err(format!("{rest:?} became {now:?}").into());
    }
    for name in ROLLUPS {
        client.batch_execute(&format!("CALL varve.refresh_rollup('{name}')"))?;
    }
    expect_shown(&mut client, "after a refresh", &rollups)?;
    client.batch_execute("INSERT INTO cpu VALUES ('2026-01-22 12:00:30', 'h2', 1000)")?;
    client.batch_execute("CALL varve.compact('keyed')")?;
    let taken = client.batch_execute("INSERT INTO keyed SELECT device, time FROM keyed LIMIT 1");
    if taken.is_ok() {
        return Err("a key is there twice".into());
    }
    for table in ["cpu", "keyed", "hourly_stored"] {
        heap_pair::expect_verified(&mut client, table)?;
    }
    Ok(())
}

/// Rollups, jobs, chunks and rows, in words.
fn state(client: &mut Client) -> Result<Vec<String>> {
    let queries = [
        "SELECT string_agg(r::text, ';' ORDER BY name) FROM (SELECT name, source, watermark, marked_ranges, rows FROM varve.rollups) r",
        "SELECT string_agg(j::text, ';' ORDER BY j::text) FROM (SELECT \"table\", kind, enabled, keep, series_filter FROM varve.jobs) j",
        "SELECT count(*) || ' chunks, ' || sum(rows) || ' rows' FROM varve.chunks('keyed')",
        "SELECT count(*) || ' rows, ' || sum(value) FROM keyed",
    ];
    let all = queries
        .iter()
        .map(|query| Ok(client.query_one(*query, &[])?.get(0)));
    all.collect()
}
