//! Four sessions of random changes, savepoints, DDL, compact and vacuum on varve tables, with and without a key, and their heap
//! twins. Every committed state must be equal: a fifth session compares twins in one snapshot all the while, and
//! `varve.verify` ends it.

use crate::errors::{describe, is_conflict};
use crate::heap_pair::{self, Pair, PAIRS};
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::workload::Workload;
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
    PAIRS.iter().try_for_each(|pair| pair.create(&mut client))?;
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
    for pair in PAIRS {
        report.check(
            &format!("model/{} equal in the end", pair.varve),
            pair.expect_equal(&mut client),
        );
        report.check(
            &format!("model/{} verified in the end", pair.varve),
            heap_pair::expect_verified(&mut client, pair.varve),
        );
    }
    Ok(())
}

/// Compares all twins again and again, each time in one snapshot; returns how often.
fn compare_until(client: &mut Client, deadline: Instant, ended: impl Fn() -> bool) -> Result<u64> {
    let mut snapshots = 0;
    while Instant::now() < deadline && !ended() {
        thread::sleep(Duration::from_millis(500));
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
        let equal = PAIRS.iter().try_for_each(|pair| pair.expect_equal(client));
        client.batch_execute("ROLLBACK")?;
        match equal {
            Err(error) if is_conflict(error.as_ref()) => continue,
            other => other?,
        }
        snapshots += 1;
        for pair in PAIRS {
            match thin_out(client, pair) {
                Err(error) if is_conflict(error.as_ref()) => client.batch_execute("ROLLBACK")?,
                other => other?,
            }
        }
    }
    Ok(snapshots)
}

/// Keeps comparing quick: where there are many, most rows go, under a lock that no change can slip past.
fn thin_out(client: &mut Client, pair: Pair) -> Result<()> {
    let Pair { heap, varve, .. } = pair;
    let rows: i64 = client
        .query_one(&format!("SELECT count(*) FROM {heap}"), &[])?
        .get(0);
    if rows > MOST_ROWS {
        client.batch_execute(&format!("BEGIN; LOCK {heap}, {varve} IN EXCLUSIVE MODE"))?;
        pair.both(client, "DELETE FROM {t} WHERE seq % 8 <> 0")?;
        client.batch_execute("COMMIT")?;
    }
    Ok(())
}

fn session_until(
    conninfo: &str,
    seed: u64,
    session: u64,
    stop: &AtomicBool,
) -> std::result::Result<Tally, String> {
    let mut client = Client::connect(conninfo, NoTls).map_err(|e| e.to_string())?;
    let mut workload =
        Workload::new(seed.wrapping_add(session), 0, DEVICES).with_keys(session as i64);
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
    let pair = *workload.random.pick(&PAIRS);
    match workload.random.integer(0, 40) {
        0 => heap_pair::compact(client, pair.varve)?,
        1 => client.batch_execute(&format!("VACUUM {}", pair.varve))?,
        2 => {
            let change = if workload.random.one_in(2) {
                "DROP COLUMN IF EXISTS extra"
            } else {
                "ADD COLUMN IF NOT EXISTS extra int DEFAULT 7"
            };
            client.batch_execute("BEGIN")?;
            pair.both(client, &format!("ALTER TABLE {{t}} {change}"))?;
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
