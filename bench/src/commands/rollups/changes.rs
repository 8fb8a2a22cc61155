//! Random transactions of a session: changes of rows, and of the table.

use super::tables::{self, Mode, PARTITIONS, ROLLUPS};
use super::Shared;
use crate::random::Random;
use crate::Result;
use postgres::{Client, Statement};
use std::sync::atomic::Ordering;

/// Rows come at so many hours, which are five apart.
pub const HOURS: i64 = 192;
const MOST_ROWS: i64 = 1_600;

/// A moment, as SQL.
pub fn at(hour: i64) -> String {
    format!(
        "('2026-01-01'::timestamptz + interval '{} hours')",
        hour * 5
    )
}

pub fn transaction(
    client: &mut Client,
    shared: &Shared,
    random: &mut Random,
    name: &str,
    comparison: &Statement,
) -> Result<()> {
    let level = random.pick(&[
        "READ COMMITTED",
        "READ COMMITTED",
        "REPEATABLE READ",
        "SERIALIZABLE",
    ]);
    client.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}"))?;
    if shared.mode != Mode::Retention && random.one_in(400) {
        client.batch_execute("TRUNCATE readings")?;
    }
    if random.one_in(150) {
        client.batch_execute(random.pick::<&str>(&[
            "ALTER TABLE readings ADD COLUMN IF NOT EXISTS extra int DEFAULT 7",
            "ALTER TABLE readings DROP COLUMN IF EXISTS extra",
        ]))?;
    }
    if shared.mode == Mode::Partitioned && random.one_in(20) {
        let statement = change_of_partitions(random);
        client.batch_execute(&statement)?;
        tables::expect_equal_rollup(client, any_rollup(random), shared.mode)?;
    }
    for _ in 0..random.integer(1, 4) {
        let saved = random.one_in(4);
        if saved {
            client.batch_execute("SAVEPOINT s")?;
        }
        let statement = statement(shared, random);
        client.batch_execute(&statement)?;
        if saved {
            let end = *random.pick(&["ROLLBACK TO s", "RELEASE s"]);
            client.batch_execute(end)?;
        }
        if random.one_in(3) {
            tables::expect_equal_rollup(client, any_rollup(random), shared.mode)?;
        }
    }
    match random.integer(0, 12) {
        0 => client.batch_execute("ROLLBACK")?,
        1 => {
            client.batch_execute(&format!("PREPARE TRANSACTION '{name}'"))?;
            let compared = match random.one_in(2) {
                true => tables::expect_equal_rollup(client, any_rollup(random), shared.mode),
                false => Ok(()),
            };
            let end = random.pick(&["COMMIT", "ROLLBACK"]);
            client.batch_execute(&format!("{end} PREPARED '{name}'"))?;
            compared?;
        }
        _ => client.batch_execute("COMMIT")?,
    }
    tables::expect_equal_as_prepared(client, comparison)?;
    if random.one_in(10) {
        thin_out(client)?;
    }
    Ok(())
}

/// Takes a partition, or puts it back, changed or not; empties it, or makes it anew.
fn change_of_partitions(random: &mut Random) -> String {
    let part = random.integer(0, PARTITIONS);
    let bounds = tables::bounds(part);
    let detach = format!("ALTER TABLE readings DETACH PARTITION part_{part}");
    let attach = format!("ALTER TABLE readings ATTACH PARTITION part_{part} {bounds}");
    match random.integer(0, 6) {
        0 => format!("TRUNCATE part_{part}"),
        1 => format!(
            "DROP TABLE part_{part}; CREATE TABLE part_{part} PARTITION OF readings {bounds} USING varve;
             CREATE INDEX ON part_{part} USING varve (device, time)"
        ),
        2 => format!("{detach}; DELETE FROM part_{part} WHERE value % 3 = 0; {attach}"),
        _ => format!(
            "DO $$ BEGIN
                 IF EXISTS (SELECT FROM pg_inherits WHERE inhrelid = 'part_{part}'::regclass) THEN {detach}; ELSE {attach}; END IF;
             END $$"
        ),
    }
}

fn any_rollup(random: &mut Random) -> usize {
    random.integer(0, ROLLUPS.len() as i64) as usize
}

/// A random change. Most rows come at the newest time, some late.
fn statement(shared: &Shared, random: &mut Random) -> String {
    let device = random.integer(0, 7);
    let newest = shared.newest.load(Ordering::Relaxed) as i64;
    let hour = random.integer(0, HOURS);
    let rows = |from: i64, count: i64| {
        format!(
            "INSERT INTO readings SELECT {} + i * interval '47 seconds', 'd{device}', i % 29, i % 64 / 4.0
             FROM generate_series(1, {count}) i",
            at(from)
        )
    };
    match random.integer(0, 10) {
        0..=2 => {
            if random.one_in(8) {
                shared.newest.fetch_add(1, Ordering::Relaxed);
            }
            rows(newest, random.integer(1, 20))
        }
        3 => rows(hour, random.integer(1, 5)),
        4 if random.one_in(5) => rows(hour, random.integer(500, 600)),
        5 => format!(
            "UPDATE readings SET value = value + 1 WHERE device = 'd{device}' AND time >= {} AND time < {}",
            at(hour),
            at(hour + 2)
        ),
        6 => format!(
            "UPDATE readings SET time = time + interval '{} hours' WHERE device = 'd{device}' AND time >= {} AND time < {}",
            random.integer(-30, 30),
            at(hour),
            at(hour + 1)
        ),
        7 | 8 => format!(
            "DELETE FROM readings WHERE device = 'd{device}' AND time >= {} AND time < {}",
            at(hour),
            at(hour + random.integer(1, 4))
        ),
        _ => format!(
            "DO $$ BEGIN {}; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN {}; END $$",
            rows(hour, 3),
            rows(newest, 2)
        ),
    }
}

/// Keeps comparing quick.
fn thin_out(client: &mut Client) -> Result<()> {
    let rows: i64 = client
        .query_one("SELECT count(*) FROM readings", &[])?
        .get(0);
    if rows > MOST_ROWS {
        client.batch_execute("DELETE FROM readings WHERE value % 4 <> 0")?;
    }
    Ok(())
}
