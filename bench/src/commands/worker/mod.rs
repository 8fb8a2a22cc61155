//! The background worker and its jobs, in servers as they are and in those that preload the library: small inserts get
//! compressed, retention is kept, jobs go through dumps, databases can be dropped, and kill -9 of worker or server loses nothing.

mod around;
mod dumped;
mod killed;
mod started;

use crate::report::Report;
use crate::server::Tree;
use crate::waiting;
use crate::Result;
use postgres::Client;
use std::sync::Arc;
use std::time::Duration;

/// How long anything may take that the worker does by itself, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

pub fn run(tree: &Arc<Tree>, report: &mut Report, rounds: u64, seed: u64) -> Result<()> {
    println!("worker: seed {seed}");
    started::run(tree, report)?;
    around::run(tree, report)?;
    dumped::run(tree, report)?;
    killed::run(tree, report, rounds, seed)
}

/// Asks again and again until the answer is yes.
fn await_true(client: &mut Client, what: &str, query: &str) -> Result<()> {
    await_true_while(client, what, query, |_| Ok(()))
}

/// The same, and does something each time before it asks. An error says what jobs there are.
fn await_true_while(
    client: &mut Client,
    what: &str,
    query: &str,
    meanwhile: impl Fn(&mut Client) -> Result<()>,
) -> Result<()> {
    let Err(error) = waiting::await_true_while(client, what, query, PATIENCE, meanwhile) else {
        return Ok(());
    };
    let jobs = client.query("SELECT j::text FROM varve.jobs j", &[])?;
    let jobs: Vec<String> = jobs.iter().map(|row| row.get(0)).collect();
    Err(format!("{error}; jobs: {}", jobs.join(" ")).into())
}

/// The process id of the worker of the client's database, once there is one.
fn await_worker(client: &mut Client) -> Result<i32> {
    let worker = "FROM pg_stat_activity WHERE backend_type = 'varve worker' AND datname = current_database()";
    await_true(client, "a worker", &format!("SELECT count(*) > 0 {worker}"))?;
    // One that leaves may still be there when the next one has come.
    let latest = format!("SELECT pid {worker} ORDER BY backend_start DESC LIMIT 1");
    let row = client.query_opt(&latest, &[])?;
    row.map(|row| row.get(0))
        .ok_or_else(|| "the worker has gone".into())
}
