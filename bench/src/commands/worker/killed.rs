//! kill -9 of the worker, and of the postmaster, while it seals, merges and expires. Sessions write small transactions of rows that
//! stay and of rows that are too old to a varve table and its heap twin. What stays must be equal after recovery, and what is old must not
//! have come back or doubled; in the end all of it goes.

use super::await_true_while;
use crate::errors::{describe, is_end_of_server};
use crate::random::Random;
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::Result;
use postgres::{Client, NoTls};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const WRITERS: u64 = 2;
const DATABASE: &str = "killed";
/// Beyond so many most rows are deleted, or rounds would take longer and longer.
const MOST_ROWS: i64 = 100_000;

pub fn run(tree: &Arc<Tree>, report: &mut Report, rounds: u64, seed: u64) -> Result<()> {
    let settings = [
        "varve.worker = on",
        "varve.seal_rows = 500",
        "varve.seal_after = '0'",
        "varve.batch_rows = 100",
        "checkpoint_timeout = '30s'",
        "autovacuum_naptime = '1s'",
    ];
    let mut cluster = Cluster::create(tree, &settings)?;
    let mut client = cluster.database(DATABASE)?;
    client.batch_execute(
        "CREATE TABLE t(time timestamptz NOT NULL, host int NOT NULL, seq bigint NOT NULL, value float8, PRIMARY KEY (host, time, seq))
         USING varve;
         CREATE INDEX ON t USING varve (host, time);
         CREATE TABLE twin(time timestamptz, host int, seq bigint, value float8);
         SELECT varve.alter_job(varve.set_retention('t', '1 year'), schedule => '100 ms')",
    )?;
    drop(client);
    let mut random = Random::new(seed);
    for round in 1..=rounds {
        let outcome = one_round(&mut cluster, &mut random, round);
        let broken = outcome.is_err();
        report.check(&format!("worker/killed {round}"), outcome);
        if broken {
            println!("worker:\n{}", cluster.log_end()?);
            return Ok(());
        }
    }
    report.check(
        "worker/all is compressed and expired in the end",
        settle(&cluster),
    );
    Ok(())
}

fn one_round(cluster: &mut Cluster, random: &mut Random, round: u64) -> Result<()> {
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (conninfo, seed) = (cluster.conninfo(DATABASE), random.bits());
            let first = ((round * WRITERS + writer) * 1_000_000) as i64;
            thread::spawn(move || write(&conninfo, first, seed))
        })
        .collect();
    thread::sleep(Duration::from_millis(random.integer(800, 3_000) as u64));
    if round.is_multiple_of(2) {
        cluster.kill()?;
        join(writers)?;
        cluster.start()?;
    } else {
        kill_worker(cluster)?;
        join(writers)?;
        cluster.await_restart()?;
    }
    let mut client = cluster.connect(DATABASE)?;
    check(&mut client)?;
    let rows: i64 = client.query_one("SELECT count(*) FROM twin", &[])?.get(0);
    if rows > MOST_ROWS {
        let most = "WHERE seq % 16 <> 0";
        client.batch_execute(&format!(
            "BEGIN; DELETE FROM t {most}; DELETE FROM twin {most}; COMMIT"
        ))?;
        check(&mut client)?;
    }
    Ok(())
}

fn join(writers: Vec<thread::JoinHandle<std::result::Result<(), String>>>) -> Result<()> {
    for writer in writers {
        writer.join().map_err(|_| "a writer panicked")??;
    }
    Ok(())
}

/// The server then ends all sessions and recovers.
fn kill_worker(cluster: &Cluster) -> Result<()> {
    let mut client = cluster.connect(DATABASE)?;
    let worker = super::await_worker(&mut client)?;
    cluster
        .tree
        .program_as_server("pg_ctl")
        .args(["kill", "KILL", &worker.to_string()])
        .status()?;
    // Until it is noticed, the server answers.
    while client.batch_execute("SELECT").is_ok() {
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn write(conninfo: &str, first: i64, seed: u64) -> std::result::Result<(), String> {
    let mut random = Random::new(seed);
    let mut client = Client::connect(conninfo, NoTls).map_err(|e| e.to_string())?;
    let mut seq = first;
    loop {
        let rows = random.integer(1, 60);
        let year = if random.one_in(3) { 2001 } else { 2999 };
        let end = if random.one_in(12) {
            "ROLLBACK"
        } else {
            "COMMIT"
        };
        let source = format!(
            "SELECT '{year}-01-01'::timestamptz + g * interval '1 s', g % 7, g, g / 10.0 FROM generate_series({seq}, {}) g",
            seq + rows - 1
        );
        let outcome = client.batch_execute(&format!(
            "BEGIN; INSERT INTO t {source}; INSERT INTO twin {source}; {end}"
        ));
        match outcome {
            Ok(()) => seq += rows,
            Err(error) if is_end_of_server(&error) => return Ok(()),
            Err(error) => return Err(describe(&error)),
        }
    }
}

/// Rows that stay are the same; those that are too old are each there once, or gone.
fn check(client: &mut Client) -> Result<()> {
    client.batch_execute(
        "BEGIN ISOLATION LEVEL REPEATABLE READ;
         CREATE TEMP TABLE left_over AS
         (SELECT * FROM t WHERE time > '2500-01-01' EXCEPT ALL SELECT * FROM twin)
         UNION ALL (SELECT * FROM twin WHERE time > '2500-01-01' EXCEPT ALL SELECT * FROM t)
         UNION ALL (SELECT * FROM t WHERE time < '2500-01-01' EXCEPT ALL SELECT * FROM twin);
         COMMIT",
    )?;
    let differing: i64 = client
        .query_one("SELECT count(*) FROM left_over", &[])?
        .get(0);
    client.batch_execute("DROP TABLE left_over")?;
    if differing > 0 {
        return Err(format!("{differing} rows differ").into());
    }
    crate::heap_pair::expect_verified(client, "t")
}

fn settle(cluster: &Cluster) -> Result<()> {
    let mut client = cluster.connect(DATABASE)?;
    client.batch_execute("ANALYZE t")?;
    // A job that was killed many times in a row waits for minutes before it tries again, once a worker has seen that it was killed.
    let run_waiting = |client: &mut Client| {
        let waiting = "SELECT id FROM varve.jobs WHERE next_run > now() + interval '20 s'";
        for row in client.query(waiting, &[])? {
            client.batch_execute(&format!("CALL varve.run_job({})", row.get::<_, i64>(0)))?;
        }
        Ok(())
    };
    await_true_while(
        &mut client,
        "compressed and expired",
        "SELECT (SELECT rows < 500 FROM varve.stats('t') WHERE part = 'tail') AND NOT EXISTS (SELECT FROM t WHERE time < '2500-01-01')",
        run_waiting,
    )?;
    check(&mut client)
}
