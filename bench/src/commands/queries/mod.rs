//! Aggregate queries on heap and varve, one after the other in turns: the types of the Time Series Benchmark Suite on its cpu data, and
//! aggregates over temperatures of sensors and noisy metrics; one of them by two processes, too. The page has medians, the slowest percentile, the ratio, and how many blocks were decoded.

mod growth;
mod kind;
mod processes;
mod read;
mod sets;
mod suite;

use crate::asker::Asker;
use crate::commands::tables::data;
use crate::report::Report;
use crate::server::{self, Cluster, Tree};
use crate::{heap_pair, processor, Result};
use kind::{Kind, Times};
use read::Read;
use sets::Set;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

/// Runs of each type, on heap and on varve.
const RUNS: usize = 21;
/// Before compact a query may take so many times as much.
const MORE_ON_FRESH: f64 = 3.0;
/// The data set C: so much noise.
const DEVICES: usize = 50;
const NOISY_DAYS: i64 = 30;

/// Temperatures of so many `sensors` and `days`, or none of them; the page goes to `path`.
pub fn run(
    tree: &Arc<Tree>,
    report: &mut Report,
    sensors: usize,
    days: i64,
    path: &str,
) -> Result<()> {
    let directory = data::directory(tree)?;
    let settings = [
        "autovacuum = off",
        "max_wal_size = '16GB'",
        // The checkpointer has its own processor only where there are enough.
        "checkpoint_timeout = '1h'",
        "shared_buffers = '2GB'",
        "jit = off",
        "max_parallel_workers_per_gather = 0",
        // As docs/reference/worker.md has it. A parallel worker then need not load the library.
        "shared_preload_libraries = 'varve'",
    ];
    let cluster = Cluster::create(tree, &settings)?;
    let mut client = cluster.database("queries")?;
    let mut asker = Asker::connect(&cluster, "queries")?;
    // What a session keeps of one table is not to push out what it keeps of the other.
    let mut other = Asker::connect(&cluster, "queries")?;
    let is_shared = processor::Shared::with_server(&asker).is_ok();
    let mut page = head(sensors, is_shared)?;
    for suite in [data::A1, data::A2] {
        let set = sets::cpu(&mut client, &directory, &suite)?;
        page.push_str(&section(&mut asker, &mut other, report, &set)?);
    }
    if sensors > 0 {
        let set = sets::sensors(&mut client, &directory, sensors, days)?;
        page.push_str(&section(&mut asker, &mut other, report, &set)?);
        page.push_str(&processes::section(
            &mut asker,
            report,
            &set,
            sets::BY_SENSOR_AND_DAY,
            "sensors",
        )?);
        let set = sets::sensors_with_deleted(&mut client, &set)?;
        page.push_str(&section(&mut asker, &mut other, report, &set)?);
    }
    let set = sets::noisy(&mut client, &directory, DEVICES, NOISY_DAYS)?;
    page.push_str(&section(&mut asker, &mut other, report, &set)?);
    if heap_pair::access_method() == "varve" {
        page.push_str(&growth::section(&mut client, &mut asker, report)?);
    }
    std::fs::write(path, page)?;
    println!("written: {path}");
    Ok(())
}

/// A data set's part of the page.
fn section(asker: &mut Asker, other: &mut Asker, report: &mut Report, set: &Set) -> Result<String> {
    let mut page = format!("\n## {}\n\n{}\n\n", set.title, set.about);
    let mut columns = vec![
        "query",
        "heap",
        "heap p99",
        "varve",
        "varve p99",
        "varve ÷ heap",
        "goal",
        "",
        "blocks decoded",
        "buffers",
    ];
    if set.has_fresh {
        columns.extend(["fresh", "fresh ÷ heap", "goal", ""]);
    }
    let rule = "---|".repeat(columns.len());
    writeln!(page, "| {} |\n|{rule}", columns.join(" | "))?;
    // What the load has left to be written is.
    asker.run("CHECKPOINT")?;
    // Who may not choose measures on two; the page says so.
    let _shared = processor::Shared::with_server(asker).ok();
    let _also = processor::Shared::with_server(other).ok();
    for kind in &set.kinds {
        let line = measure(asker, other, set, kind, report)?;
        println!("{} {line}", set.schema);
        writeln!(page, "{line}")?;
    }
    Ok(page)
}

