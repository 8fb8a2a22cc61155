//! Sessions of which one at a time has a key: a statement must end as it ends on a heap.

use super::{create_table, state_of, time, Tally, DEVICES, TIMES};
use crate::heap_pair::{self, access_method};
use crate::random::Random;
use crate::Result;
use postgres::{Client, NoTls};
use std::sync::atomic::{AtomicBool, Ordering};

pub fn create(client: &mut Client) -> Result<()> {
    create_table(client, "twin", &access_method())?;
    create_table(client, "twin_heap", "heap")
}

pub fn expect_equal(client: &mut Client) -> Result<()> {
    heap_pair::expect_equal(client, "twin_heap", "twin")
}

pub fn session(conninfo: &str, seed: u64, stop: &AtomicBool, tally: &mut Tally) -> Result<()> {
    let mut client = Client::connect(conninfo, NoTls)?;
    let mut random = Random::new(seed);
    while !stop.load(Ordering::Relaxed) {
        let level = if random.one_in(4) {
            "REPEATABLE READ"
        } else {
            "READ COMMITTED"
        };
        if access_method() == "varve" {
            let rows = if random.one_in(2) { 1 } else { 500 };
            client.batch_execute(&format!("SET varve.batch_rows = {rows}"))?;
        }
        client.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}"))?;
        let mut conflict = false;
        for _ in 0..random.integer(1, 5) {
            conflict = !step(&mut client, &mut random, tally)?;
            if conflict {
                break;
            }
        }
        let undone = conflict || random.one_in(6);
        client.batch_execute(if undone { "ROLLBACK" } else { "COMMIT" })?;
        tally.committed += u64::from(!undone);
    }
    Ok(())
}

/// One statement on both tables; false where it could not be serialized.
fn step(client: &mut Client, random: &mut Random, tally: &mut Tally) -> Result<bool> {
    let device = random.integer(0, DEVICES);
    let (at, other) = (random.integer(0, TIMES), random.integer(0, TIMES));
    for key in [at, other] {
        let ours: bool = client
            .query_one(
                "SELECT pg_try_advisory_xact_lock($1)",
                &[&(device * TIMES + key)],
            )?
            .get(0);
        if !ours {
            return Ok(true);
        }
    }
    let value = random.integer(0, 1000);
    let sql = statement(random, device, at, other, value);
    let saved = random.one_in(4);
    if saved {
        client.batch_execute("SAVEPOINT outer_s")?;
    }
    let on_varve = outcome(client, &sql.replace("{t}", "twin"))?;
    if on_varve.1 == "40001" || on_varve.1 == "40P01" {
        tally.serialization += u64::from(on_varve.1 == "40001");
        tally.deadlocks += u64::from(on_varve.1 == "40P01");
        return Ok(false);
    }
    let on_heap = outcome(client, &sql.replace("{t}", "twin_heap"))?;
    if on_heap.1 == "40001" && sees_twice(client, device, at)? {
        tally.serialization += 1;
        return Ok(false);
    }
    if on_varve != on_heap {
        return Err(format!("{sql}: {on_varve:?}, on a heap {on_heap:?}").into());
    }
    tally.taken += u64::from(on_heap.1 == "23505");
    if saved {
        let end = if random.one_in(2) {
            "ROLLBACK TO outer_s"
        } else {
            "RELEASE outer_s"
        };
        client.batch_execute(end)?;
    }
    Ok(true)
}

/// Does the transaction see two rows of one key: one that another has deleted since its snapshot was taken, and one that it has inserted
/// since? Which of them an UPDATE comes to first, and so which error it meets first, is up to the scan.
fn sees_twice(client: &mut Client, device: i64, at: i64) -> Result<bool> {
    let key = format!("device = {device} AND time = {}", time(at));
    let count = format!("SELECT count(*) > 1 FROM twin_heap WHERE {key}");
    Ok(client.query_one(&count, &[])?.get(0))
}

/// Rows, and the SQLSTATE of a statement that failed; its changes are undone then.
fn outcome(client: &mut Client, sql: &str) -> Result<(u64, String, String)> {
    client.batch_execute("SAVEPOINT s")?;
    match client.execute(sql, &[]) {
        Ok(rows) => {
            client.batch_execute("RELEASE s")?;
            Ok((rows, String::new(), String::new()))
        }
        Err(error) => {
            let detail = error
                .as_db_error()
                .and_then(|e| e.detail())
                .unwrap_or_default()
                .to_string();
            let state = state_of(error)?;
            client.batch_execute("ROLLBACK TO s; RELEASE s")?;
            Ok((0, state, detail))
        }
    }
}

fn statement(random: &mut Random, device: i64, at: i64, other: i64, value: i64) -> String {
    let (here, there) = (time(at), time(other));
    let key = format!("device = {device} AND time = {here}");
    let row = format!("({device}, {here}, {value})");
    match random.integer(0, 17) {
        0..=3 => format!("INSERT INTO {{t}} VALUES {row}"),
        4..=5 => format!("INSERT INTO {{t}} VALUES {row} ON CONFLICT DO NOTHING"),
        6..=8 => format!("INSERT INTO {{t}} AS t VALUES {row}, ({device}, {there}, 1) ON CONFLICT (device, time) DO UPDATE SET value = t.value + EXCLUDED.value"),
        9 => format!("UPDATE {{t}} SET value = value + 1 WHERE {key}"),
        10 => format!("UPDATE {{t}} SET time = {there} WHERE {key}"),
        14..=16 => format!("INSERT INTO {{t}} SELECT {device}, unnest(ARRAY[{here}, {there}]), {value}"),
        11..=12 => format!("DELETE FROM {{t}} WHERE {key}"),
        _ => format!("INSERT INTO {{t}} VALUES {row}, ({device}, {there}, 1)"),
    }
}
