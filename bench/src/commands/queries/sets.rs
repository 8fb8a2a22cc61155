//! The data sets: what is loaded into heap and varve, and what is asked of both.

use super::kind::{Kind, Most};
use super::suite;
use crate::commands::tables::data::{self, A1, A2};
use crate::generate::{self, CPU_COLUMNS};
use crate::{heap_pair, Result};
use postgres::Client;
use std::path::Path;

/// The query of B that two processes run, too.
pub const BY_SENSOR_AND_DAY: &str = "avg by sensor and day";
/// Rows of a chunk of B after compact.
const ROWS_PER_CHUNK: u64 = 64_800;

/// Tables are in the schemas `<schema>_heap`, `<schema>_varve` and, before compact, `<schema>_fresh`; what both share is in `<schema>`.
pub struct Set {
    pub schema: &'static str,
    pub title: &'static str,
    /// What the page says of the data.
    pub about: String,
    pub kinds: Vec<Kind>,
    pub has_fresh: bool,
}

/// What a table is created with; the file has its rows.
struct Table<'a> {
    name: &'a str,
    columns: &'a str,
    series: &'a str,
    /// Of the heap.
    indexes: &'a [&'a str],
    file: &'a Path,
}

/// The suite's cpu data of a hundred hosts for three days, or of four thousand for two hours.
pub fn cpu(client: &mut Client, directory: &Path, suite: &data::Suite) -> Result<Set> {
    let (schema, title) = match suite.name {
        name if name == A1.name => ("a1", "A1: cpu data of 100 hosts, three days"),
        name if name == A2.name => ("a2", "A2: cpu data of 4,000 hosts, two hours"),
        name => return Err(format!("no such cpu data: {name}").into()),
    };
    let (file, source) = suite.write(directory)?;
    create(client, schema)?;
    suite::create_tags(client, schema, suite.hosts)?;
    let table = Table {
        name: "cpu",
        columns: CPU_COLUMNS,
        series: "(tags_id, time)",
        indexes: &["(tags_id, time DESC)", "(time DESC)"],
        file: &file,
    };
    load(client, schema, &table)?;
    std::fs::remove_file(&file)?;
    Ok(Set {
        schema,
        title,
        about: format!("{source}."),
        kinds: suite::kinds(suite),
        has_fresh: true,
    })
}

/// B: a reading of each sensor and minute, with one decimal.
pub fn sensors(client: &mut Client, directory: &Path, sensors: usize, days: i64) -> Result<Set> {
    let (file, rows) = data::generated(directory, "sensors.csv", |out| {
        generate::billy(out, sensors, days)
    })?;
    create(client, "b")?;
    let table = Table {
        name: "sensors",
        columns: "time timestamptz NOT NULL, sensor_id int NOT NULL, temperature float8",
        series: "(sensor_id, time)",
        indexes: &["(sensor_id, time)"],
        file: &file,
    };
    load(client, "b", &table)?;
    std::fs::remove_file(&file)?;
    let one = |name: &str, query: &str, most: f64| Kind::one(name, query, Most::OfHeap(most));
    let of_all = |name: &str, query: &str| Kind {
        // A page of each chunk, and few of the series index.
        most_buffers: Some(rows as u64 / ROWS_PER_CHUNK * 11 / 10),
        ..one(name, query, 0.0015)
    };
    Ok(Set {
        schema: "b",
        title: "B: temperatures of sensors",
        about: format!("{rows} readings of {sensors} sensors, one a minute."),
        kinds: vec![
            of_all("max of all", "SELECT max(temperature) FROM sensors"),
            of_all("count of all", "SELECT count(*) FROM sensors"),
            of_all("avg of all", "SELECT avg(temperature) FROM sensors"),
            one(
                BY_SENSOR_AND_DAY,
                "SELECT sensor_id, time_bucket('1 day', time), avg(temperature) FROM sensors GROUP BY 1, 2",
                0.01,
            ),
            one(
                "max of a sensor's day",
                "SELECT max(temperature) FROM sensors WHERE sensor_id = 17 AND time >= '2026-01-03Z' AND time < '2026-01-04Z'",
                0.15,
            ),
            one(
                "max of a sensor",
                "SELECT max(temperature) FROM sensors WHERE sensor_id = 17",
                0.003,
            ),
            one(
                "avg by sensor",
                "SELECT sensor_id, avg(temperature) FROM sensors GROUP BY 1",
                0.01,
            ),
            // A thousand million values a second.
            Kind::one(
                "sum above a value",
                "SELECT sum(temperature) FROM sensors WHERE temperature > 70",
                Most::Ms((rows as f64 / 1e5).round() / 10.0),
            ),
        ],
        has_fresh: true,
    })
}

