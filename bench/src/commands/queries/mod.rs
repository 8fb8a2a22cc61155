//! Aggregate queries on heap and varve, one after the other in turns: the types of the Time Series Benchmark Suite on its cpu data, and
//! aggregates over temperatures of sensors and noisy metrics; one of them by two processes, too. The page has medians, the slowest percentile, the ratio, and how many blocks were decoded.

mod growth;
mod processes;
mod sets;
mod suite;

use crate::commands::tables::data;
use crate::report::Report;
use crate::server::{self, Cluster, Tree};
use crate::{heap_pair, Result};
use postgres::Client;
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
    let mut page = head(sensors)?;
    for suite in [data::A1, data::A2] {
        let set = sets::cpu(&mut client, &directory, &suite)?;
        page.push_str(&section(&mut client, report, &set)?);
    }
    if sensors > 0 {
        let set = sets::sensors(&mut client, &directory, sensors, days)?;
        page.push_str(&section(&mut client, report, &set)?);
        page.push_str(&processes::section(
            &mut client,
            report,
            &set,
            sets::BY_SENSOR_AND_DAY,
            "sensors",
        )?);
        let set = sets::sensors_with_deleted(&mut client, &set)?;
        page.push_str(&section(&mut client, report, &set)?);
    }
    let set = sets::noisy(&mut client, &directory, DEVICES, NOISY_DAYS)?;
    page.push_str(&section(&mut client, report, &set)?);
    if heap_pair::access_method() == "varve" {
        page.push_str(&growth::section(&mut client, report)?);
    }
    std::fs::write(path, page)?;
    println!("written: {path}");
    Ok(())
}

/// A data set's part of the page.
fn section(client: &mut Client, report: &mut Report, set: &Set) -> Result<String> {
    let mut page = format!(
        "\n## {}\n\n{}\n\n\
         | query | heap | heap p99 | varve | varve p99 | varve ÷ heap | goal | | blocks decoded |\n|---|---|---|---|---|---|---|---|---|\n",
        set.title, set.about
    );
    for kind in &set.kinds {
        let line = measure(client, set, kind, report)?;
        println!("{} {}", set.schema, line.trim_end());
        page.push_str(&line);
    }
    Ok(page)
}

fn measure(client: &mut Client, set: &Set, kind: &Kind, report: &mut Report) -> Result<String> {
    let mut times = [Vec::new(), Vec::new()];
    let rounds = RUNS.div_ceil(kind.queries.len());
    for round in 0..=rounds {
        for query in &kind.queries {
            for (at, which) in ["heap", "varve"].iter().enumerate() {
                look_in(client, set, which)?;
                let start = Instant::now();
                client.simple_query(query)?;
                // The first round warms up.
                if round > 0 {
                    times[at].push(start.elapsed().as_secs_f64() * 1e3);
                }
            }
        }
    }
    look_in(client, set, "varve")?;
    let blocks = blocks_decoded(client, &kind.queries[0])?;
    let [heap, varve] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        (
            times[times.len() / 2],
            times[(times.len() * 99 / 100).min(times.len() - 1)],
        )
    });
    let ratio = varve.0 / heap.0;
    let met = kind.most.is_met(heap.0, varve.0);
    let outcome = match met {
        true => Ok(()),
        false => Err(format!(
            "{:.2} ms, {ratio:.4} of heap's time, wanted {}",
            varve.0, kind.most
        )
        .into()),
    };
    report.check(&format!("queries/{}: {}", set.schema, kind.name), outcome);
    Ok(format!(
        "| {} | {:.2} | {:.2} | {:.2} | {:.2} | {ratio:.4} | {} | {} | {} |\n",
        kind.name,
        heap.0,
        heap.1,
        varve.0,
        varve.1,
        kind.most,
        if met { "met" } else { "missed" },
        blocks.map_or("–".into(), |blocks| blocks.to_string()),
    ))
}

/// Names of tables are those of a set's heap or varve tables from now on.
fn look_in(client: &mut Client, set: &Set, which: &str) -> Result<()> {
    let schema = set.schema;
    Ok(client.batch_execute(&format!(
        "SET search_path = {schema}_{which}, {schema}, public"
    ))?)
}

/// What EXPLAIN says of the query on varve; None where the node is not in its plan.
fn blocks_decoded(client: &mut Client, query: &str) -> Result<Option<u64>> {
    let explain = format!("EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF) {query}");
    let mut found = None;
    for row in client.query(&explain, &[])? {
        let line: String = row.get(0);
        if let Some((_, number)) = line.split_once("Blocks Decoded: ") {
            found = Some(number.parse()?);
        }
    }
    Ok(found)
}

fn head(sensors: usize) -> Result<String> {
    let commit = server::commit()?;
    let cores = std::thread::available_parallelism()?;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    Ok(format!(
        "# Queries\n\n`make queries SENSORS={sensors}` on commit {commit}, {cores} cores, load average {load} when it began. Times are milliseconds of one process, medians and \
         slowest percentiles of {RUNS} runs taken in turns, after compact; the library is preloaded. Compare the columns, not the pages of two machines.\n"
    ))
}
