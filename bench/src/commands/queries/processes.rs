//! What a second process saves: a query by one process and by two, in turns, and on all processors. Its rows go to the client, which needs one too, or
//! are counted where they are made.

use super::read::explained;
use super::sets::Set;
use super::{look_in, RUNS};
use crate::asker::Asker;
use crate::measure::median;
use crate::report::Report;
use crate::Result;
use std::time::Instant;

/// Two processes have to be so many times as fast as one.
const LEAST_GAIN: f64 = 1.7;

/// The section of the page, on the kind of this name of a set, whose varve table is `table`.
pub fn section(
    asker: &mut Asker,
    report: &mut Report,
    set: &Set,
    name: &str,
    table: &str,
) -> Result<String> {
    let kind = set.kinds.iter().find(|kind| kind.name == name);
    let kind = kind.ok_or_else(|| format!("no such query: {name}"))?;
    look_in(asker, set, "varve")?;
    // The table is altered once, not before each run: what a session knows of it would be looked up again in every one.
    asker.run(&format!(
        "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
         ALTER TABLE {table} SET (parallel_workers = 1)"
    ))?;
    let query = kind.queries[0].trim_end().trim_end_matches(';');
    // Whole rows, so that all of their columns are wanted.
    let counted = format!("SELECT count(rows) FROM ({query} OFFSET 0) rows");
    let counted_name = format!("{name}, counted");
    let rows = [
        line(asker, report, set, name, query)?,
        line(asker, report, set, &counted_name, &counted)?,
    ];
    asker.run(&format!(
        "ALTER TABLE {table} RESET (parallel_workers); RESET max_parallel_workers_per_gather;
         RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size"
    ))?;
    Ok(format!(
        "\n## Two processes\n\nThe leader and a worker, with `parallel_setup_cost`, `parallel_tuple_cost` and `min_parallel_table_scan_size` 0, on as many processors as there are. The \
         client takes in all rows beside the two; where they are counted it takes one.\n\n\
         | query | one process | two processes | one ÷ two | goal | |\n|---|---|---|---|---|---|\n{}",
        rows.concat()
    ))
}

/// A line of the section.
fn line(
    asker: &mut Asker,
    report: &mut Report,
    set: &Set,
    name: &str,
    query: &str,
) -> Result<String> {
    let mut times = [Vec::new(), Vec::new()];
    for run in 0..=RUNS {
        for (workers, times) in times.iter_mut().enumerate() {
            asker.run(&format!("SET max_parallel_workers_per_gather = {workers}"))?;
            let start = Instant::now();
            asker.run(query)?;
            // The first round warms up.
            if run > 0 {
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
    let launched = launched_workers(asker, query)?;
    let [one, two] = times.map(median);
    let gain = one / two;
    let met = gain >= LEAST_GAIN && launched == 1;
    let outcome = match met {
        true => Ok(()),
        false => Err(format!(
            "{one:.2} and {two:.2} ms, {gain:.2} times as fast, wanted {LEAST_GAIN}; {launched} workers"
        )
        .into()),
    };
    report.check(
        &format!("queries/{}: {name}, two processes", set.schema),
        outcome,
    );
    Ok(format!(
        "| {name} | {one:.2} | {two:.2} | {gain:.2} | {LEAST_GAIN} | {} |\n",
        if met { "met" } else { "missed" }
    ))
}

/// Workers that took part in the query.
fn launched_workers(asker: &mut Asker, query: &str) -> Result<i64> {
    for line in explained(asker, query)? {
        if let Some((_, number)) = line.split_once("Workers Launched: ") {
            return Ok(number.trim().parse()?);
        }
    }
    Ok(0)
}
