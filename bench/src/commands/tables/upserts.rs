//! Upserts of compressed rows for minutes, of a heap and then of a varve table, the worker on: does the file stay small, and the rate what it is at
//! first, while the worker compacts behind them?

use super::page::{Goal, Judge};
use super::small::{self, per_second, script, SETTINGS, TABLES};
use super::{median, Bench};
use crate::heap_pair;
use crate::measure::total_size;
use crate::server::Cluster;
use crate::Result;
use postgres::Client;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Of a run of pgbench.
const SECONDS: u64 = 30;
/// Between two looks at the size of a table.
const PAUSE: Duration = Duration::from_millis(500);
/// Runs at the beginning, and at the end, that are compared.
const ENDS: usize = 2;

/// What some seconds of upserts had.
struct Turn {
    per_second: f64,
    /// The most that table and indexes had grown by since the first turn began.
    grown: f64,
}

/// So many minutes of each table.
pub fn run(bench: &mut Bench, minutes: usize) -> Result<()> {
    let cluster = Cluster::create(&bench.tree, &SETTINGS)?;
    let mut client = cluster.database("upserts")?;
    small::create(&mut client)?;
    let count = (minutes.max(1) as u64 * 60 / SECONDS) as usize;
    let heap = turns(&cluster, &mut client, TABLES[0].0, count)?;
    let varve = turns(&cluster, &mut client, TABLES[1].0, count)?;
    show(bench, minutes, &heap, &varve);
    let verified = heap_pair::expect_verified(&mut client, TABLES[1].0);
    bench.report.check("tables/upserts verified", verified);
    Ok(())
}

/// Fills a table, has it vacuumed or compacted, and then so many turns one after the other.
fn turns(cluster: &Cluster, client: &mut Client, table: &str, count: usize) -> Result<Vec<Turn>> {
    client.batch_execute(&format!(
        "INSERT INTO {table} SELECT '2026-01-01'::timestamptz + i / 1000 * interval '1 s', i % 1000 + 1, i % 997 / 10.0
         FROM generate_series(0, 599999) i"
    ))?;
    match table == TABLES[1].0 {
        true => heap_pair::compact(client, table)?,
        false => client.batch_execute(&format!("VACUUM {table}"))?,
    }
    let before = total_size(client, table)?;
    let upsert = script("upsert_compressed");
    (0..count)
        .map(|at| {
            println!("{table}: {at} of {count} turns");
            let (per_second, most) = watched(client, table, || {
                per_second(cluster, ("upserts", table), &upsert, SECONDS)
            })?;
            let grown = (most - before) as f64;
            Ok(Turn { per_second, grown })
        })
        .collect()
}

/// Runs `body`, with the most bytes that a table and its indexes have meanwhile.
fn watched<R>(
    client: &mut Client,
    table: &str,
    body: impl FnOnce() -> Result<R>,
) -> Result<(R, i64)> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                let size = total_size(client, table).map_err(|error| error.to_string())?;
                most = most.max(size);
                thread::sleep(PAUSE);
            }
            Ok::<_, String>(most)
        });
        let result = body();
        done.store(true, Ordering::Relaxed);
        let most = watcher.join().map_err(|_| "the watcher panicked")??;
        Ok((result?, most))
    })
}

fn show(bench: &mut Bench, minutes: usize, heap: &[Turn], varve: &[Turn]) {
    let (page, report) = (&mut bench.page, &mut bench.report);
    page.table(
        "Turn by turn",
        &format!(
            "{minutes} minutes of the heap, then of the varve table, 8 clients: upserts of rows that are there (scripts in bench/pgbench), in transactions a \
             second, {SECONDS} seconds a turn. 600,000 rows of 1,000 sensors, primary key (sensor, time), synchronous_commit and full_page_writes off, the \
             worker on. The heap is vacuumed at first, the varve table compacted. Bytes are the most that table and indexes had grown by since then, looked at \
             twice a second."
        ),
        &["turn", "upserts, heap", "varve", "÷", "bytes grown by, heap", "varve"],
        heap.iter().zip(varve).enumerate().map(|(at, (heap, varve))| {
            let ratio = varve.per_second / heap.per_second;
            vec![at as f64 + 1.0, heap.per_second, varve.per_second, ratio, heap.grown, varve.grown]
        }),
    );
    page.section("All of them", "Medians of the turns, and the most of all.");
    let speed = |turns: &[Turn]| median(turns.iter().map(|turn| turn.per_second).collect());
    page.both(
        report,
        "upserts: transactions a second",
        (speed(heap), speed(varve)),
        (Judge::Ratio, Goal::Least(0.6)),
    );
    let (first, last) = (
        &varve[..ENDS.min(varve.len())],
        &varve[varve.len().saturating_sub(ENDS)..],
    );
    page.own(
        report,
        "upserts: transactions a second in the last turns ÷ in the first",
        speed(last) / speed(first),
        Goal::Least(0.8),
    );
    let grown = |turns: &[Turn]| turns.iter().map(|turn| turn.grown).fold(0.0, f64::max);
    page.both(
        report,
        "upserts: bytes grown by",
        (grown(heap), grown(varve)),
        (Judge::Ratio, Goal::Most(3.0)),
    );
}
