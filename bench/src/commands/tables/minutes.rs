//! Transactions of a row for minutes, a heap and a varve table in turns, the worker on: does what is quick at first stay so, while chunks are
//! sealed and merged behind it?

use super::page::{Goal, Judge};
use super::small::{self, per_second, script, SETTINGS, TABLES};
use super::{median, Bench};
use crate::heap_pair;
use crate::measure::total_size;
use crate::server::Cluster;
use crate::Result;

/// Of each minute: inserts, then looks at the newest row.
const INSERT_SECONDS: u64 = 55;
const LOOK_SECONDS: u64 = 5;
/// Minutes at the beginning, and at the end, that are compared.
const ENDS: usize = 3;

/// What a minute had: transactions a second of the heap, then of varve.
struct Minute {
    inserts: [f64; 2],
    looks: [f64; 2],
    /// Of varve, after it.
    tail_rows: f64,
    bytes: [f64; 2],
}

/// So many minutes of each table.
pub fn run(bench: &mut Bench, count: usize) -> Result<()> {
    let cluster = Cluster::create(&bench.tree, &SETTINGS)?;
    let mut client = cluster.database("minutes")?;
    small::create(&mut client)?;
    let (insert, look) = (script("insert"), script("last_value"));
    let mut minutes = Vec::new();
    for _ in 0..count.max(1) {
        let (mut inserts, mut looks, mut bytes) = ([0.0; 2], [0.0; 2], [0.0; 2]);
        for (at, (table, _)) in TABLES.iter().enumerate() {
            let of = ("minutes", *table);
            inserts[at] = per_second(&cluster, of, &insert, INSERT_SECONDS)?;
            looks[at] = per_second(&cluster, of, &look, LOOK_SECONDS)?;
            bytes[at] = total_size(&mut client, table)? as f64;
        }
        let tail = client.query_one(
            "SELECT rows FROM varve.stats('small_varve') WHERE part = 'tail'",
            &[],
        )?;
        minutes.push(Minute {
            inserts,
            looks,
            tail_rows: tail.get::<_, i64>(0) as f64,
            bytes,
        });
        println!("{} of {count} minutes", minutes.len());
    }
    show(bench, &minutes);
    let verified = heap_pair::expect_verified(&mut client, TABLES[1].0);
    bench.report.check("tables/minutes verified", verified);
    Ok(())
}

fn show(bench: &mut Bench, minutes: &[Minute]) {
    let (page, report) = (&mut bench.page, &mut bench.report);
    page.table(
        "Minute by minute",
        &format!(
            "{} minutes of each table in turns, 8 clients: {INSERT_SECONDS} seconds of inserts of a row, then {LOOK_SECONDS} seconds of looks at the newest \
             row of a sensor (scripts in bench/pgbench), in transactions a second. Tables are empty at first; primary key (sensor, time), synchronous_commit \
             and full_page_writes off, the worker on.",
            minutes.len()
        ),
        &[
            "minute", "inserts, heap", "varve", "÷", "newest row, heap", "varve", "÷", "rows of the tail", "bytes, heap", "varve",
        ],
        minutes.iter().enumerate().map(|(at, minute)| {
            let ([heap, varve], [heap_looks, varve_looks]) = (minute.inserts, minute.looks);
            vec![
                at as f64 + 1.0,
                heap,
                varve,
                varve / heap,
                heap_looks,
                varve_looks,
                varve_looks / heap_looks,
                minute.tail_rows,
                minute.bytes[0],
                minute.bytes[1],
            ]
        }),
    );
    page.section("All of them", "Medians of the minutes.");
    let both = |of: fn(&Minute) -> [f64; 2]| {
        let side = |at: usize| median(minutes.iter().map(|minute| of(minute)[at]).collect());
        (side(0), side(1))
    };
    let goal = |least: f64| (Judge::Ratio, Goal::Least(least));
    page.both(
        report,
        "minutes: inserts a second",
        both(|minute| minute.inserts),
        goal(0.9),
    );
    page.both(
        report,
        "minutes: looks at the newest row a second",
        both(|minute| minute.looks),
        goal(1.0),
    );
    let ratios = |some: &[Minute]| {
        let ratio = |minute: &Minute| minute.inserts[1] / minute.inserts[0];
        median(some.iter().map(ratio).collect())
    };
    let last = ratios(&minutes[minutes.len().saturating_sub(ENDS)..]);
    page.own(
        report,
        "minutes: inserts ÷ heap's in the last three ÷ the same in the first three",
        last / ratios(&minutes[..ENDS.min(minutes.len())]),
        Goal::Least(0.9),
    );
}
