//! kill -9 of the postmaster at random moments, while sessions COPY, insert, update, delete and compact. Each transaction
//! makes its changes to a varve table and to its heap twin, of pairs with and without a key, and notes itself in a journal; clients remember what was
//! acknowledged. After recovery the twins must be equal, every acknowledged transaction there, and `varve.verify` empty.
//! Writers change many rows of chunks that they share, so two of them can deadlock (docs/design/0010): one then begins anew.

use crate::errors::{describe, is_conflict, is_end_of_server};
use crate::heap_pair::{self, PAIRS};
use crate::random::Random;
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::workload::Workload;
use crate::Result;
use postgres::{Client, NoTls};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const WRITERS: i64 = 3;
const DEVICES_PER_WRITER: i64 = 10;
const MOST_ROWS: i64 = 150_000;

/// What a session did until the server died: the numbers of the transactions whose commit was acknowledged, and how many
/// transactions a conflict with another session ended.
#[derive(Default)]
struct Written {
    acknowledged: Vec<i64>,
    conflicts: u64,
}

pub fn run(tree: &Arc<Tree>, report: &mut Report, rounds: u64, seed: u64) -> Result<()> {
    println!("crash: seed {seed}");
    let mut random = Random::new(seed);
    let settings = ["checkpoint_timeout = '30s'", "deadlock_timeout = '100ms'"];
    let mut cluster = Cluster::create(tree, &settings)?;
    let mut client = cluster.database("crash")?;
    PAIRS.iter().try_for_each(|pair| pair.create(&mut client))?;
    client.batch_execute("CREATE TABLE journal(writer bigint, number bigint)")?;
    drop(client);
    let (mut committed, mut conflicts) = (0, 0);
    for round in 1..=rounds {
        let milliseconds = random.integer(200, 2_500) as u64;
        let outcome = one_round(&mut cluster, round, random.bits(), milliseconds);
        let broken = outcome.is_err();
        let outcome = outcome.map(|written| {
            committed += written.acknowledged.len();
            conflicts += written.conflicts;
        });
        report.check(&format!("crash/round {round}"), outcome);
        if broken {
            println!("crash:\n{}", cluster.log_end()?);
            return Ok(());
        }
    }
    println!("crash: {committed} transactions committed, {conflicts} ended by a conflict");
    report.check("crash/clean restart", clean_restart(&mut cluster));
    Ok(())
}

fn clean_restart(cluster: &mut Cluster) -> Result<()> {
    cluster.stop()?;
    cluster.start()?;
    let mut client = cluster.connect("crash")?;
    PAIRS
        .iter()
        .try_for_each(|pair| pair.expect_right(&mut client))
}

/// Writes, kills, recovers and compares; returns what all writers did.
fn one_round(cluster: &mut Cluster, round: u64, seed: u64, milliseconds: u64) -> Result<Written> {
    let sessions: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let conninfo = cluster.conninfo("crash");
            let workload = Workload::new(
                seed ^ writer as u64,
                writer * DEVICES_PER_WRITER,
                DEVICES_PER_WRITER,
            )
            .with_keys(round as i64 * WRITERS + writer);
            thread::spawn(move || write_until_killed(&conninfo, workload, writer))
        })
        .collect();
    let conninfo = cluster.conninfo("crash");
    let compactor = thread::spawn(move || compact_until_killed(&conninfo));
    thread::sleep(Duration::from_millis(milliseconds));
    cluster.kill()?;
    let mut written = Vec::new();
    for session in sessions {
        written.push(session.join().map_err(|_| "a writer panicked")??);
    }
    compactor.join().map_err(|_| "compact panicked")??;
    cluster.start()?;
    let mut client = cluster.connect("crash")?;
    let mut total = Written::default();
    for (writer, written) in written.into_iter().enumerate() {
        expect_committed(&mut client, writer, &written.acknowledged)?;
        total.acknowledged.extend(written.acknowledged);
        total.conflicts += written.conflicts;
    }
    for pair in PAIRS {
        pair.expect_right(&mut client)?;
        let rows: i64 = client
            .query_one(&format!("SELECT count(*) FROM {}", pair.varve), &[])?
            .get(0);
        if rows > MOST_ROWS {
            pair.both(&mut client, "DELETE FROM {t} WHERE seq % 4 <> 0")?;
        }
    }
    client.batch_execute("TRUNCATE journal")?;
    Ok(total)
}

fn expect_committed(client: &mut Client, writer: usize, numbers: &[i64]) -> Result<()> {
    let there = "SELECT count(*) FROM journal WHERE writer = $1 AND number = ANY ($2)";
    let found: i64 = client
        .query_one(there, &[&(writer as i64), &numbers])?
        .get(0);
    if found == numbers.len() as i64 {
        return Ok(());
    }
    Err(format!(
        "writer {writer}: {} of {} committed transactions are gone",
        numbers.len() as i64 - found,
        numbers.len()
    )
    .into())
}

/// An error where the server reported one that no client must be ready for.
fn write_until_killed(
    conninfo: &str,
    mut workload: Workload,
    writer: i64,
) -> std::result::Result<Written, String> {
    let mut client = Client::connect(conninfo, NoTls).map_err(|e| e.to_string())?;
    let mut written = Written::default();
    for number in 0.. {
        let undone = workload.random.one_in(10);
        let outcome = transaction(&mut client, &mut workload, writer, number, undone);
        match outcome {
            Ok(()) if undone => {}
            Ok(()) => written.acknowledged.push(number),
            Err(error) if is_conflict(error.as_ref()) => {
                written.conflicts += 1;
                // Where this fails, so does the next transaction.
                let _ = client.batch_execute("ROLLBACK");
            }
            Err(error) if is_end_of_server(error.as_ref()) => break,
            Err(error) => return Err(format!("writer {writer}: {}", describe(error.as_ref()))),
        }
    }
    Ok(written)
}

fn transaction(
    client: &mut Client,
    workload: &mut Workload,
    writer: i64,
    number: i64,
    undone: bool,
) -> Result<()> {
    client.batch_execute("BEGIN")?;
    workload.changes(client)?;
    client.execute("INSERT INTO journal VALUES ($1, $2)", &[&writer, &number])?;
    Ok(client.batch_execute(if undone { "ROLLBACK" } else { "COMMIT" })?)
}

fn compact_until_killed(conninfo: &str) -> std::result::Result<(), String> {
    let mut client = Client::connect(conninfo, NoTls).map_err(|e| e.to_string())?;
    loop {
        let outcome = PAIRS
            .iter()
            .try_for_each(|pair| heap_pair::compact(&mut client, pair.varve));
        match outcome {
            Ok(()) => thread::sleep(Duration::from_millis(50)),
            Err(error) if is_end_of_server(error.as_ref()) => return Ok(()),
            Err(error) => return Err(format!("compact: {}", describe(error.as_ref()))),
        }
    }
}
