//! Limits of a server that a table must not push against: transaction ids that run out, and the lock table.

use super::{check, create_twins, rows};
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::twins::{self, VARVE};
use crate::Result;
use postgres::error::SqlState;
use postgres::Client;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The least that autovacuum_freeze_max_age can be.
const MOST_AGE: i64 = 100_000;
const WAIT: Duration = Duration::from_secs(60);

pub fn run(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    report.check("hazards/autovacuum freezes old chunks", freezing(tree));
    report.check("hazards/out of locks", out_of_locks(tree));
    Ok(())
}

/// Burns as many transaction ids as autovacuum allows a table to be old, which is all that it is allowed to look after: it
/// must freeze headers and pieces, and what the table shows stay the same.
fn freezing(tree: &Arc<Tree>) -> Result<()> {
    let most_age = format!("autovacuum_freeze_max_age = {MOST_AGE}");
    let settings = [
        &most_age[..],
        "autovacuum_naptime = '1s'",
        "vacuum_freeze_min_age = 1000",
        "synchronous_commit = off",
    ];
    let cluster = Cluster::create(tree, &settings)?;
    let mut client = cluster.database("limits")?;
    create_twins(&mut client)?;
    let quiet = format!("ALTER TABLE {VARVE} SET (autovacuum_enabled = off)");
    client.batch_execute(&quiet)?;
    let before = age(&mut client)?;
    client.batch_execute(&format!(
        "DO $$ BEGIN FOR i IN 1..{MOST_AGE} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
    ))?;
    let start = Instant::now();
    while age(&mut client)? >= MOST_AGE {
        if start.elapsed() > WAIT {
            return Err(format!(
                "the table's age went from {before} to {}, and stays there",
                age(&mut client)?
            )
            .into());
        }
        thread::sleep(Duration::from_millis(200));
    }
    check(&mut client)?;
    twins::both(
        &mut client,
        "UPDATE {t} SET value = 1 WHERE seq % 30 = 3; DELETE FROM {t} WHERE seq % 90 = 4",
    )?;
    twins::compact(&mut client, VARVE)?;
    check(&mut client)
}

fn age(client: &mut Client) -> Result<i64> {
    let query = "SELECT age(relfrozenxid)::bigint FROM pg_class WHERE oid = $1::text::regclass";
    Ok(client.query_one(query, &[&VARVE])?.get(0))
}

/// With a lock table as small as it can be, a transaction touches rows of many chunks one by one, and changes all of
/// them. It may only fail as a heap could: with SQLSTATE 53200, and without a trace.
fn out_of_locks(tree: &Arc<Tree>) -> Result<()> {
    let settings = [
        "max_locks_per_transaction = 10",
        "max_connections = 10",
        "autovacuum = off",
    ];
    let cluster = Cluster::create(tree, &settings)?;
    let mut client = cluster.database("limits")?;
    create_twins(&mut client)?;
    // Chunks of a few rows each.
    client.batch_execute("SET varve.batch_rows = 1; SET varve.chunk_rows = 5")?;
    twins::both(&mut client, &rows("few", 20_001, 22_000))?;
    twins::both(
        &mut client,
        "UPDATE {t} SET value = value + 1 WHERE seq > 20000",
    )?;
    check(&mut client)?;
    // Another transaction has used up the shared table with locks of its own.
    let mut other = cluster.connect("limits")?;
    other.batch_execute("BEGIN")?;
    let mut taken = 0;
    while other
        .batch_execute(&format!(
            "SAVEPOINT s; SELECT pg_advisory_xact_lock({taken})"
        ))
        .is_ok()
    {
        taken += 1;
    }
    other.batch_execute("ROLLBACK TO SAVEPOINT s")?;
    for statement in [
        "DELETE FROM samples_varve WHERE seq > 20000 AND seq % 3 = 0",
        "SELECT count(*) FROM (SELECT 1 FROM samples_varve WHERE seq > 20000 FOR UPDATE) x",
        "INSERT INTO samples_varve SELECT * FROM samples_varve",
    ] {
        match client.batch_execute(&format!("BEGIN; {statement}; ROLLBACK")) {
            Err(error) if error.code() != Some(&SqlState::OUT_OF_MEMORY) => {
                return Err(format!("{statement}: {}", crate::errors::describe(&error)).into());
            }
            _ => {}
        }
        client.batch_execute("ROLLBACK")?;
    }
    other.batch_execute("ROLLBACK")?;
    twins::both(
        &mut client,
        "DELETE FROM {t} WHERE seq > 20000 AND seq % 3 = 0",
    )?;
    check(&mut client)
}
