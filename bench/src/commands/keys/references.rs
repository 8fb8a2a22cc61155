//! Sessions whose rows refer to each other: parents and children come, go and move, whatever the other sessions do.

use super::family::{Child, CHILDREN};
use super::{time, Tally, DEVICES, TIMES};
use crate::errors::{describe, is_end_of_server};
use crate::heap_pair::access_method;
use crate::random::Random;
use crate::Result;
use postgres::{Client, NoTls};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub fn session(conninfo: &str, seed: u64, stop: &AtomicBool, tally: &mut Tally) -> Result<()> {
    let mut client = Client::connect(conninfo, NoTls)?;
    // Who waits for ever is wrong as well. Many wait for each other: they are to lose no time by it.
    client.batch_execute("SET statement_timeout = '60s'; SET deadlock_timeout = '20ms'")?;
    let mut random = Random::new(seed);
    while !stop.load(Ordering::Relaxed) {
        if access_method() == "varve" {
            // Parents go into chunks all of them, many, or none.
            let rows = *random.pick(&[1, 1, 10, 1000]);
            client.batch_execute(&format!("SET varve.batch_rows = {rows}"))?;
        }
        transaction(&mut client, &mut random, tally)?;
    }
    Ok(())
}

fn transaction(client: &mut Client, random: &mut Random, tally: &mut Tally) -> Result<()> {
    let repeatable = random.one_in(3);
    let level = if repeatable {
        "REPEATABLE READ"
    } else {
        "READ COMMITTED"
    };
    client.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}"))?;
    for _ in 0..random.integer(1, 6) {
        let statement = statement(random);
        let saved = random.one_in(2);
        if saved {
            client.batch_execute("SAVEPOINT s")?;
        }
        let outcome = client.batch_execute(&statement);
        let failed = outcome.is_err();
        note(outcome, &statement, repeatable, tally)?;
        match (saved, failed) {
            (false, false) => {}
            (false, true) => return Ok(client.batch_execute("ROLLBACK")?),
            (true, false) if random.one_in(3) => client.batch_execute("ROLLBACK TO s")?,
            (true, false) => client.batch_execute("RELEASE s")?,
            (true, true) => client.batch_execute("ROLLBACK TO s")?,
        }
    }
    if random.one_in(6) {
        return Ok(client.batch_execute("ROLLBACK")?);
    }
    if random.one_in(3) {
        // What is still to be checked, and others wait for, lives through what they do meanwhile: no snapshot protects it now.
        thread::sleep(Duration::from_millis(random.integer(5, 60) as u64));
    }
    let outcome = client.batch_execute("COMMIT");
    tally.committed += u64::from(outcome.is_ok());
    note(outcome, "COMMIT", repeatable, tally)
}

/// Counts an error that these statements may end in; any other is passed on.
fn note(
    outcome: std::result::Result<(), postgres::Error>,
    statement: &str,
    repeatable: bool,
    tally: &mut Tally,
) -> Result<()> {
    let Err(error) = outcome else { return Ok(()) };
    match error.code().map_or("", |state| state.code()) {
        "23503" => tally.refused += 1,
        "23505" => tally.taken += 1,
        "40P01" => tally.deadlocks += 1,
        "40001" if repeatable => tally.serialization += 1,
        _ if is_end_of_server(&error) => return Err(error.into()),
        _ => return Err(format!("{statement}: {}", describe(&error)).into()),
    }
    Ok(())
}

fn statement(random: &mut Random) -> String {
    // Children that are in the way of their parents are few.
    let child = &CHILDREN[*random.pick(&[0, 0, 0, 1, 1, 2, 3, 4, 4])];
    let key = Key::draw(random);
    match random.integer(0, 21) {
        0..=6 => parents_come(random, child.parent, &key),
        7..=12 => parents_go(random, child.parent, &key),
        13..=18 => children(random, child, &key),
        19 => both_come(random, child, &key),
        _ => both_go(random, child, &key),
    }
}

/// A parent's key, as SQL, and a few that follow.
struct Key {
    device: i64,
    time: String,
    several: i64,
}

impl Key {
    fn draw(random: &mut Random) -> Self {
        let several = *random.pick(&[1, 1, 2, 2, 4, 4, 20]);
        let random = if random.one_in(2) {
            &mut Random::new(fashion())
        } else {
            random
        };
        Self {
            device: random.integer(0, DEVICES),
            time: time(random.integer(0, TIMES)),
            several,
        }
    }

    fn is(&self) -> String {
        format!("device = {} AND time = {}", self.device, self.time)
    }

    fn is_near(&self) -> String {
        format!(
            "device = {} AND time BETWEEN {1} AND {1} + interval '{2} s'",
            self.device, self.time, self.several
        )
    }
}

/// A seed that is everybody's for a moment: many want the same key then, one that was left in peace, and compressed, before.
fn fashion() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_millis() as u64 / 250)
}

