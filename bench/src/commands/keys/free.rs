//! Sessions that do not hold back.

use super::{create_table, ledger, state_of, time, Tally, DEVICES, TIMES};
use crate::heap_pair::access_method;
use crate::random::Random;
use crate::Result;
use postgres::{Client, NoTls};
use std::sync::atomic::{AtomicBool, Ordering};

pub fn create(client: &mut Client) -> Result<()> {
    create_table(client, "free", &access_method())?;
    Ok(client.batch_execute(
        "CREATE TABLE free_ledger(device int, time timestamptz, value bigint, n int);
         CREATE FUNCTION enter() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF TG_OP <> 'INSERT' THEN INSERT INTO free_ledger VALUES (OLD.device, OLD.time, OLD.value, -1); END IF;
             IF TG_OP <> 'DELETE' THEN INSERT INTO free_ledger VALUES (NEW.device, NEW.time, NEW.value, 1); END IF;
             RETURN NULL;
         END $$;
         CREATE TRIGGER enter AFTER INSERT OR UPDATE OR DELETE ON free FOR EACH ROW EXECUTE FUNCTION enter()",
    )?)
}

pub fn session(conninfo: &str, seed: u64, stop: &AtomicBool, tally: &mut Tally) -> Result<()> {
    let mut client = Client::connect(conninfo, NoTls)?;
    let mut random = Random::new(seed);
    while !stop.load(Ordering::Relaxed) {
        let lone = random.one_in(2);
        let repeatable = !lone && random.one_in(4);
        if !lone {
            let level = if repeatable {
                "REPEATABLE READ"
            } else {
                "READ COMMITTED"
            };
            client.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}"))?;
        }
        let count = if lone { 1 } else { random.integer(1, 5) };
        let mut ended = false;
        for _ in 0..count {
            let sql = statement(&mut random, lone);
            let saved = !lone && random.one_in(3);
            if saved {
                client.batch_execute("SAVEPOINT s")?;
            }
            let Err(error) = client.batch_execute(&sql) else {
                if saved {
                    client.batch_execute(if random.one_in(3) {
                        "ROLLBACK TO s"
                    } else {
                        "RELEASE s"
                    })?;
                }
                continue;
            };
            let shown = error.to_string();
            let detail = error
                .as_db_error()
                .and_then(|e| e.detail())
                .unwrap_or_default()
                .to_string();
            match state_of(error)?.as_str() {
                "23505" => tally.taken += 1,
                "40P01" => tally.deadlocks += 1,
                "40001" if repeatable => tally.serialization += 1,
                _ => return Err(format!("{sql}: {shown} {detail}").into()),
            }
            if saved && random.one_in(2) {
                client.batch_execute("ROLLBACK TO s")?;
                continue;
            }
            ended = true;
            break;
        }
        tally.committed += u64::from(!ended);
        if !lone {
            let undone = ended || random.one_in(6);
            client.batch_execute(if undone { "ROLLBACK" } else { "COMMIT" })?;
        }
    }
    Ok(())
}

/// `lone`: of one row only.
fn statement(random: &mut Random, lone: bool) -> String {
    let device = random.integer(0, DEVICES);
    let (at, other) = (random.integer(0, TIMES), random.integer(0, TIMES));
    let value = random.integer(0, 1000);
    let (here, there) = (time(at), time(other));
    let key = format!("device = {device} AND time = {here}");
    let row = format!("({device}, {here}, {value})");
    match random.integer(0, if lone { 16 } else { 20 }) {
        0..=3 => format!("INSERT INTO free VALUES {row}"),
        4..=5 => format!("INSERT INTO free VALUES {row} ON CONFLICT DO NOTHING"),
        6..=8 => format!("INSERT INTO free VALUES {row} ON CONFLICT (device, time) DO UPDATE SET value = free.value + EXCLUDED.value"),
        9..=10 => format!("UPDATE free SET value = value + 1 WHERE {key}"),
        11 => format!("UPDATE free SET time = {there} WHERE {key}"),
        12..=14 => format!("DELETE FROM free WHERE {key}"),
        15 => format!("SELECT * FROM free WHERE {key} FOR UPDATE"),
        16 => format!("INSERT INTO free SELECT {device}, {here} + g * interval '1 s', {value} FROM generate_series(0, 20) g ON CONFLICT DO NOTHING"),
        17 => format!("DELETE FROM free WHERE device = {device} AND time BETWEEN {here} AND {here} + interval '20 s'"),
        18 => format!("INSERT INTO free SELECT {device}, {here} + g * interval '1 s', {value} FROM generate_series(0, 20) g ON CONFLICT (device, time) DO UPDATE SET value = EXCLUDED.value"),
        _ => format!("UPDATE free SET value = value + 1 WHERE device = {device} AND time BETWEEN {here} AND {here} + interval '20 s'"),
    }
}

/// The table is what the ledger says, and has each key once.
pub fn expect_right(client: &mut Client) -> Result<()> {
    ledger::expect_right(client, "free")
}
