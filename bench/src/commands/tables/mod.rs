//! What tables cost: size, speed and memory of heap and varve side by side in one run, on the cpu data of the Time Series
//! Benchmark Suite and on other shapes. Times are compared within the run only; everything else is counted.

mod changes;
pub mod data;
mod keys;
mod load;
mod minutes;
mod page;
mod probes;
mod rollups;
mod shapes;
mod single_rows;
mod small;
mod steady;
mod upserts;
mod watch;

use crate::generate::CPU_COLUMNS;
use crate::measure::median;
use crate::report::Report;
use crate::server::{self, Cluster, Tree};
use crate::{heap_pair, Result};
use page::Page;
use postgres::Client;
use std::path::Path;
use std::sync::Arc;

struct Bench {
    tree: Arc<Tree>,
    cluster: Cluster,
    page: Page,
    report: Report,
    /// How often what is timed is repeated.
    runs: usize,
}

/// `runs` of each COPY; gen_billy of so many `days`; the page goes to `path`. With a `section` it has that one alone: changes,
/// rollups, rows, small, steady, or so many minutes of small transactions or of upserts.
pub fn run(
    tree: &Arc<Tree>,
    report: &mut Report,
    runs: usize,
    days: i64,
    path: &str,
    (section, minutes): (Option<String>, usize),
) -> Result<()> {
    let directory = data::directory(tree)?;
    let cpu = data::cpu(&directory)?;
    let settings = [
        "autovacuum = off",
        "checkpoint_timeout = '1h'",
        "max_wal_size = '16GB'",
        "shared_buffers = '2GB'",
        "fsync = on",
        "jit = off",
    ];
    let mut bench = Bench {
        tree: Arc::clone(tree),
        cluster: Cluster::create(tree, &settings)?,
        page: Page::default(),
        report: std::mem::take(report),
        runs,
    };
    let head = head(&cpu.source, section.as_deref())?;
    let figures = match section.as_deref() {
        None => bench.all(&cpu, days),
        Some("rollups") => bench
            .loaded(&cpu)
            .and_then(|()| rollups::run(&mut bench, &cpu)),
        Some("changes") => bench
            .loaded(&cpu)
            .and_then(|()| changes::change(&mut bench)),
        Some("minutes") => minutes::run(&mut bench, minutes),
        Some("upserts") => upserts::run(&mut bench, minutes),
        Some("small") => small::run(&mut bench),
        Some("rows") => single_rows::run(&mut bench),
        Some("steady") => steady::run(&mut bench, &cpu),
        Some(other) => Err(format!("there is no section \"{other}\" to be run alone").into()),
    };
    let outcome = figures.and_then(|()| bench.page.write(path, &head));
    *report = std::mem::take(&mut bench.report);
    outcome
}

impl Bench {
    fn all(&mut self, cpu: &data::Cpu, days: i64) -> Result<()> {
        let mut client = self.cluster.database("tables")?;
        client.batch_execute("CREATE EXTENSION pageinspect")?;
        load::run(self, &mut client, cpu)?;
        changes::read(self, &mut client)?;
        keys::run(self, &mut client, cpu)?;
        let equal = heap_pair::expect_equal(&mut client, "cpu_heap", "cpu_varve");
        self.report.check(
            "tables/A1 is the same in both (EXCEPT ALL, both ways)",
            equal,
        );
        let verified = heap_pair::expect_verified(&mut client, "cpu_varve");
        self.report.check("tables/A1 verified", verified);
        drop(client);
        changes::change(self)?;
        rollups::run(self, cpu)?;
        small::run(self)?;
        single_rows::run(self)?;
        steady::run(self, cpu)?;
        let mut client = self.cluster.database("shapes")?;
        shapes::run(self, &mut client, days)?;
        probes::run(self, &mut client)
    }

    /// A1 in both tables, for sections that begin with it.
    fn loaded(&self, cpu: &data::Cpu) -> Result<()> {
        let mut client = self.cluster.database("tables")?;
        for (table, varve) in [("cpu_heap", false), ("cpu_varve", true)] {
            create(&mut client, table, varve)?;
            copy(&mut client, table, &cpu.all)?;
        }
        heap_pair::compact(&mut client, "cpu_varve")
    }

    /// A copy of the database with A1 in it, and a connection to it.
    fn copy_of_database(&self, name: &str) -> Result<Client> {
        let mut client = self.cluster.connect("postgres")?;
        client.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE tables"))?;
        self.cluster.connect(name)
    }
}

/// A table for the cpu data, heap's with the two indexes that the suite defines.
fn create(client: &mut Client, table: &str, varve: bool) -> Result<()> {
    let method = heap_pair::access_method();
    let statement = match (varve, method.as_str()) {
        (true, "varve") => format!(
            "CREATE TABLE {table}({CPU_COLUMNS}) USING varve; CREATE INDEX ON {table} USING varve (tags_id, time)"
        ),
        _ => format!(
            "CREATE TABLE {table}({CPU_COLUMNS}); CREATE INDEX ON {table} (tags_id, time DESC); CREATE INDEX ON {table} (time DESC)"
        ),
    };
    Ok(client.batch_execute(&statement)?)
}

/// COPY by the server itself.
fn copy(client: &mut Client, table: &str, file: &Path) -> Result<()> {
    Ok(client.batch_execute(&format!(
        "COPY {table} FROM '{}' (FORMAT csv)",
        file.display()
    ))?)
}

fn head(source: &str, section: Option<&str>) -> Result<String> {
    let command = section.map_or("bench".to_string(), |section| format!("bench-{section}"));
    let commit = server::commit()?;
    let cores = std::thread::available_parallelism()?;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    let tables = match section {
        None | Some("rollups" | "changes") => format!(
            " {source}.\nThe heap has the suite's two indexes, the varve table its series index; sizes are those of pg_total_relation_size."
        ),
        Some("steady") => format!(" {source}.\nSizes are those of pg_total_relation_size."),
        _ => "\nBoth tables have the key that is named below. Sizes are those of pg_total_relation_size.".to_string(),
    };
    Ok(format!(
        "# Tables\n\n`make {command}` on commit {commit}, {cores} cores, load average {load} when it began.{tables}\nTimes depend on the \
         machine and what else it does: compare the columns, not the pages of two machines.\n"
    ))
}
