//! Tables with primary keys whose rows are compressed all the while: eight sessions insert, upsert, update, move and delete
//! a few hundred keys, and compact never rests. *Free*: nobody holds back, a trigger writes every change to a ledger, and in
//! every snapshot the table is what the ledger says, each key once. *Batches*: the same, without triggers, which would keep rows
//! from going straight into chunks; statements write their ledger themselves. *Twin*: one session at a time has a key, and each
//! statement must end on the table as it ends on a heap, by SQLSTATE or number of rows. *References*: tables refer to each other,
//! and no child is without its parent. *Killed*: the same, after kill -9.

mod batches;
mod family;
mod free;
mod killed;
mod ledger;
mod references;
mod round;
mod twin;

use crate::heap_pair;
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::Result;
use postgres::{Client, NoTls};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const SESSIONS: u64 = 8;
const DEVICES: i64 = 4;
const TIMES: i64 = 60;
/// The server is killed once for each of these that a mode takes.
const SECONDS_PER_KILL: u64 = 5;

/// How the transactions of a session ended, and the statements in them that found their key taken, or were refused for the sake
/// of a foreign key.
#[derive(Default, Debug)]
struct Tally {
    committed: u64,
    taken: u64,
    refused: u64,
    deadlocks: u64,
    serialization: u64,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.committed += other.committed;
        self.taken += other.taken;
        self.refused += other.refused;
        self.deadlocks += other.deadlocks;
        self.serialization += other.serialization;
    }
}

/// What sessions do, and to which tables.
struct Mode {
    title: &'static str,
    /// Those of the access method under test: compact works on them.
    tables: &'static [&'static str],
    create: fn(&mut Client) -> Result<()>,
    session: fn(&str, u64, &AtomicBool, &mut Tally) -> Result<()>,
    expect_right: fn(&mut Client) -> Result<()>,
}

const MODES: [Mode; 4] = [
    Mode {
        title: "free",
        tables: &["free"],
        create: free::create,
        session: free::session,
        expect_right: free::expect_right,
    },
    Mode {
        title: "batches",
        tables: &["batches"],
        create: batches::create,
        session: batches::session,
        expect_right: batches::expect_right,
    },
    Mode {
        title: "twin",
        tables: &["twin"],
        create: twin::create,
        session: twin::session,
        expect_right: twin::expect_equal,
    },
    REFERENCES,
];

const REFERENCES: Mode = Mode {
    title: "references",
    tables: &family::COMPRESSED,
    create: family::create,
    session: references::session,
    expect_right: family::expect_right,
};

pub fn run(
    tree: &Arc<Tree>,
    report: &mut Report,
    seconds: u64,
    seed: u64,
    which: &str,
) -> Result<()> {
    println!("keys: seed {seed}, {seconds} s each");
    let mut cluster = Cluster::create(tree, &["deadlock_timeout = '100ms'"])?;
    let mut client = cluster.database("keys")?;
    let conninfo = cluster.conninfo("keys");
    for mode in MODES {
        if which == mode.title || which == "all" {
            (mode.create)(&mut client)?;
            mode.run(report, &conninfo, seconds, seed)?;
        }
    }
    drop(client);
    if which == "killed" || which == "all" {
        let kills = seconds.div_ceil(SECONDS_PER_KILL);
        killed::run(&mut cluster, report, &REFERENCES, kills, seed)?;
    }
    Ok(())
}

impl Mode {
    /// Lets the sessions work, compacts, and compares, until the time is over or something is wrong.
    fn run(&self, report: &mut Report, conninfo: &str, seconds: u64, seed: u64) -> Result<()> {
        let title = self.title;
        let (work, snapshots) = round::work_beside(self, conninfo, seed, |over| {
            self.watch(conninfo, seconds, over)
        });
        println!(
            "keys/{title}: {:?}, {:?}, snapshots {:?}",
            work.tally,
            work.compactions,
            snapshots.as_ref().ok()
        );
        let ended = |failure: Option<round::Failure>| {
            failure.map_or(Ok(()), |failure| Err(failure.text.into()))
        };
        report.check(
            &format!("keys/{title}: no session met an error"),
            ended(work.sessions.into_iter().next()),
        );
        report.check(
            &format!("keys/{title}: compact met no error"),
            ended(work.compact),
        );
        report.check(
            &format!("keys/{title}: right in every snapshot"),
            snapshots.map(|_| ()),
        );
        let mut client = Client::connect(conninfo, NoTls)?;
        report.check(
            &format!("keys/{title}: right in the end"),
            (self.expect_right)(&mut client),
        );
        report.check(
            &format!("keys/{title}: verified in the end"),
            self.expect_verified(&mut client),
        );
        Ok(())
    }

    /// Looks at one snapshot after another, until the time is over or a session has ended; returns how many there were.
    fn watch(&self, conninfo: &str, seconds: u64, over: &dyn Fn() -> bool) -> Result<u64> {
        let deadline = Instant::now() + Duration::from_secs(seconds);
        let mut client = Client::connect(conninfo, NoTls)?;
        let mut snapshots = 0;
        while Instant::now() < deadline && !over() {
            thread::sleep(Duration::from_millis(300));
            client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
            (self.expect_right)(&mut client)?;
            client.batch_execute("ROLLBACK")?;
            snapshots += 1;
        }
        Ok(snapshots)
    }

    fn expect_verified(&self, client: &mut Client) -> Result<()> {
        self.tables
            .iter()
            .try_for_each(|table| heap_pair::expect_verified(client, table))
    }

    fn expect_right_and_verified(&self, client: &mut Client) -> Result<()> {
        (self.expect_right)(client)?;
        self.expect_verified(client)
    }
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
