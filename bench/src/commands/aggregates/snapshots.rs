//! Random queries in snapshots that live on while others change the table, load into it and compact it. Each writer changes a heap and its varve twin in
//! one transaction, so that both answer alike in any snapshot.

use super::query::Query;
use super::table::{Column, Table};
use super::Counts;
use crate::random::Random;
use crate::server::Cluster;
use crate::Result;
use postgres::{Client, NoTls};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const WRITERS: i64 = 2;
/// Queries of a snapshot.
const QUERIES_EACH: usize = 10;
const COLUMNS: [(&str, &str); 6] = [
    ("id", "int"),
    ("t", "timestamptz"),
    ("k0", "int"),
    ("x0", "float8"),
    ("x1", "bigint"),
    ("x2", "text"),
];
const ROWS: &str = "SELECT i, timestamptz '2024-03-30 12:00:00Z' + i / 9 * interval '1 minute', i % 9, (i * 7 % 1000) / 8.0, i % 50, 'w' || i % 4";

pub(super) fn run(cluster: &Cluster, seconds: u64, seed: u64, counts: &mut Counts) -> Result<()> {
    let mut client = cluster.database("snapshots")?;
    let list: Vec<String> = COLUMNS.iter().map(|(n, t)| format!("{n} {t}")).collect();
    let list = list.join(", ");
    let method = crate::heap_pair::access_method();
    let is_varve = method == "varve";
    client.batch_execute(&format!(
        "ALTER DATABASE snapshots SET timezone = 'UTC'; SET timezone = 'UTC';
         CREATE TABLE h ({list}); CREATE TABLE v ({list}) USING {method};
         CREATE INDEX ON v USING {} (k0, t);
         CREATE TABLE p (number int, wide bigint, series text, weight int);
         INSERT INTO p SELECT g % 5, g % 5, 'w' || g % 5, g FROM generate_series(1, 8) g;
         INSERT INTO h {ROWS} FROM generate_series(0, 19999) i; INSERT INTO v SELECT * FROM h",
        if is_varve { "varve" } else { "btree" }
    ))?;
    let over = AtomicBool::new(false);
    let conninfo = cluster.conninfo("snapshots");
    let (over, conninfo) = (&over, conninfo.as_str());
    thread::scope(|scope| {
        let mut others = Vec::new();
        for writer in 0..WRITERS {
            let random = Random::new(seed.wrapping_add(1 + writer as u64));
            others.push(scope.spawn(move || {
                write(conninfo, random, writer, over).map_err(|error| error.to_string())
            }));
        }
        if is_varve {
            others.push(
                scope.spawn(move || compact(conninfo, over).map_err(|error| error.to_string())),
            );
        }
        let end = Instant::now() + Duration::from_secs(seconds);
        let outcome = read(&mut client, seed, end, counts);
        over.store(true, Ordering::Relaxed);
        for other in others {
            other.join().map_err(|_| "a thread panicked")??;
        }
        outcome
    })
}

fn read(client: &mut Client, seed: u64, end: Instant, counts: &mut Counts) -> Result<()> {
    let columns = COLUMNS.iter().map(|&(name, typ)| Column {
        name: name.into(),
        typ,
        not_null: false,
    });
    let table = Table::made(columns.collect());
    let mut random = Random::new(seed);
    while Instant::now() < end {
        client.batch_execute(
            "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM h LIMIT 1; SAVEPOINT before",
        )?;
        for _ in 0..QUERIES_EACH {
            let query = Query::random(&mut random, &table);
            counts.queries += 1;
            super::check(client, &query, &table, counts)?;
        }
        client.batch_execute("COMMIT")?;
    }
    Ok(())
}

/// Changes rows of its own in both tables, some of them only to undo it.
fn write(conninfo: &str, mut random: Random, writer: i64, over: &AtomicBool) -> Result<()> {
    let mut client = Client::connect(conninfo, NoTls)?;
    client.batch_execute("SET lock_timeout = '5s'; SET deadlock_timeout = '100ms'")?;
    let mut next = 20_000;
    while !over.load(Ordering::Relaxed) {
        let (modulus, rest) = (random.integer(2, 60), random.integer(0, 60));
        let own = format!("id % {WRITERS} = {writer}");
        let change = match random.integer(0, 5) {
            0 => {
                next += 400;
                format!("INSERT INTO {{t}} {ROWS} FROM generate_series({}, {next}) i WHERE i % {WRITERS} = {writer}", next - 400)
            }
            1 => format!("DELETE FROM {{t}} WHERE {own} AND id / 8 % {modulus} = {rest}"),
            2 => {
                format!("UPDATE {{t}} SET x0 = x0 + 1 WHERE {own} AND id / 8 % {modulus} = {rest}")
            }
            3 => format!(
                "UPDATE {{t}} SET k0 = (k0 + 1) % 9 WHERE {own} AND id BETWEEN {0} AND {0} + 30",
                rest * 300
            ),
            _ => format!(
                "DELETE FROM {{t}} WHERE {own} AND k0 = {} AND id < {}",
                rest % 9,
                rest * 40
            ),
        };
        let end = if random.one_in(5) {
            "ROLLBACK"
        } else {
            "COMMIT"
        };
        let both = ["h", "v"]
            .map(|table| change.replace("{t}", table))
            .join("; ");
        // A deadlock with the other writer, or a change of a row that compact has moved, undoes both.
        if client
            .batch_execute(&format!("BEGIN; {both}; {end}"))
            .is_err()
        {
            client.batch_execute("ROLLBACK")?;
        }
    }
    Ok(())
}

fn compact(conninfo: &str, over: &AtomicBool) -> Result<()> {
    let mut client = Client::connect(conninfo, NoTls)?;
    while !over.load(Ordering::Relaxed) {
        client.batch_execute("CALL varve.compact('v')")?;
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