/// A line of the section. `other` asks the table that was not compacted.
fn measure(
    asker: &mut Asker,
    other: &mut Asker,
    set: &Set,
    kind: &Kind,
    report: &mut Report,
) -> Result<String> {
    let tables: &[&str] = match set.has_fresh {
        true => &["heap", "varve", "fresh"],
        false => &["heap", "varve"],
    };
    let mut times = vec![Vec::new(); tables.len()];
    let rounds = RUNS.div_ceil(kind.queries.len());
    for round in 0..=rounds {
        for query in &kind.queries {
            for (which, times) in tables.iter().zip(&mut times) {
                let asker = match *which {
                    "fresh" => &mut *other,
                    _ => &mut *asker,
                };
                look_in(asker, set, which)?;
                let start = Instant::now();
                asker.run(query)?;
                // The first round warms up.
                if round > 0 {
                    times.push(start.elapsed().as_secs_f64() * 1e3);
                }
            }
        }
    }
    look_in(asker, set, "varve")?;
    let read = Read::by(asker, &kind.queries[0])?;
    let mut times = times.into_iter().map(Times::of);
    let (Some(heap), Some(varve), fresh) = (times.next(), times.next(), times.next()) else {
        return Err("no times".into());
    };
    let reads_little = kind
        .most_buffers
        .is_none_or(|most| read.buffers <= most && read.blocks == Some(0));
    let outcome = kind
        .most
        .expect(&heap, &varve)
        .and_then(|()| match reads_little {
            true => Ok(()),
            false => {
                Err(format!("{read:?}, wanted at most {:?} buffers", kind.most_buffers).into())
            }
        });
    let mut line = format!(
        "| {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.4} | {} | {} | {} | {} |",
        kind.name,
        heap.median,
        heap.slowest,
        varve.median,
        varve.slowest,
        varve.median / heap.median,
        kind.most,
        is_met(&outcome),
        read.blocks.map_or("–".into(), |blocks| blocks.to_string()),
        read.buffers,
    );
    let name = |of: &str| format!("queries/{}{of}: {}", set.schema, kind.name);
    report.check(&name(""), outcome);
    if let Some(fresh) = fresh {
        let most = kind.most.times(MORE_ON_FRESH);
        let outcome = most.expect(&heap, &fresh);
        write!(
            line,
            " {:.2} | {:.4} | {most} | {} |",
            fresh.median,
            fresh.median / heap.median,
            is_met(&outcome),
        )?;
        report.check(&name(", fresh"), outcome);
    }
    Ok(line)
}

fn is_met(outcome: &Result<()>) -> &'static str {
    match outcome {
        Ok(()) => "met",
        Err(_) => "missed",
    }
}

/// Names of tables are those of a set's heap or varve tables from now on.
fn look_in(asker: &mut Asker, set: &Set, which: &str) -> Result<()> {
    let schema = set.schema;
    asker.run(&format!(
        "SET search_path = {schema}_{which}, {schema}, public"
    ))
}

fn head(sensors: usize, is_shared: bool) -> Result<String> {
    let commit = server::commit()?;
    let cores = std::thread::available_parallelism()?;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    let place = match is_shared {
        true => "one processor: on two, each waits",
        false => "any processors, for want of leave to choose one: each waits, on two,",
    };
    Ok(format!(
        "# Queries\n\n`make queries SENSORS={sensors}` on commit {commit}, {cores} cores, load average {load} when it began. Times are milliseconds of one process, medians and \
         slowest percentiles of {RUNS} runs taken in turns, after compact; *fresh* is the same table before it. The library is preloaded. The client takes in all rows and makes nothing of them. It \
         and the server's process are on {place} until the other's has woken, which on virtual machines takes as long as the shortest query. Compare the columns, not the pages of two machines.\n"
    ))
}
