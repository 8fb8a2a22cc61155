//! Limits that a table must not push against: transaction ids that run out, the lock table, and the pages that TIDs can name.

use super::{check, create_twins, rows};
use crate::heap_pair::{self, VARVE};
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::Result;
use postgres::error::SqlState;
use postgres::Client;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use varve_columns::tuple::tid::MAX_HEADER_BLOCK;

/// The least that autovacuum_freeze_max_age can be.
const MOST_AGE: i64 = 100_000;
const WAIT: Duration = Duration::from_secs(60);

pub fn run(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    report.check(
        "resource-limits/autovacuum freezes old chunks",
        freezing(tree),
    );
    report.check("resource-limits/out of locks", out_of_locks(tree));
    report.check("resource-limits/out of TIDs", out_of_tids(tree));
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
    heap_pair::both(
        &mut client,
        "UPDATE {t} SET value = 1 WHERE seq % 30 = 3; DELETE FROM {t} WHERE seq % 90 = 4",
    )?;
    heap_pair::compact(&mut client, VARVE)?;
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
    heap_pair::both(&mut client, &rows("few", 20_001, 22_000))?;
    heap_pair::both(
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
    heap_pair::both(
        &mut client,
        "DELETE FROM {t} WHERE seq > 20000 AND seq % 3 = 0",
    )?;
    check(&mut client)
}

/// Pages below which chunks have their headers.
const HEADER_PAGES: u64 = MAX_HEADER_BLOCK as u64;
/// Pages that rows of the tail may be on.
const TAIL_PAGES: u64 = 1 << 31;
const PAGE_BYTES: u64 = 8192;
const SEGMENT_PAGES: u64 = 131_072;

/// Tables of 682 GiB and 16 TiB, which are holes but for their last page. What has no place left is refused, and what is there stays right.
fn out_of_tids(tree: &Arc<Tree>) -> Result<()> {
    let mut cluster = Cluster::create(tree, &["autovacuum = off"])?;
    let mut client = cluster.database("limits")?;
    let bulk = "INSERT INTO {t} SELECT '2026-01-01'::timestamptz + g * interval '1 s', 1, g FROM generate_series(1, 1000) g";
    let single = "INSERT INTO {t} VALUES ('2026-02-01', 1, 5)";
    let refused = Some(&SqlState::PROGRAM_LIMIT_EXCEEDED);
    // How many pages each has, with what it still takes and what not.
    let cases = [
        ("last_headers", HEADER_PAGES, Some(bulk), None),
        ("no_headers", HEADER_PAGES + 1, Some(single), Some(bulk)),
        ("last_rows", TAIL_PAGES, Some(single), None),
        ("no_rows", TAIL_PAGES + 1, None, Some(single)),
    ];
    let mut files = Vec::new();
    for (table, pages, ..) in cases {
        client.batch_execute(&format!(
            "CREATE TABLE {table}(time timestamptz NOT NULL, device int, value int) USING varve;
             CREATE INDEX {table}_series ON {table} USING varve (device, time)"
        ))?;
        let path =
            client.query_one("SELECT pg_relation_filepath($1::text::regclass)", &[&table])?;
        files.push((path.get::<_, String>(0), pages));
    }
    drop(client);
    cluster.stop()?;
    for (path, pages) in files {
        fill_with_holes(&cluster.data().join(path), pages)?;
    }
    cluster.start()?;
    let mut client = cluster.connect("limits")?;
    for (table, _, taken, not_taken) in cases {
        let mut sum = 0;
        if let Some(sql) = not_taken {
            match client.batch_execute(&sql.replace("{t}", table)) {
                Err(error) if error.code() == refused => {}
                Err(error) => return Err(error.into()),
                Ok(()) => return Err(format!("{table} took more than it can name").into()),
            }
        }
        if let Some(sql) = taken {
            let added = client.execute(&sql.replace("{t}", table), &[])?;
            sum = if added == 1 { 5 } else { 500_500 };
        }
        let row = client.query_one(
            &format!("SELECT sum(value)::bigint, count(*) FROM {table} WHERE device = 1"),
            &[],
        )?;
        let found: Option<i64> = row.get(0);
        if found.unwrap_or(0) != sum {
            return Err(format!("{table}: {found:?} instead of {sum}").into());
        }
    }
    Ok(())
}

/// Makes an empty table's file one of so many pages.
fn fill_with_holes(path: &Path, pages: u64) -> Result<()> {
    for segment in 0..=pages / SEGMENT_PAGES {
        let mut name = path.as_os_str().to_owned();
        if segment > 0 {
            name.push(format!(".{segment}"));
        }
        let file = File::options().create(true).append(true).open(&name)?;
        file.set_len((pages - segment * SEGMENT_PAGES).min(SEGMENT_PAGES) * PAGE_BYTES)?;
        let owner = std::fs::metadata(path)?;
        std::os::unix::fs::chown(&name, Some(owner.uid()), Some(owner.gid()))?;
    }
    Ok(())
}
