//! Other shapes of data, in tables of their own: many short series, one-decimal temperatures, noise.

use super::data::{self, Counter};
use super::page::Goal;
use super::{copy, median, Bench};
use crate::generate::{billy, churn, noisy};
use crate::measure::{buffers, total_size};
use crate::{heap_pair, Result};
use postgres::Client;
use std::path::Path;

const INSTANCES: usize = 1_000;
const DEVICES: usize = 50;
const SENSORS: usize = 500;

/// How a table is made: its columns and the columns of its series index.
struct Shape {
    columns: &'static str,
    key: &'static str,
}

const CHURN: Shape = Shape {
    columns:
        "time timestamptz NOT NULL, instance text NOT NULL, metric text NOT NULL, value float8",
    key: "instance, metric, time",
};
const NOISY: Shape = Shape {
    columns:
        "time timestamptz NOT NULL, device_id int NOT NULL, metric_id int NOT NULL, value float8",
    key: "device_id, metric_id, time",
};
const BILLY: Shape = Shape {
    columns: "time timestamptz NOT NULL, sensor_id int NOT NULL, temperature float8",
    key: "sensor_id, time",
};

pub fn run(bench: &mut Bench, client: &mut Client, days: i64) -> Result<()> {
    bench.page.section(
        "Other shapes",
        &format!(
            "Bytes a point with everything, after compact: `gen_churn` of {INSTANCES} instances, `gen_noisy` of 30 days, \
             `gen_billy` of {days} days."
        ),
    );
    short_series(bench, client)?;
    let noise = |out: &mut Counter| noisy(out, DEVICES, 30);
    both_points(bench, client, "gen_noisy", &NOISY, noise, 5.8)?;
    let temperatures = |out: &mut Counter| billy(out, SENSORS, days);
    both_points(bench, client, "gen_billy", &BILLY, temperatures, 0.60)
}

fn create(client: &mut Client, table: &str, shape: &Shape) -> Result<()> {
    let method = heap_pair::access_method();
    let index = if method == "varve" { "varve" } else { "btree" };
    Ok(client.batch_execute(&format!(
        "CREATE TABLE {table}({}) USING {method}; CREATE INDEX ON {table} USING {index} ({})",
        shape.columns, shape.key
    ))?)
}

/// Compacts, and returns the bytes a row.
fn compacted(client: &mut Client, table: &str, rows: i64) -> Result<f64> {
    heap_pair::compact(client, table)?;
    Ok(total_size(client, table)? as f64 / rows as f64)
}

/// D: 20,000 short series, beside the same values strung together into 200 long ones.
fn short_series(bench: &mut Bench, client: &mut Client) -> Result<()> {
    let directory = data::directory(&bench.tree)?;
    let (file, rows) = data::generated(&directory, "churn.csv", |out| churn(out, INSTANCES))?;
    create(client, "short", &CHURN)?;
    create(client, "long", &CHURN)?;
    copy(client, "short", &file)?;
    std::fs::remove_file(file)?;
    client.batch_execute(
        "INSERT INTO long SELECT '2026-01-01'::timestamptz + row_number() OVER (PARTITION BY right(instance, 1), metric ORDER BY instance, time) * interval '15 s',
                'pod-' || right(instance, 1), metric, value FROM short",
    )?;
    let short = compacted(client, "short", rows)?;
    let long = compacted(client, "long", rows)?;
    client.batch_execute("ANALYZE short")?;
    let mut touched = Vec::new();
    for instance in [17, 333, 600, 801, 999] {
        let query = format!("SELECT count(*), max(value) FROM short WHERE instance = 'pod-{instance:06}' AND metric = 'm13'");
        touched.push(buffers(client, &query)? as f64);
    }
    let (page, report) = (&mut bench.page, &mut bench.report);
    page.own(report, "gen_churn: bytes a value", short, Goal::None);
    page.own(report, "the same in 200 long series", long, Goal::None);
    page.own(
        report,
        "gen_churn ÷ long series",
        short / long,
        Goal::Most(1.5),
    );
    page.own(
        report,
        "buffers of one short series, median of five",
        median(touched),
        Goal::Most(30.0),
    );
    for table in ["short", "long"] {
        report.check(
            &format!("tables/{table} series verified"),
            heap_pair::expect_verified(client, table),
        );
    }
    Ok(client.batch_execute("DROP TABLE short, long")?)
}

/// With `varve.compression` as it is, and with small.
fn both_points(
    bench: &mut Bench,
    client: &mut Client,
    name: &str,
    shape: &Shape,
    generate: impl FnOnce(&mut Counter) -> std::io::Result<()>,
    most: f64,
) -> Result<()> {
    let directory = data::directory(&bench.tree)?;
    let (file, rows) = data::generated(&directory, "points.csv", generate)?;
    let bytes = one_point(bench, client, name, shape, (&file, rows))?;
    bench.page.own(
        &mut bench.report,
        &format!("{name}: bytes a point"),
        bytes,
        Goal::Most(most),
    );
    client.batch_execute("SET varve.compression = small")?;
    let bytes = one_point(
        bench,
        client,
        &format!("{name}, small"),
        shape,
        (&file, rows),
    )?;
    client.batch_execute("RESET varve.compression")?;
    bench.page.own(
        &mut bench.report,
        &format!("{name}: bytes a point, small"),
        bytes,
        Goal::None,
    );
    Ok(std::fs::remove_file(file)?)
}

fn one_point(
    bench: &mut Bench,
    client: &mut Client,
    name: &str,
    shape: &Shape,
    (file, rows): (&Path, i64),
) -> Result<f64> {
    create(client, "points", shape)?;
    copy(client, "points", file)?;
    let bytes = compacted(client, "points", rows)?;
    bench.report.check(
        &format!("tables/{name} verified"),
        heap_pair::expect_verified(client, "points"),
    );
    client.batch_execute("DROP TABLE points")?;
    Ok(bytes)
}