fn parents_come(random: &mut Random, parent: &str, key: &Key) -> String {
    let Key {
        device,
        time,
        several,
    } = key;
    let value = random.integer(0, 1000);
    let logged = |insert: String| {
        format!("WITH c AS ({insert} RETURNING *) INSERT INTO {parent}_ledger SELECT *, 1 FROM c WHERE value < 1000")
    };
    let rows = |microseconds: i64| {
        format!("SELECT {device}, {time} + g * interval '{microseconds} us', {value} FROM generate_series(1, {several}) g")
    };
    match random.integer(0, 6) {
        0..=1 => logged(format!("INSERT INTO {parent} VALUES ({device}, {time}, {value})")),
        2 => logged(format!("INSERT INTO {parent} {} ON CONFLICT DO NOTHING", rows(1_000_000))),
        // A row that was there has its line from the trigger.
        3 => logged(format!("INSERT INTO {parent} VALUES ({device}, {time}, {value}) ON CONFLICT (device, time) DO UPDATE SET value = 1000 + EXCLUDED.value")),
        // Without a conflict a batch writes chunks: seldom where others are, mostly between them.
        n => {
            let rows = rows(if n == 4 { 1_000_000 } else { 1 + value });
            format!("INSERT INTO {parent} {rows}; INSERT INTO {parent}_ledger SELECT *, 1 FROM ({rows}) r")
        }
    }
}

fn parents_go(random: &mut Random, parent: &str, key: &Key) -> String {
    let (one, near) = (key.is(), key.is_near());
    let there = time(random.integer(0, TIMES));
    match random.integer(0, 11) {
        0..=1 => format!("DELETE FROM {parent} WHERE {one}"),
        2..=3 => format!("DELETE FROM {parent} WHERE {near}"),
        4 => format!("UPDATE {parent} SET time = {there} WHERE {one}"),
        5 => format!("UPDATE {parent} SET time = time + interval '25 s' WHERE {near}"),
        6..=7 => format!("UPDATE {parent} SET value = value + 1 WHERE {one}"),
        8 => format!("UPDATE {parent} SET value = value + 1 WHERE {near}"),
        9 => format!("SELECT * FROM {parent} WHERE {one} FOR UPDATE"),
        _ => format!("SELECT * FROM {parent} WHERE {near} FOR KEY SHARE"),
    }
}

fn children(random: &mut Random, child: &Child, key: &Key) -> String {
    let Child { table, parent, .. } = child;
    let Key {
        device,
        time: parent_time,
        several,
    } = key;
    let (place, at) = (random.integer(0, DEVICES), time(random.integer(0, TIMES)));
    let value = random.integer(0, 1000);
    let own = format!("place = {place} AND at BETWEEN {at} AND {at} + interval '{several} s'");
    match random.integer(0, 10) {
        0..=1 => format!("INSERT INTO {table} VALUES ({place}, {at}, {device}, {parent_time}, {value})"),
        2..=3 => format!(
            "INSERT INTO {table} SELECT {place}, {at} + (time - {parent_time}), device, time, {value} FROM {parent} WHERE {} ON CONFLICT DO NOTHING",
            key.is_near()
        ),
        4 => format!("UPDATE {table} SET device = {device}, time = {parent_time} WHERE place = {place} AND at = {at}"),
        5 => format!("UPDATE {table} SET value = value + 1 WHERE {own}"),
        6 => format!("UPDATE {table} SET place = (place + 1) % {DEVICES} WHERE {}", key.is()),
        7..=8 => format!("DELETE FROM {table} WHERE {own}"),
        _ => format!("DELETE FROM {table} WHERE {}", key.is_near()),
    }
}

/// A parent with its child, which comes first where that is checked late.
fn both_come(random: &mut Random, child: &Child, key: &Key) -> String {
    let Key { device, time, .. } = key;
    let Child { table, parent, .. } = child;
    let value = random.integer(0, 1000);
    let place = random.integer(0, DEVICES);
    let parent = format!("INSERT INTO {parent} VALUES ({device}, {time}, {value}); INSERT INTO {parent}_ledger VALUES ({device}, {time}, {value}, 1)");
    let child = format!("INSERT INTO {table} VALUES ({place}, {time}, {device}, {time}, {value})");
    if random.one_in(2) {
        format!("{child}; {parent}")
    } else {
        format!("{parent}; {child}")
    }
}

/// A parent and its children, first or last.
fn both_go(random: &mut Random, child: &Child, key: &Key) -> String {
    let near = key.is_near();
    let parent = format!("DELETE FROM {} WHERE {near}", child.parent);
    let child = format!("DELETE FROM {} WHERE {near}", child.table);
    match random.integer(0, 4) {
        0..=1 => format!("{child}; {parent}"),
        2 => format!("{parent}; {child}"),
        _ => format!("{child}; {parent}; SET CONSTRAINTS ALL IMMEDIATE"),
    }
}
