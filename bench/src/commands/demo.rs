//! What varve does, on real data in a throw-away cluster: every metric of a Prometheus node exporter, scraped once a second,
//! goes into a heap and into a varve table; then their sizes side by side, a dashboard query on both, and its plan.

use crate::heap_pair;
use crate::server::{Cluster, Tree};
use crate::Result;
use postgres::{Client, SimpleQueryMessage};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

const DATA: &str = "bench/data/node_1s.tsv.gz";
const QUERY: &str =
    "SELECT time_bucket('5 minutes', time) AS bucket, min(value), avg(value), max(value)
FROM {table} WHERE metric = 'node_memory_MemAvailable_bytes' GROUP BY bucket ORDER BY bucket";
const TIMED_RUNS: usize = 7;

pub fn run(tree: &Arc<Tree>) -> Result<()> {
    let cluster = Cluster::create(tree, &[])?;
    let mut client = cluster.database("demo")?;
    let rows = scrapes()?;
    let values = rows.lines().count();
    println!("A node exporter's {values} values, as (time, metric, value), into a heap and a varve table:\n");
    let method = heap_pair::access_method();
    let index = if method == "varve" { "varve" } else { "btree" };
    say(
        &mut client,
        "CREATE TABLE node_heap  (time timestamptz NOT NULL, metric text NOT NULL, value float8)",
    )?;
    say(&mut client, "CREATE INDEX ON node_heap (metric, time)")?;
    say(&mut client, &format!("CREATE TABLE node_varve (time timestamptz NOT NULL, metric text NOT NULL, value float8) USING {method}"))?;
    say(
        &mut client,
        &format!("CREATE INDEX ON node_varve USING {index} (metric, time)"),
    )?;
    for table in ["node_heap", "node_varve"] {
        let start = Instant::now();
        let mut writer = client.copy_in(&format!("COPY {table} FROM STDIN"))?;
        writer.write_all(rows.as_bytes())?;
        writer.finish()?;
        println!(
            "COPY {table:<10} FROM STDIN;  -- {:.1} s",
            start.elapsed().as_secs_f64()
        );
    }
    let start = Instant::now();
    heap_pair::compact(&mut client, "node_varve")?;
    println!(
        "CALL varve.compact('node_varve');  -- {:.1} s",
        start.elapsed().as_secs_f64()
    );
    client.batch_execute("VACUUM ANALYZE node_heap")?;
    client.batch_execute("ANALYZE node_varve")?;
    heap_pair::expect_equal(&mut client, "node_heap", "node_varve")?;
    println!("\nThe same {values} rows are in both (EXCEPT ALL is empty both ways). Their sizes, indexes included:\n");
    sizes(&mut client, values)?;
    println!(
        "\nA dashboard query:\n\n{};\n",
        QUERY.replace("{table}", "node_varve")
    );
    print_rows(&mut client, &QUERY.replace("{table}", "node_varve"), "  ")?;
    println!();
    for table in ["node_heap", "node_varve"] {
        println!(
            "  {table:<10} {:>7.2} ms (median of {TIMED_RUNS})",
            median_milliseconds(&mut client, &QUERY.replace("{table}", table))?
        );
    }
    println!("\nHow varve answers it:\n");
    print_rows(
        &mut client,
        &format!(
            "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) {}",
            QUERY.replace("{table}", "node_varve")
        ),
        "  ",
    )
}

/// The file holds a line of times and a line per metric; a scrape delivers all metrics of one moment.
fn scrapes() -> Result<String> {
    let unpacked = crate::server::output(Command::new("gzip").args(["-dc", DATA]))?;
    let mut lines = unpacked.lines().map(|line| line.split('\t'));
    let times: Vec<i64> = lines
        .next()
        .ok_or("the data file is empty")?
        .skip(1)
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()?;
    let series: Vec<Vec<&str>> = lines.map(Iterator::collect).collect();
    let mut rows = String::with_capacity(64 * times.len() * series.len());
    for (i, milliseconds) in times.iter().enumerate() {
        let whole = crate::generate::timestamp(milliseconds / 1_000);
        let time = format!(
            "{}.{:03}Z",
            whole.trim_end_matches('Z'),
            milliseconds % 1_000
        );
        for one in &series {
            writeln!(rows, "{time}\t{}\t{}", one[0], one[i + 1])?;
        }
    }
    Ok(rows)
}

fn say(client: &mut Client, statement: &str) -> Result<()> {
    println!("{statement};");
    Ok(client.batch_execute(statement)?)
}

fn sizes(client: &mut Client, values: usize) -> Result<()> {
    let mut sizes = Vec::new();
    for table in ["node_heap", "node_varve"] {
        let bytes: i64 = client
            .query_one(
                "SELECT pg_total_relation_size($1::text::regclass)",
                &[&table],
            )?
            .get(0);
        println!(
            "  {table:<10} {:>9.2} MB  {:>7.2} bytes per value",
            bytes as f64 / 1e6,
            bytes as f64 / values as f64
        );
        sizes.push(bytes as f64);
    }
    println!("  {:.0} times smaller", sizes[0] / sizes[1]);
    Ok(())
}

fn median_milliseconds(client: &mut Client, query: &str) -> Result<f64> {
    let statement = client.prepare(query)?;
    let mut times = Vec::new();
    for _ in 0..TIMED_RUNS {
        let start = Instant::now();
        client.query(&statement, &[])?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[TIMED_RUNS / 2])
}

fn print_rows(client: &mut Client, query: &str, indent: &str) -> Result<()> {
    for message in client.simple_query(query)? {
        if let SimpleQueryMessage::Row(row) = message {
            let values: Vec<&str> = (0..row.len()).map(|i| row.get(i).unwrap_or("")).collect();
            println!("{indent}{}", values.join("  "));
        }
    }
    Ok(())
}
