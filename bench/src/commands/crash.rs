//! kill -9 of the postmaster at random moments, while sessions COPY, insert, update, delete and compact. Each transaction
//! makes its changes to the varve table and to a heap twin, and notes itself in a journal; clients remember what was
//! acknowledged. After recovery the twins must be equal, every acknowledged transaction there, and `varve.verify` empty.

use crate::random::Random;
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::twins::{self, Workload, HEAP, VARVE};
use crate::Result;
use postgres::{Client, NoTls};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const WRITERS: i64 = 3;
const DEVICES_PER_WRITER: i64 = 10;
const MOST_ROWS: i64 = 400_000;

pub fn run(tree: &Arc<Tree>, report: &mut Report, rounds: u64, seed: u64) -> Result<()> {
    println!("crash: seed {seed}");
    let mut random = Random::new(seed);
    let mut cluster = Cluster::create(tree, &["checkpoint_timeout = '30s'"])?;
    let mut client = cluster.database("crash")?;
    twins::create(&mut client)?;
    client.batch_execute("CREATE TABLE journal(writer bigint, number bigint)")?;
    drop(client);
    for round in 1..=rounds {
        let outcome = one_round(
            &mut cluster,
            random.bits(),
            random.integer(200, 2_500) as u64,
        );
        let broken = outcome.is_err();
        report.check(&format!("crash/round {round}"), outcome);
        if broken {
            println!("{}", cluster.log_end()?);
            return Ok(());
        }
    }
    report.check("crash/clean restart", clean_restart(&mut cluster));
    Ok(())
}

fn clean_restart(cluster: &mut Cluster) -> Result<()> {
    cluster.stop()?;
    cluster.start()?;
    let mut client = cluster.connect("crash")?;
    twins::expect_equal(&mut client, HEAP, VARVE)?;
    twins::expect_verified(&mut client, VARVE)
}

fn one_round(cluster: &mut Cluster, seed: u64, milliseconds: u64) -> Result<()> {
    let mut sessions: Vec<thread::JoinHandle<std::result::Result<Vec<i64>, String>>> = Vec::new();
    for writer in 0..WRITERS {
        let conninfo = cluster.conninfo("crash");
        sessions.push(thread::spawn(move || {
            write_until_killed(&conninfo, seed, writer)
        }));
    }
    let conninfo = cluster.conninfo("crash");
    sessions.push(thread::spawn(move || compact_until_killed(&conninfo)));
    thread::sleep(Duration::from_millis(milliseconds));
    cluster.kill()?;
    let mut acknowledged = Vec::new();
    for session in sessions {
        acknowledged.push(
            session
                .join()
                .map_err(|_| "a session's thread panicked")??,
        );
    }
    cluster.start()?;
    let mut client = cluster.connect("crash")?;
    for (writer, numbers) in acknowledged.iter().enumerate() {
        let there = "SELECT count(*) FROM journal WHERE writer = $1 AND number = ANY ($2)";
        let found: i64 = client
            .query_one(there, &[&(writer as i64), numbers])?
            .get(0);
        if found != numbers.len() as i64 {
            return Err(format!(
                "writer {writer}: {} of {} committed transactions are gone",
                numbers.len() as i64 - found,
                numbers.len()
            )
            .into());
        }
    }
    twins::expect_equal(&mut client, HEAP, VARVE)?;
    twins::expect_verified(&mut client, VARVE)?;
    let rows: i64 = client
        .query_one(&format!("SELECT count(*) FROM {VARVE}"), &[])?
        .get(0);
    if rows > MOST_ROWS {
        twins::both(&mut client, "DELETE FROM {t} WHERE seq % 4 <> 0")?;
    }
    client.batch_execute("TRUNCATE journal")?;
    Ok(())
}

/// The numbers of the transactions whose commit was acknowledged; an error where the server reported one of its own.
fn write_until_killed(
    conninfo: &str,
    seed: u64,
    writer: i64,
) -> std::result::Result<Vec<i64>, String> {
    let mut workload = Workload::new(
        seed ^ writer as u64,
        writer * DEVICES_PER_WRITER,
        DEVICES_PER_WRITER,
    );
    let mut client = Client::connect(conninfo, NoTls).map_err(|e| e.to_string())?;
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let undone = workload.random.one_in(10);
        let outcome = transaction(&mut client, &mut workload, writer, number, undone);
        match outcome {
            Ok(()) if undone => {}
            Ok(()) => acknowledged.push(number),
            Err(error) if is_from_server(error.as_ref()) => {
                return Err(format!(
                    "writer {writer}: {}",
                    crate::report::describe(error.as_ref())
                ))
            }
            Err(_) => break,
        }
    }
    Ok(acknowledged)
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

fn compact_until_killed(conninfo: &str) -> std::result::Result<Vec<i64>, String> {
    let mut client = Client::connect(conninfo, NoTls).map_err(|e| e.to_string())?;
    loop {
        match twins::compact(&mut client, VARVE) {
            Ok(()) => thread::sleep(Duration::from_millis(50)),
            Err(error) if is_from_server(error.as_ref()) => {
                return Err(format!(
                    "compact: {}",
                    crate::report::describe(error.as_ref())
                ))
            }
            Err(_) => return Ok(Vec::new()),
        }
    }
}

/// A server that dies may still say so (class 57P); that is no error of a statement.
fn is_from_server(error: &(dyn std::error::Error + 'static)) -> bool {
    let code = error
        .downcast_ref::<postgres::Error>()
        .and_then(|e| e.code());
    code.is_some_and(|code| !code.code().starts_with("57P"))
}
