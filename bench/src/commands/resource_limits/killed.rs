//! Backends that end in the middle: terminated, or killed, whereupon the server restarts itself; and transactions that were
//! prepared before.

use super::{check, create_twins, rows};
use crate::heap_pair::{self, HEAP, VARVE};
use crate::random::Random;
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::Result;
use postgres::{Client, NoTls};
use std::io::Write as _;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const ENDS: [&str; 2] = ["kill -9", "pg_terminate_backend"];
const WORKS: [&str; 4] = ["copy", "compact", "update", "vacuum full"];

pub fn run(tree: &Arc<Tree>, report: &mut Report, seed: u64) -> Result<()> {
    let mut random = Random::new(seed);
    let settings = ["max_prepared_transactions = 10", "autovacuum = off"];
    let mut cluster = Cluster::create(tree, &settings)?;
    let mut client = cluster.database("killed")?;
    create_twins(&mut client)?;
    for work in WORKS {
        for end in ENDS {
            let outcome = one(&cluster, work, end, &mut random);
            report.check(&format!("resource-limits/{end} during {work}"), outcome);
        }
    }
    let outcome = prepared(&mut cluster);
    report.check(
        "resource-limits/prepared transactions after kill -9",
        outcome,
    );
    Ok(())
}

/// Lets a session work and ends it after a while. The twins must be equal afterwards.
fn one(cluster: &Cluster, work: &str, end: &str, random: &mut Random) -> Result<()> {
    cluster.await_restart()?;
    let mut client = cluster.connect("killed")?;
    // Something to do for compact.
    heap_pair::both(&mut client, "DELETE FROM {t} WHERE seq > 12000")?;
    heap_pair::both(&mut client, &rows("more", 12_001, 40_000))?;
    let mut victim = cluster.connect("killed")?;
    let pid: i32 = victim.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    let name = work.to_string();
    let worker = thread::spawn(move || {
        let _ = labour(&mut victim, &name);
    });
    thread::sleep(Duration::from_millis(random.integer(5, 150) as u64));
    if end == "kill -9" {
        // The program kill is not everywhere.
        let status = cluster
            .tree
            .program_as_server("pg_ctl")
            .args(["kill", "KILL", &pid.to_string()])
            .status()?;
        if !status.success() {
            return Err("the backend is gone already".into());
        }
    } else {
        client.execute("SELECT pg_terminate_backend($1)", &[&pid])?;
    }
    worker.join().map_err(|_| "the worker panicked")?;
    // The server may yet have to notice.
    thread::sleep(Duration::from_millis(50));
    cluster.await_restart()?;
    let mut client = cluster.connect("killed")?;
    check(&mut client)?;
    heap_pair::compact(&mut client, VARVE)?;
    check(&mut client)
}

/// Works until an error. Whatever is changed is never committed to one of the twins only.
fn labour(client: &mut Client, work: &str) -> Result<()> {
    loop {
        match work {
            "copy" => {
                client.batch_execute("BEGIN")?;
                for table in [HEAP, VARVE] {
                    let mut writer = client.copy_in(&format!("COPY {table} FROM STDIN"))?;
                    for row in 0..50_000 {
                        writeln!(
                            writer,
                            "2026-02-01 00:00:00\t{}\t{row}\t{row}.5\t1\tcopied",
                            row % 5
                        )?;
                    }
                    writer.finish()?;
                }
                client.batch_execute("COMMIT")?;
            }
            "compact" => heap_pair::compact(client, VARVE)?,
            "vacuum full" => client.batch_execute(&format!("VACUUM FULL {VARVE}"))?,
            _ => {
                client.batch_execute("BEGIN")?;
                heap_pair::both(client, "UPDATE {t} SET value = value + 1")?;
                client.batch_execute("COMMIT")?;
            }
        }
    }
}

/// Two prepared transactions, of which one commits, survive a crash; compact goes on beside them.
fn prepared(cluster: &mut Cluster) -> Result<()> {
    cluster.await_restart()?;
    let mut client = cluster.connect("killed")?;
    heap_pair::both(&mut client, "TRUNCATE {t}")?;
    heap_pair::both(&mut client, &rows("base", 1, 9_000))?;
    heap_pair::compact(&mut client, VARVE)?;
    for (name, device) in [("commits", 0), ("undone", 1)] {
        client.batch_execute("BEGIN")?;
        let more = rows(name, 20_001, 23_000);
        heap_pair::both(&mut client, &format!("{more} WHERE g % 3 = {device}"))?;
        heap_pair::both(
            &mut client,
            &format!("INSERT INTO {{t}} VALUES ('2026-03-01', {device}, -1, 0.5, 7, '{name}')"),
        )?;
        heap_pair::both(
            &mut client,
            &format!("DELETE FROM {{t}} WHERE device = {device} AND seq % 5 = 0"),
        )?;
        heap_pair::both(
            &mut client,
            &format!("UPDATE {{t}} SET value = 1 WHERE device = {device} AND seq % 7 = 0"),
        )?;
        client.batch_execute(&format!("PREPARE TRANSACTION '{name}'"))?;
    }
    let conninfo = cluster.conninfo("killed");
    let compacting = thread::spawn(move || -> std::result::Result<(), String> {
        let mut client = Client::connect(&conninfo, NoTls).map_err(|error| error.to_string())?;
        let _ = (0..100).try_for_each(|_| heap_pair::compact(&mut client, VARVE));
        Ok(())
    });
    thread::sleep(Duration::from_millis(100));
    cluster.kill()?;
    compacting.join().map_err(|_| "compact panicked")??;
    cluster.start()?;
    let mut client = cluster.connect("killed")?;
    check(&mut client)?;
    heap_pair::compact(&mut client, VARVE)?;
    client.batch_execute("COMMIT PREPARED 'commits'")?;
    check(&mut client)?;
    client.batch_execute("ROLLBACK PREPARED 'undone'")?;
    check(&mut client)?;
    heap_pair::compact(&mut client, VARVE)?;
    check(&mut client)
}