/// B once more, when every tenth reading has been deleted and nothing has been compacted since: three times as much time is good enough.
pub fn sensors_with_deleted(client: &mut Client, whole: &Set) -> Result<Set> {
    for schema in ["b_heap", "b_varve"] {
        client.batch_execute(&format!(
            "DELETE FROM {schema}.sensors WHERE extract(minute FROM time)::int % 10 = 3"
        ))?;
        client.batch_execute(&format!("VACUUM ANALYZE {schema}.sensors"))?;
    }
    let kinds = whole.kinds.iter().map(|kind| Kind {
        name: format!("{}, every tenth row deleted", kind.name),
        queries: kind.queries.clone(),
        most: kind.most.times(3.0),
        most_buffers: None,
    });
    Ok(Set {
        schema: whole.schema,
        title: "B after a DELETE of every tenth row",
        about: "Nothing was compacted after the DELETE.".into(),
        kinds: kinds.collect(),
        has_fresh: false,
    })
}

/// C: noise in full precision, random walks and counters of devices.
pub fn noisy(client: &mut Client, directory: &Path, devices: usize, days: i64) -> Result<Set> {
    let (file, rows) = data::generated(directory, "noisy.csv", |out| {
        generate::noisy(out, devices, days)
    })?;
    create(client, "c")?;
    let table = Table {
        name: "noisy",
        columns: "time timestamptz NOT NULL, device_id int NOT NULL, metric_id int NOT NULL, value float8",
        series: "(device_id, metric_id, time)",
        indexes: &["(device_id, metric_id, time)"],
        file: &file,
    };
    load(client, "c", &table)?;
    std::fs::remove_file(&file)?;
    let metrics = 10;
    Ok(Set {
        schema: "c",
        title: "C: noisy metrics of devices",
        about: format!("{rows} values of {devices} devices with {metrics} metrics, one in five minutes."),
        kinds: vec![
            Kind::one(
                "avg of a metric of each device, one hour",
                "SELECT device_id, avg(value) FROM noisy WHERE metric_id = 3 AND time >= '2026-01-10Z' AND time < '2026-01-10 01:00Z' GROUP BY 1",
                Most::OfHeap(0.008),
            ),
            Kind::one(
                "avg of all by series",
                "SELECT device_id, metric_id, avg(value) FROM noisy GROUP BY 1, 2",
                Most::OfHeap(0.02),
            ),
        ],
        has_fresh: true,
    })
}

fn create(client: &mut Client, schema: &str) -> Result<()> {
    Ok(client.batch_execute(&format!(
        "CREATE SCHEMA {schema}; CREATE SCHEMA {schema}_heap; CREATE SCHEMA {schema}_varve; CREATE SCHEMA {schema}_fresh"
    ))?)
}

/// The same rows in a heap and two varve tables, one of them compacted, all of them analysed.
fn load(client: &mut Client, schema: &str, table: &Table) -> Result<()> {
    let (method, index) = match heap_pair::access_method().as_str() {
        "varve" => ("varve", "varve"),
        _ => ("heap", "btree"),
    };
    let Table {
        name,
        columns,
        series,
        ..
    } = table;
    client.batch_execute(&format!(
        "CREATE TABLE {schema}_heap.{name}({columns}) USING heap;
         CREATE TABLE {schema}_varve.{name}({columns}) USING {method};
         CREATE INDEX ON {schema}_varve.{name} USING {index} {series};
         CREATE TABLE {schema}_fresh.{name}({columns}) USING {method};
         CREATE INDEX ON {schema}_fresh.{name} USING {index} {series}"
    ))?;
    for index in table.indexes {
        client.batch_execute(&format!("CREATE INDEX ON {schema}_heap.{name} {index}"))?;
    }
    let file = table.file.display();
    let tables = ["heap", "varve", "fresh"].map(|kind| format!("{schema}_{kind}.{name}"));
    for table in &tables {
        client.batch_execute(&format!("COPY {table} FROM '{file}' (FORMAT csv)"))?;
    }
    heap_pair::compact(client, &tables[1])?;
    for table in &tables {
        client.batch_execute(&format!("VACUUM ANALYZE {table}"))?;
    }
    Ok(())
}
