//! Little memory: a session that may take only so much address space beyond what it begins with loads, merges, scans and
//! changes far more rows than fit. What it collects, decodes and merges is bounded by `varve.batch_memory`, so nothing fails.

use crate::heap_pair;
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::Result;
use postgres::Client;
use std::sync::Arc;

const BATCH_MEGABYTES: u64 = 8;
/// Batches, the buffers they are encoded and decoded with, and what the server itself needs for a statement.
const MOST_BYTES: u64 = 256 << 20;
const ROWS: i64 = 240_000;
const MORE_ROWS: i64 = 240_000;
/// Long enough that all rows take more than the memory.
const STATE: &str = "repeat(md5(g::text), 20)";

const STATEMENTS: [(&str, &str); 9] = [
    ("compact of fresh chunks", "CALL varve.compact('wide')"),
    ("plain scan", "SELECT max(state) FROM wide"),
    (
        "ordered scan",
        "SET enable_seqscan = off; SET enable_sort = off; \
         SELECT max(state) FROM (SELECT * FROM wide ORDER BY device, time OFFSET 0) o; RESET ALL",
    ),
    ("delete", "DELETE FROM wide WHERE seq % 5 = 0"),
    (
        "update",
        "UPDATE wide SET device = device + 10 WHERE seq % 7 = 0",
    ),
    ("compact of what was changed", "CALL varve.compact('wide')"),
    (
        "vacuum full",
        "SET maintenance_work_mem = '16MB'; VACUUM FULL wide",
    ),
    (
        "index build",
        "CREATE INDEX again ON wide USING varve (device, time); DROP INDEX again",
    ),
    (
        "verify",
        "SELECT 1 / (count(*) = 0)::int FROM varve.verify('wide')",
    ),
];

pub fn run(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    if heap_pair::access_method() != "varve" {
        return Ok(());
    }
    let batch = format!("varve.batch_memory = '{BATCH_MEGABYTES}MB'");
    let mut cluster = Cluster::create(tree, &["autovacuum = off", "jit = off", &batch])?;
    report.check("resource-limits/little memory", little_memory(&mut cluster));
    drop(cluster);
    let mut cluster = Cluster::create(tree, &["autovacuum = off", "jit = off", &batch])?;
    report.check(
        "resource-limits/large values",
        large_values(&mut cluster, LARGE_BYTES),
    );
    drop(cluster);
    let mut cluster = Cluster::create(tree, &["autovacuum = off", "jit = off", &batch])?;
    report.check(
        "resource-limits/many series",
        many_series(&mut cluster, SERIES),
    );
    Ok(())
}

/// The same with more than there is time for in each test: values of 150 MB, and a million series.
pub fn run_huge(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    let batch = format!("varve.batch_memory = '{BATCH_MEGABYTES}MB'");
    let mut cluster = Cluster::create(tree, &["autovacuum = off", "jit = off", &batch])?;
    let outcome = large_values(&mut cluster, HUGE_BYTES);
    report.check("resource-limits/huge values", outcome);
    drop(cluster);
    let mut cluster = Cluster::create(tree, &["autovacuum = off", "jit = off", &batch])?;
    let outcome = many_series(&mut cluster, MANY_SERIES);
    report.check("resource-limits/a million series", outcome);
    Ok(())
}

/// What a server needs for a statement beside rows: its catalogs' caches, the library, allocators' arenas.
const BESIDE_BYTES: u64 = 64 << 20;
/// How much a large value takes.
const LARGE_BYTES: u64 = 32_000_000;
const HUGE_BYTES: u64 = 150_000_000;
const LARGE_ROWS: i64 = 6;
/// With a series index, and without, where texts are taken for the names of series.
const TABLES: [&str; 2] = ["documents", "loose"];
/// Series of one row each.
const SERIES: i64 = 200_000;
const MANY_SERIES: i64 = 1_000_000;

/// Compact may take the budget and three times the largest value, however many rows have one.
fn large_values(cluster: &mut Cluster, bytes: u64) -> Result<()> {
    let mut client = cluster.database("memory")?;
    let value = format!("repeat(md5(g::text), {})", bytes / 32);
    for table in TABLES {
        client.batch_execute(&format!(
            "CREATE TABLE {table}(time timestamptz NOT NULL, device int NOT NULL, document text) USING varve;
             ALTER TABLE {table} ALTER document SET STORAGE EXTERNAL;
             INSERT INTO {table} SELECT '2026-01-01'::timestamptz + g * interval '1 s', 1, {value} FROM generate_series(1, {LARGE_ROWS}) g"
        ))?;
    }
    client.batch_execute(&format!(
        "CREATE INDEX ON {} USING varve (device, time)",
        TABLES[0]
    ))?;
    for table in TABLES {
        let most = (BATCH_MEGABYTES << 20) + 3 * bytes + BESIDE_BYTES;
        limit(cluster, client, most)?;
        client = cluster.connect("memory")?;
        client
            .batch_execute(&format!("CALL varve.compact('{table}')"))
            .map_err(|error| format!("{table}: {}", crate::errors::describe(&error)))?;
    }
    // Comparing with what it should be is not what is limited.
    limit(cluster, client, 32 * bytes)?;
    let mut client = cluster.connect("memory")?;
    for table in TABLES {
        let chunks = format!("SELECT count(*) FROM varve.chunks('{table}') WHERE rows = 1");
        let same = format!(
            "SELECT count(*) FROM {table} d JOIN generate_series(1, {LARGE_ROWS}) g
             ON d.time = '2026-01-01'::timestamptz + g * interval '1 s' AND md5(d.document) = md5({value})"
        );
        for query in [chunks, same] {
            let found: i64 = client.query_one(&query, &[])?.get(0);
            if found != LARGE_ROWS {
                return Err(format!("{found} of {LARGE_ROWS}: {query}").into());
            }
        }
    }
    Ok(())
}

