//! Sessions whose statements bring many keys at once, beside others that bring and take single ones.

use super::{create_table, ledger, state_of, time, Tally, DEVICES, TIMES};
use crate::heap_pair::access_method;
use crate::random::Random;
use crate::Result;
use postgres::{Client, NoTls};
use std::sync::atomic::{AtomicBool, Ordering};

pub fn create(client: &mut Client) -> Result<()> {
    create_table(client, "batches", &access_method())?;
    Ok(client.batch_execute(
        "CREATE TABLE batches_ledger(device int, time timestamptz, value bigint, n int)",
    )?)
}

pub fn expect_right(client: &mut Client) -> Result<()> {
    ledger::expect_right(client, "batches")
}

pub fn session(conninfo: &str, seed: u64, stop: &AtomicBool, tally: &mut Tally) -> Result<()> {
    let mut client = Client::connect(conninfo, NoTls)?;
    let mut random = Random::new(seed);
    while !stop.load(Ordering::Relaxed) {
        if access_method() == "varve" {
            // Into chunks all of them, many, or none.
            let rows = *random.pick(&[1, 1, 10, 1000]);
            client.batch_execute(&format!("SET varve.batch_rows = {rows}"))?;
        }
        let repeatable = random.one_in(5);
        let level = if repeatable {
            "REPEATABLE READ"
        } else {
            "READ COMMITTED"
        };
        client.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}"))?;
        let mut undone = random.one_in(6);
        for _ in 0..random.integer(1, 4) {
            let statements = statements(&mut random);
            client.batch_execute("SAVEPOINT s")?;
            let Err(error) = client.batch_execute(&statements) else {
                let end = if random.one_in(5) {
                    "ROLLBACK TO s"
                } else {
                    "RELEASE s"
                };
                client.batch_execute(end)?;
                continue;
            };
            let shown = crate::errors::describe(&error);
            match state_of(error)?.as_str() {
                "23505" => tally.taken += 1,
                "40P01" => tally.deadlocks += 1,
                "40001" if repeatable => tally.serialization += 1,
                _ => return Err(format!("{statements}: {shown}").into()),
            }
            client.batch_execute("ROLLBACK TO s")?;
            if repeatable || random.one_in(2) {
                undone = true;
                break;
            }
        }
        tally.committed += u64::from(!undone);
        client.batch_execute(if undone { "ROLLBACK" } else { "COMMIT" })?;
    }
    Ok(())
}

/// A change of the table with its lines in the ledger.
fn statements(random: &mut Random) -> String {
    let device = random.integer(0, DEVICES);
    let (here, value) = (time(random.integer(0, TIMES)), random.integer(0, 1000));
    let row = format!("({device}, {here}, {value})");
    let key = format!("device = {device} AND time = {here}");
    let several = random.integer(2, 25);
    let logged = |change: String, n: i64| {
        format!("WITH c AS ({change} RETURNING device, time, value) INSERT INTO batches_ledger SELECT *, {n} FROM c")
    };
    match random.integer(0, 12) {
        0..=4 => {
            let step = random.integer(1, 4);
            let rows = format!("SELECT {device}, {here} + g * interval '{step} s', {value} FROM generate_series(1, {several}) g");
            format!("INSERT INTO batches {rows}; INSERT INTO batches_ledger SELECT *, 1 FROM ({rows}) r")
        }
        5 => {
            let rows = format!("SELECT d, {here}, {value} FROM generate_series(0, {DEVICES} - 1) d");
            format!("INSERT INTO batches {rows}; INSERT INTO batches_ledger SELECT *, 1 FROM ({rows}) r")
        }
        6 => logged(format!("INSERT INTO batches VALUES {row}"), 1),
        7 => logged(format!("INSERT INTO batches VALUES {row} ON CONFLICT DO NOTHING"), 1),
        8 => logged(format!("INSERT INTO batches SELECT {device}, {here} + g * interval '1 s', {value} FROM generate_series(1, {several}) g ON CONFLICT DO NOTHING"), 1),
        9 => logged(format!("DELETE FROM batches WHERE {key}"), -1),
        _ => logged(format!("DELETE FROM batches WHERE device = {device} AND time BETWEEN {here} AND {here} + interval '{several} s'"), -1),
    }
}
