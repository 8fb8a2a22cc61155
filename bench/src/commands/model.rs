//! Four sessions of random changes, savepoints, DDL, compact and vacuum on a varve table and its heap twin. Every committed
//! state must be equal: a fifth session compares both tables in one snapshot all the while, and `varve.verify` ends it.

use crate::errors::{describe, is_conflict};
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::twins::{self, Workload, HEAP, VARVE};
use crate::Result;
use postgres::{Client, NoTls};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const SESSIONS: u64 = 4;
const DEVICES: i64 = 12;
const MOST_ROWS: i64 = 200_000;

/// How a session's transactions ended.
#[derive(Default)]
struct Tally {
    committed: u64,
    rolled_back: u64,
    conflicts: u64,
}

pub fn run(tree: &Arc<Tree>, report: &mut Report, seconds: u64, seed: u64) -> Result<()> {
    println!("model: seed {seed}, {seconds} s");
    let cluster = Cluster::create(tree, &["deadlock_timeout = '100ms'"])?;
    let mut client = cluster.database("model")?;
    twins::create(&mut client)?;
    let stop = AtomicBool::new(false);
    let conninfo = cluster.conninfo("model");
    let outcome = thread::scope(|scope| {
        let work = |session| session_until(&conninfo, seed, session, &stop);
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|session| scope.spawn(move || work(session)))
            .collect();
        let compared = compare_until(
            &mut client,
            Instant::now() + Duration::from_secs(seconds),
            || sessions.iter().any(|s| s.is_finished()),
        );
        stop.store(true, Ordering::Relaxed);
        let tallies = sessions
            .into_iter()
            .map(|s| {
                s.join()
                    .unwrap_or_else(|_| Err("a session's thread panicked".into()))
            })
            .collect();
        (compared, tallies)
    });
    let (compared, tallies): (Result<u64>, Vec<std::result::Result<Tally, String>>) = outcome;
    let (mut failure, mut total) = (None, Tally::default());
    for tally in tallies {
        match tally {
            Ok(tally) => {
                total.committed += tally.committed;
                total.rolled_back += tally.rolled_back;
                total.conflicts += tally.conflicts;
            }
            Err(text) => failure = Some(text),
        }
    }
    println!(
        "model: {} transactions committed, {} rolled back, {} ended by a conflict",
        total.committed, total.rolled_back, total.conflicts
    );
    report.check(
        "model/no session met an error",
        failure.map_or(Ok(()), |text| Err(text.into())),
    );
    report.check(
        "model/equal in every snapshot",
        compared.map(|snapshots| println!("model: {snapshots} snapshots compared")),
    );
    report.check(
        "model/equal in the end",
        twins::expect_equal(&mut client, HEAP, VARVE),
    );
    report.check(
        "model/verified in the end",
        twins::expect_verified(&mut client, VARVE),
    );
    Ok(())
}

/// Compares both tables again and again, each time in one snapshot; returns how often.
fn compare_until(client: &mut Client, deadline: Instant, ended: impl Fn() -> bool) -> Result<u64> {
    let mut snapshots = 0;
    while Instant::now() < deadline && !ended() {
        thread::sleep(Duration::from_millis(500));
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
        let equal = twins::expect_equal(client, HEAP, VARVE);
        client.batch_execute("ROLLBACK")?;
        match equal {
            Err(error) if is_conflict(error.as_ref()) => continue,
            other => other?,
        }
        snapshots += 1;
        let rows: i64 = client
            .query_one(&format!("SELECT count(*) FROM {HEAP}"), &[])?
            .get(0);
        if rows > MOST_ROWS {
            match thin_out(client) {
                Err(error) if is_conflict(error.as_ref()) => client.batch_execute("ROLLBACK")?,
                other => other?,
            }
        }
    }
    Ok(snapshots)
}

/// Keeps comparing quick: most rows go, under a lock that no change can slip past.
fn thin_out(client: &mut Client) -> Result<()> {
    client.batch_execute(&format!("BEGIN; LOCK {HEAP}, {VARVE} IN EXCLUSIVE MODE"))?;
    twins::both(client, "DELETE FROM {t} WHERE seq % 8 <> 0")?;
    Ok(client.batch_execute("COMMIT")?)
}

fn session_until(
    conninfo: &str,
    seed: u64,
    session: u64,
    stop: &AtomicBool,
) -> std::result::Result<Tally, String> {
    let mut client = Client::connect(conninfo, NoTls).map_err(|e| e.to_string())?;
    let mut workload = Workload::new(seed.wrapping_add(session), 0, DEVICES);
    let mut tally = Tally::default();
    while !stop.load(Ordering::Relaxed) {
        match step(&mut client, &mut workload) {
            Ok(true) => tally.committed += 1,
            Ok(false) => tally.rolled_back += 1,
            Err(error) if is_conflict(error.as_ref()) => {
                tally.conflicts += 1;
                client
                    .batch_execute("ROLLBACK")
                    .map_err(|e| e.to_string())?;
            }
            Err(error) => return Err(format!("session {session}: {}", describe(error.as_ref()))),
        }
    }
    Ok(tally)
}

/// True where something was committed.
fn step(client: &mut Client, workload: &mut Workload) -> Result<bool> {
    match workload.random.integer(0, 40) {
        0 => twins::compact(client, VARVE)?,
        1 => client.batch_execute(&format!("VACUUM {VARVE}"))?,
        2 => {
            let change = if workload.random.one_in(2) {
                "DROP COLUMN IF EXISTS extra"
            } else {
                "ADD COLUMN IF NOT EXISTS extra int DEFAULT 7"
            };
            client.batch_execute("BEGIN")?;
            twins::both(client, &format!("ALTER TABLE {{t}} {change}"))?;
            client.batch_execute("COMMIT")?;
        }
        n => return transaction(client, workload, n % 3 == 0),
    }
    Ok(true)
}

/// Changes to devices that no other session is changing: what a statement does to the heap and, a moment later, to the varve
/// table must not depend on who commits in between. Chunks are shared by devices all the same.
fn transaction(client: &mut Client, workload: &mut Workload, repeatable: bool) -> Result<bool> {
    client.batch_execute(if repeatable {
        "BEGIN ISOLATION LEVEL REPEATABLE READ"
    } else {
        "BEGIN"
    })?;
    for _ in 0..workload.random.integer(1, 5) {
        let device = workload.any_device();
        let ours: bool = client
            .query_one("SELECT pg_try_advisory_xact_lock($1)", &[&device])?
            .get(0);
        if ours {
            let saved = workload.random.one_in(4);
            if saved {
                client.batch_execute("SAVEPOINT s")?;
            }
            workload.change(client, device)?;
            if saved {
                client.batch_execute(if workload.random.one_in(2) {
                    "ROLLBACK TO s"
                } else {
                    "RELEASE s"
                })?;
            }
        }
    }
    let undone = workload.random.one_in(8);
    client.batch_execute(if undone { "ROLLBACK" } else { "COMMIT" })?;
    Ok(!undone)
}
