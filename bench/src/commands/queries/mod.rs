//! Aggregate queries on heap and varve, one after the other in turns: the types of the Time Series Benchmark Suite on its cpu data, and
//! aggregates over temperatures of sensors. The page has medians, the slowest percentile, the ratio, and how many blocks were decoded.

mod suite;

use crate::commands::tables::data;
use crate::generate::{self, CPU_COLUMNS};
use crate::report::Report;
use crate::server::{self, Cluster, Tree};
use crate::{heap_pair, Result};
use postgres::Client;
use std::sync::Arc;
use std::time::Instant;

/// Runs of each type, on heap and on varve.
const RUNS: usize = 21;
const SENSORS: [(&str, &str, f64); 8] = [
    ("max of all", "SELECT max(temperature) FROM sensors", 0.0015),
    ("count of all", "SELECT count(*) FROM sensors", 0.0015),
    ("avg of all", "SELECT avg(temperature) FROM sensors", 0.0015),
    (
        "avg by sensor and day",
        "SELECT sensor_id, time_bucket('1 day', time), avg(temperature) FROM sensors GROUP BY 1, 2",
        0.01,
    ),
    (
        "max of a sensor's day",
        "SELECT max(temperature) FROM sensors WHERE sensor_id = 17 AND time >= '2026-01-03Z' AND time < '2026-01-04Z'",
        0.15,
    ),
    (
        "max of a sensor",
        "SELECT max(temperature) FROM sensors WHERE sensor_id = 17",
        0.003,
    ),
    (
        "avg by sensor",
        "SELECT sensor_id, avg(temperature) FROM sensors GROUP BY 1",
        0.01,
    ),
    (
        "sum above a value",
        "SELECT sum(temperature) FROM sensors WHERE temperature > 70",
        0.01,
    ),
];

/// A type of query: its name, what was asked, and the most that the ratio may be.
pub struct Kind {
    pub name: String,
    pub queries: Vec<String>,
    pub most: f64,
}

/// Temperatures of so many `sensors` and `days`; the page goes to `path`.
pub fn run(
    tree: &Arc<Tree>,
    report: &mut Report,
    sensors: usize,
    days: i64,
    path: &str,
) -> Result<()> {
    let directory = data::directory(tree)?;
    let cpu = data::cpu(&directory)?;
    let settings = [
        "autovacuum = off",
        "max_wal_size = '16GB'",
        "shared_buffers = '2GB'",
        "jit = off",
        "max_parallel_workers_per_gather = 0",
    ];
    let cluster = Cluster::create(tree, &settings)?;
    let mut client = cluster.database("queries")?;
    suite::create_tags(&mut client)?;
    let file = cpu.all.display().to_string();
    let heap = ["(tags_id, time DESC)", "(time DESC)"];
    load(
        &mut client,
        "cpu",
        CPU_COLUMNS,
        "(tags_id, time)",
        &heap,
        &file,
    )?;
    let (file, rows) = data::generated(&directory, "sensors.csv", |out| {
        generate::billy(out, sensors, days)
    })?;
    let columns = "time timestamptz NOT NULL, sensor_id int NOT NULL, temperature float8";
    let file = file.display().to_string();
    let heap = ["(sensor_id, time)"];
    load(
        &mut client,
        "sensors",
        columns,
        "(sensor_id, time)",
        &heap,
        &file,
    )?;
    let mut page = head(&cpu.source, rows)?;
    let mut kinds = suite::kinds()?;
    kinds.extend(SENSORS.iter().map(|&(name, query, most)| Kind {
        name: name.into(),
        queries: vec![query.into()],
        most,
    }));
    for kind in &kinds {
        let line = measure(&mut client, kind, report)?;
        println!("{}", line.trim_end());
        page.push_str(&line);
    }
    std::fs::write(path, page)?;
    println!("written: {path}");
    Ok(())
}

/// The same table in the schemas `h` and `v`, compacted.
fn load(
    client: &mut Client,
    table: &str,
    columns: &str,
    series: &str,
    indexes: &[&str],
    file: &str,
) -> Result<()> {
    let (method, index) = match heap_pair::access_method().as_str() {
        "varve" => ("varve", "varve"),
        _ => ("heap", "btree"),
    };
    client.batch_execute(&format!(
        "CREATE SCHEMA IF NOT EXISTS h; CREATE SCHEMA IF NOT EXISTS v;
         CREATE TABLE h.{table}({columns}); CREATE TABLE v.{table}({columns}) USING {method};
         CREATE INDEX ON v.{table} USING {index} {series}"
    ))?;
    for index in indexes {
        client.batch_execute(&format!("CREATE INDEX ON h.{table} {index}"))?;
    }
    for schema in ["h", "v"] {
        client.batch_execute(&format!("COPY {schema}.{table} FROM '{file}' (FORMAT csv)"))?;
    }
    heap_pair::compact(client, &format!("v.{table}"))?;
    client.batch_execute(&format!("VACUUM ANALYZE h.{table}"))?;
    Ok(client.batch_execute(&format!("VACUUM ANALYZE v.{table}"))?)
}

fn measure(client: &mut Client, kind: &Kind, report: &mut Report) -> Result<String> {
    let mut times = [Vec::new(), Vec::new()];
    let rounds = RUNS.div_ceil(kind.queries.len());
    for round in 0..=rounds {
        for query in &kind.queries {
            for (at, schema) in ["h", "v"].iter().enumerate() {
                client.batch_execute(&format!("SET search_path = {schema}, public"))?;
                let start = Instant::now();
                client.simple_query(query)?;
                // The first round warms up.
                if round > 0 {
                    times[at].push(start.elapsed().as_secs_f64() * 1e3);
                }
            }
        }
    }
    let blocks = blocks_decoded(client, &kind.queries[0])?;
    let [heap, varve] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        (
            times[times.len() / 2],
            times[(times.len() * 99 / 100).min(times.len() - 1)],
        )
    });
    let ratio = varve.0 / heap.0;
    let met = ratio <= kind.most;
    let outcome = match met {
        true => Ok(()),
        false => Err(format!("{ratio:.4} of heap's time, wanted {}", kind.most).into()),
    };
    report.check(&format!("queries/{}", kind.name), outcome);
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

/// What EXPLAIN says of the query on varve; None where the node is not in its plan.
fn blocks_decoded(client: &mut Client, query: &str) -> Result<Option<u64>> {
    client.batch_execute("SET search_path = v, public")?;
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

fn head(source: &str, rows: i64) -> Result<String> {
    let commit = server::commit()?;
    let cores = std::thread::available_parallelism()?;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    Ok(format!(
        "# Queries\n\n`make queries` on commit {commit}, {cores} cores, load average {load} when it began. {source}; temperatures are of \
         {rows} readings.\nTimes are milliseconds of one process, medians and slowest percentiles of {RUNS} runs taken in turns, after compact. Compare the columns, \
         not the pages of two machines.\n\n\
         | query | heap | heap p99 | varve | varve p99 | varve ÷ heap | goal | | blocks decoded |\n|---|---|---|---|---|---|---|---|---|\n"
    ))
}
