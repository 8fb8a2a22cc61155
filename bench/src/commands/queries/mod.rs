//! Aggregate queries on heap and varve, one after the other in turns: the types of the Time Series Benchmark Suite on its cpu data, and
//! aggregates over temperatures of sensors and noisy metrics; one of them by two processes, too. The page has medians, the slowest percentile, the ratio, and how many blocks were decoded.

mod growth;
mod processes;
mod read;
mod sets;
mod suite;

use crate::asker::Asker;
use crate::commands::tables::data;
use crate::report::Report;
use crate::server::{self, Cluster, Tree};
use crate::{heap_pair, processor, Result};
use read::Read;
use sets::Set;
use std::sync::Arc;
use std::time::Instant;

/// Runs of each type, on heap and on varve.
const RUNS: usize = 21;
/// The data set C: so much noise.
const DEVICES: usize = 50;
const NOISY_DAYS: i64 = 30;

/// A type of query: its name, what was asked, and the time that is good enough.
pub struct Kind {
    pub name: String,
    pub queries: Vec<String>,
    pub most: Most,
    /// Buffers that varve may ask for, where none of its blocks may be decoded.
    pub most_buffers: Option<u64>,
}

/// The most time that a type of query may take.
#[derive(Clone, Copy)]
pub enum Most {
    /// By heap's.
    OfHeap(f64),
    /// In milliseconds.
    Ms(f64),
}

impl Kind {
    pub fn one(name: &str, query: &str, most: Most) -> Self {
        Kind {
            name: name.into(),
            queries: vec![query.into()],
            most,
            most_buffers: None,
        }
    }
}

impl Most {
    /// So many times as much.
    fn times(self, times: f64) -> Most {
        match self {
            // Without what doubles make of a decimal number.
            Most::OfHeap(most) => Most::OfHeap((most * times * 1e6).round() / 1e6),
            Most::Ms(most) => Most::Ms((most * times * 10.0).round() / 10.0),
        }
    }

    fn is_met(self, heap: f64, varve: f64) -> bool {
        match self {
            Most::OfHeap(most) => varve / heap <= most,
            Most::Ms(most) => varve <= most,
        }
    }
}

impl std::fmt::Display for Most {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Most::OfHeap(most) => write!(to, "{most}"),
            Most::Ms(most) => write!(to, "{most} ms"),
        }
    }
}

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
        "shared_buffers = '2GB'",
        "jit = off",
        "max_parallel_workers_per_gather = 0",
        // As docs/reference/worker.md has it. A parallel worker then need not load the library.
        "shared_preload_libraries = 'varve'",
    ];
    let cluster = Cluster::create(tree, &settings)?;
    let mut client = cluster.database("queries")?;
    let mut asker = Asker::connect(&cluster, "queries")?;
    let mut page = head(sensors)?;
    for suite in [data::A1, data::A2] {
        let set = sets::cpu(&mut client, &directory, &suite)?;
        page.push_str(&section(&mut asker, report, &set)?);
    }
    if sensors > 0 {
        let set = sets::sensors(&mut client, &directory, sensors, days)?;
        page.push_str(&section(&mut asker, report, &set)?);
        page.push_str(&processes::section(
            &mut asker,
            report,
            &set,
            sets::BY_SENSOR_AND_DAY,
            "sensors",
        )?);
        let set = sets::sensors_with_deleted(&mut client, &set)?;
        page.push_str(&section(&mut asker, report, &set)?);
    }
    let set = sets::noisy(&mut client, &directory, DEVICES, NOISY_DAYS)?;
    page.push_str(&section(&mut asker, report, &set)?);
    if heap_pair::access_method() == "varve" {
        page.push_str(&growth::section(&mut client, &mut asker, report)?);
    }
    std::fs::write(path, page)?;
    println!("written: {path}");
    Ok(())
}

/// A data set's part of the page.
fn section(asker: &mut Asker, report: &mut Report, set: &Set) -> Result<String> {
    let mut page = format!(
        "\n## {}\n\n{}\n\n\
         | query | heap | heap p99 | varve | varve p99 | varve ÷ heap | goal | | blocks decoded | buffers |\n|---|---|---|---|---|---|---|---|---|---|\n",
        set.title, set.about
    );
    let _shared = processor::Shared::with_server(asker)?;
    for kind in &set.kinds {
        let line = measure(asker, set, kind, report)?;
        println!("{} {}", set.schema, line.trim_end());
        page.push_str(&line);
    }
    Ok(page)
}

fn measure(asker: &mut Asker, set: &Set, kind: &Kind, report: &mut Report) -> Result<String> {
    let mut times = [Vec::new(), Vec::new()];
    let rounds = RUNS.div_ceil(kind.queries.len());
    for round in 0..=rounds {
        for query in &kind.queries {
            for (at, which) in ["heap", "varve"].iter().enumerate() {
                look_in(asker, set, which)?;
                let start = Instant::now();
                asker.run(query)?;
                // The first round warms up.
                if round > 0 {
                    times[at].push(start.elapsed().as_secs_f64() * 1e3);
                }
            }
        }
    }
    look_in(asker, set, "varve")?;
    let read = Read::by(asker, &kind.queries[0])?;
    let [heap, varve] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        (
            times[times.len() / 2],
            times[(times.len() * 99 / 100).min(times.len() - 1)],
        )
    });
    let ratio = varve.0 / heap.0;
    let met = kind.most.is_met(heap.0, varve.0);
    let reads_little = kind
        .most_buffers
        .is_none_or(|most| read.buffers <= most && read.blocks == Some(0));
    let outcome = match met && reads_little {
        true => Ok(()),
        false => Err(format!(
            "{:.2} ms, {ratio:.4} of heap's time, wanted {}; {read:?}, wanted at most {:?} buffers",
            varve.0, kind.most, kind.most_buffers
        )
        .into()),
    };
    report.check(&format!("queries/{}: {}", set.schema, kind.name), outcome);
    Ok(format!(
        "| {} | {:.2} | {:.2} | {:.2} | {:.2} | {ratio:.4} | {} | {} | {} | {} |\n",
        kind.name,
        heap.0,
        heap.1,
        varve.0,
        varve.1,
        kind.most,
        if met && reads_little { "met" } else { "missed" },
        read.blocks.map_or("–".into(), |blocks| blocks.to_string()),
        read.buffers,
    ))
}

/// Names of tables are those of a set's heap or varve tables from now on.
fn look_in(asker: &mut Asker, set: &Set, which: &str) -> Result<()> {
    let schema = set.schema;
    asker.run(&format!(
        "SET search_path = {schema}_{which}, {schema}, public"
    ))?;
    Ok(())
}

fn head(sensors: usize) -> Result<String> {
    let commit = server::commit()?;
    let cores = std::thread::available_parallelism()?;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    Ok(format!(
        "# Queries\n\n`make queries SENSORS={sensors}` on commit {commit}, {cores} cores, load average {load} when it began. Times are milliseconds of one process, medians and \
         slowest percentiles of {RUNS} runs taken in turns, after compact; the library is preloaded. The client takes in all rows, makes nothing of them, and is on the \
         processor of the server's process: on two, each waits until the other's has woken, which on virtual machines takes as long as the shortest query. Compare the columns, not the pages of two machines.\n"
    ))
}