/// Loads one row for each of many series, under a key, twice, and compacts: what is kept of a series must not add up.
fn many_series(cluster: &mut Cluster, series: i64) -> Result<()> {
    let mut client = cluster.database("memory")?;
    client.batch_execute(
        "CREATE TABLE many(host int, time timestamptz, value int, PRIMARY KEY (host, time)) USING varve",
    )?;
    limit(cluster, client, (BATCH_MEGABYTES << 20) + BESIDE_BYTES)?;
    let mut client = cluster.connect("memory")?;
    for day in [1, 2] {
        client.batch_execute(&format!(
            "INSERT INTO many SELECT g, '2026-01-{day}', g FROM generate_series(1, {series}) g"
        ))?;
    }
    client.batch_execute("CALL varve.compact('many')")?;
    let query = "SELECT count(*), count(DISTINCT host), sum(value) FROM many";
    let row = client.query_one(query, &[])?;
    let found: (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    let right = (2 * series, series, series * (series + 1));
    if found != right {
        return Err(format!("{found:?}, not {right:?}").into());
    }
    // Checking keeps an entry of each index in memory, and is not what is limited.
    limit(cluster, client, 1 << 30)?;
    heap_pair::expect_verified(&mut cluster.connect("memory")?, "many")
}

/// From now on sessions may take so many bytes beyond what one begins with.
fn limit(cluster: &mut Cluster, client: Client, bytes: u64) -> Result<()> {
    let most = memory_at_start(cluster)? + bytes;
    drop(client);
    cluster.stop()?;
    cluster.limit_memory(most);
    cluster.start()
}

fn little_memory(cluster: &mut Cluster) -> Result<()> {
    let mut client = cluster.database("memory")?;
    client.batch_execute(
        "CREATE TABLE wide(time timestamptz NOT NULL, device int NOT NULL, seq bigint, state text) USING varve;
         CREATE INDEX ON wide USING varve (device, time)",
    )?;
    limit(cluster, client, MOST_BYTES)?;
    let mut client = cluster.connect("memory")?;
    load(&mut client)?;
    let rows = rows(ROWS + 1, ROWS + MORE_ROWS);
    client.batch_execute(&format!("INSERT INTO wide {rows}"))?;
    for (what, statements) in STATEMENTS {
        for statement in statements.split("; ") {
            client
                .batch_execute(statement)
                .map_err(|error| format!("{what}: {}", crate::errors::describe(&error)))?;
        }
    }
    expect_rows(&mut cluster.connect("memory")?)
}

/// The address space that a session begins with.
fn memory_at_start(cluster: &Cluster) -> Result<u64> {
    let mut client = cluster.connect("memory")?;
    client.batch_execute("SELECT count(*) FROM pg_class")?;
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kilobytes: u64 = size
        .and_then(|size| size.split_whitespace().next())
        .ok_or("no VmSize in the process's status")?
        .parse()?;
    Ok(kilobytes << 10)
}

fn rows(from: i64, to: i64) -> String {
    format!("SELECT '2026-01-01'::timestamptz + g * interval '1 s', g::int % 3, g, {STATE} FROM generate_series({from}::bigint, {to}) g")
}

/// COPY of the first rows, from a file that a statement before it writes.
fn load(client: &mut Client) -> Result<()> {
    client.batch_execute(&format!(
        "COPY ({}) TO PROGRAM 'cat > wide.copy'",
        rows(1, ROWS)
    ))?;
    Ok(client.batch_execute("COPY wide FROM PROGRAM 'cat wide.copy'")?)
}

fn expect_rows(client: &mut Client) -> Result<()> {
    let right = rows(1, ROWS + MORE_ROWS).replace(
        "g::int % 3,",
        "g::int % 3 + CASE WHEN g % 7 = 0 THEN 10 ELSE 0 END,",
    );
    let digest = |rows: &str| {
        format!("SELECT count(*) || ' rows, ' || sum(hashtextextended(r::text, 0)::numeric) FROM ({rows}) r")
    };
    let mut found = |query: &str| -> Result<String> { Ok(client.query_one(query, &[])?.get(0)) };
    let (there, right) = (
        found(&digest("SELECT * FROM wide"))?,
        found(&digest(&format!("{right} WHERE g % 5 <> 0")))?,
    );
    if there == right {
        return Ok(());
    }
    Err(format!("{there}, not {right}").into())
}
