//! A table with a primary key whose rows are compressed all the while: eight sessions insert, upsert, update, move and delete
//! a few hundred keys, and compact never rests. *Free*: nobody holds back, a trigger writes every change to a ledger, and in
//! every snapshot the table is what the ledger says, each key once. *Batches*: the same, without triggers, which would keep rows
//! from going straight into chunks; statements write their ledger themselves. *Twin*: one session at a time has a key, and each
//! statement must end on the table as it ends on a heap, by SQLSTATE or number of rows.

mod batches;
mod free;
mod ledger;
mod twin;

use crate::errors::describe;
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::twins;
use crate::Result;
use postgres::{Client, NoTls};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const SESSIONS: u64 = 8;
const DEVICES: i64 = 4;
const TIMES: i64 = 60;

/// How the transactions of a session ended, and the statements in them that found their key taken.
#[derive(Default, Debug)]
struct Tally {
    committed: u64,
    taken: u64,
    deadlocks: u64,
    serialization: u64,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.committed += other.committed;
        self.taken += other.taken;
        self.deadlocks += other.deadlocks;
        self.serialization += other.serialization;
    }
}

pub fn run(
    tree: &Arc<Tree>,
    report: &mut Report,
    seconds: u64,
    seed: u64,
    which: &str,
) -> Result<()> {
    println!("keys: seed {seed}, {seconds} s each");
    let cluster = Cluster::create(tree, &["deadlock_timeout = '100ms'"])?;
    let mut client = cluster.database("keys")?;
    let conninfo = cluster.conninfo("keys");
    let parts: [(&str, Create, Session, Expect); 3] = [
        ("free", free::create, free::session, free::expect_right),
        (
            "batches",
            batches::create,
            batches::session,
            batches::expect_right,
        ),
        ("twin", twin::create, twin::session, twin::expect_equal),
    ];
    for (title, create, session, expect_right) in parts {
        if which == title || which == "all" {
            create(&mut client)?;
            round(
                report,
                title,
                &conninfo,
                seconds,
                seed,
                session,
                expect_right,
            )?;
        }
    }
    Ok(())
}

type Create = fn(&mut Client) -> Result<()>;
type Expect = fn(&mut Client) -> Result<()>;
type Session = fn(&str, u64, &AtomicBool) -> Result<Tally>;

/// Lets the sessions work, compacts, and compares, until the time is over or something is wrong.
fn round(
    report: &mut Report,
    title: &str,
    conninfo: &str,
    seconds: u64,
    seed: u64,
    session: Session,
    expect_right: Expect,
) -> Result<()> {
    let stop = AtomicBool::new(false);
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let text = |outcome: Result<Tally>| outcome.map_err(|e| describe(e.as_ref()));
    let (tallies, compactions, snapshots) = thread::scope(|scope| {
        let stop = &stop;
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|n| {
                let seed = seed.wrapping_mul(1000).wrapping_add(n);
                scope.spawn(move || text(session(conninfo, seed, stop)))
            })
            .collect();
        let compactor =
            scope.spawn(move || compact_until(conninfo, stop).map_err(|e| describe(e.as_ref())));
        let mut client = Client::connect(conninfo, NoTls)?;
        let mut snapshots = Ok(0);
        while let Ok(count) = snapshots {
            if Instant::now() > deadline || sessions.iter().any(|s| s.is_finished()) {
                break;
            }
            thread::sleep(Duration::from_millis(300));
            client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
            snapshots = expect_right(&mut client).map(|()| count + 1);
            client.batch_execute("ROLLBACK")?;
        }
        stop.store(true, Ordering::Relaxed);
        let tallies: Vec<_> = sessions
            .into_iter()
            .map(|s| s.join().unwrap_or_else(|_| Err("a thread panicked".into())))
            .collect();
        let compactions = compactor
            .join()
            .unwrap_or_else(|_| Err("a thread panicked".into()));
        Ok::<_, Box<dyn std::error::Error>>((tallies, compactions, snapshots))
    })?;
    let (mut total, mut failure) = (Tally::default(), None);
    for tally in tallies {
        match tally {
            Ok(tally) => total.add(&tally),
            Err(text) => failure = Some(text),
        }
    }
    println!(
        "keys/{title}: {total:?}, compactions {compactions:?}, snapshots {:?}",
        snapshots.as_ref().ok()
    );
    report.check(
        &format!("keys/{title}: no session met an error"),
        failure.map_or(Ok(()), |text| Err(text.into())),
    );
    report.check(
        &format!("keys/{title}: compact met no error"),
        compactions.map(|_| ()).map_err(Into::into),
    );
    report.check(
        &format!("keys/{title}: right in every snapshot"),
        snapshots.map(|_| ()),
    );
    let mut client = Client::connect(conninfo, NoTls)?;
    report.check(
        &format!("keys/{title}: right in the end"),
        expect_right(&mut client),
    );
    report.check(
        &format!("keys/{title}: verified in the end"),
        twins::expect_verified(&mut client, title),
    );
    Ok(())
}

/// Compacts without a pause, and vacuums now and then; returns how often.
fn compact_until(conninfo: &str, stop: &AtomicBool) -> Result<(u64, i64)> {
    let mut client = Client::connect(conninfo, NoTls)?;
    let (mut count, mut chunks): (u64, i64) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        if twins::access_method() == "varve" {
            // A series has its rows in one chunk, or in many.
            let rows = [65_536, 40, 7][(count / 16 % 3) as usize];
            client.batch_execute(&format!("SET varve.chunk_rows = {rows}"))?;
        }
        for table in ["free", "batches", "twin"] {
            let exists: bool = client
                .query_one("SELECT to_regclass($1) IS NOT NULL", &[&table])?
                .get(0);
            if exists {
                twins::compact(&mut client, table)?;
                if twins::access_method() == "varve" {
                    let found: i64 = client
                        .query_one(
                            &format!("SELECT count(*) FROM varve.chunks('{table}')"),
                            &[],
                        )?
                        .get(0);
                    chunks += found;
                }
            }
        }
        count += 1;
        if count % 8 == 0 {
            client.batch_execute("VACUUM")?;
        }
    }
    Ok((count, chunks))
}

/// The SQLSTATE of an error of the server; anything else is passed on.
fn state_of(error: postgres::Error) -> Result<String> {
    match error.code() {
        Some(code) => Ok(code.code().to_string()),
        None => Err(error.into()),
    }
}

/// The table's definition, without its constraints' enemies: nothing but a key and a series index.
fn create_table(client: &mut Client, table: &str, method: &str) -> Result<()> {
    let mut sql = format!(
        "CREATE TABLE {table}(device int NOT NULL, time timestamptz NOT NULL, value bigint, PRIMARY KEY (device, time)) USING {method};"
    );
    if method == "varve" {
        // In one transaction: rows go into chunks from the first on.
        sql += &format!("CREATE INDEX ON {table} USING varve (device, time)");
    }
    Ok(client.batch_execute(&sql)?)
}

/// A time of the few that keys have, as SQL.
fn time(at: i64) -> String {
    format!("timestamptz '2026-01-01' + {at} * interval '1 s'")
}
