//! What applications and sensors send: transactions of a row, statements of some, upserts, looks at the last value. The worker is on,
//! heap has the same primary key.

use super::page::{Goal, Judge};
use super::{median, Bench};
use crate::heap_pair;
use crate::measure::{total_size, wal_position};
use crate::server::{output, Cluster};
use crate::Result;
use postgres::Client;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const ROWS: i64 = 200_000;
pub const TABLES: [(&str, &str); 2] = [("small_heap", "heap"), ("small_varve", "varve")];
pub const SETTINGS: [&str; 6] = [
    "varve.worker = on",
    "synchronous_commit = off",
    "full_page_writes = off",
    "max_wal_size = '16GB'",
    "shared_buffers = '1GB'",
    "jit = off",
];
const CLIENTS: &str = "8";
/// Of each run of pgbench.
const SECONDS: u64 = 5;
/// Of statements of 400 rows.
const STREAM: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(300);

pub fn run(bench: &mut Bench) -> Result<()> {
    bench.page.section("Small transactions", &format!(
        "{ROWS} transactions of a row, a thousand sensors, primary key (sensor, time), synchronous_commit and full_page_writes off, \
         the worker on; its WAL counts. Sizes are taken when it has nothing more to do. Then pgbench with {CLIENTS} clients, \
         {SECONDS} seconds at a time in turns, medians of {} runs (scripts in bench/pgbench).", bench.runs
    ));
    let cluster = Cluster::create(&bench.tree, &SETTINGS)?;
    let mut client = cluster.database("small")?;
    create(&mut client)?;
    one_by_one(bench, &cluster, &mut client)?;
    clients(bench, &cluster)?;
    stream(bench, &cluster)?;
    let verified = heap_pair::expect_verified(&mut client, TABLES[1].0);
    bench
        .report
        .check("tables/small transactions verified", verified);
    Ok(())
}

/// Both tables, empty.
pub fn create(client: &mut Client) -> Result<()> {
    for (table, method) in TABLES {
        client.batch_execute(&format!(
            "CREATE TABLE {table}(time timestamptz, sensor int, value float8, PRIMARY KEY (sensor, time)) USING {method}"
        ))?;
    }
    Ok(())
}

/// A script of pgbench that takes the name of its table.
pub fn script(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("pgbench");
    directory.join(name).with_extension("sql")
}

/// A walk of one decimal for each sensor, row by row.
fn one_by_one(bench: &mut Bench, cluster: &Cluster, client: &mut Client) -> Result<()> {
    let mut wal = Vec::new();
    for (table, _) in TABLES {
        let before = wal_position(client)?;
        client.batch_execute(&format!(
            "DO $$ DECLARE walk float8[] := array_fill(50.0::float8, ARRAY[1000]); s int; BEGIN
                 PERFORM setseed(0.5);
                 FOR i IN 0 .. {ROWS} - 1 LOOP
                     s := i % 1000 + 1;
                     walk[s] := round((walk[s] + random() - 0.5)::numeric, 1);
                     INSERT INTO {table} VALUES ('2026-01-01'::timestamptz + i * interval '10 ms', s, walk[s]);
                     COMMIT;
                 END LOOP;
             END $$"
        ))?;
        if table == TABLES[1].0 {
            await_idle(cluster)?;
        }
        wal.push((wal_position(client)? - before) as f64 / ROWS as f64);
    }
    let (heap, varve) = (TABLES[0].0, TABLES[1].0);
    client.batch_execute(&format!(
        "CREATE TABLE bulk (LIKE {heap} INCLUDING ALL) USING varve; INSERT INTO bulk TABLE {heap}"
    ))?;
    heap_pair::compact(client, "bulk")?;
    let equal = heap_pair::expect_equal(client, heap, varve);
    let [heap, varve, bulk] = [heap, varve, "bulk"].map(|table| total_size(client, table));
    let (heap, varve, bulk) = (heap? as f64, varve? as f64, bulk? as f64);
    let (page, report) = (&mut bench.page, &mut bench.report);
    report.check("tables/small transactions are the same in both", equal);
    page.both(
        report,
        "WAL bytes a row",
        (wal[0], wal[1]),
        (Judge::Ratio, Goal::Most(1.9)),
    );
    page.both(
        report,
        "bytes",
        (heap, varve),
        (Judge::Ratio, Goal::Most(0.067)),
    );
    page.own(
        report,
        "bytes ÷ bytes of a bulk load, compacted",
        varve / bulk,
        Goal::Most(1.3),
    );
    Ok(())
}

/// Until no job is due, and no row but a few waits.
fn await_idle(cluster: &Cluster) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    // Another session each time: the worker is asked for at a statement.
    while Instant::now() < deadline {
        std::thread::sleep(Duration::from_secs(2));
        let mut client = cluster.connect("small")?;
        client.batch_execute("ANALYZE small_varve")?;
        let row = client.query_one(
            "SELECT NOT EXISTS (SELECT FROM varve.jobs WHERE due OR phase_runs)
             FROM (SELECT EXISTS (SELECT FROM varve.progress) AS phase_runs) running",
            &[],
        )?;
        let tail: i64 = client
            .query_one(
                "SELECT rows FROM varve.stats('small_varve') WHERE part = 'tail'",
                &[],
            )?
            .get(0);
        if row.get(0) && tail < 500 {
            return Ok(());
        }
    }
    Err("the worker has not come to its end".into())
}

fn clients(bench: &mut Bench, cluster: &Cluster) -> Result<()> {
    for (name, goal) in [
        ("insert", 0.9),
        ("upsert", 0.9),
        ("mixed", 0.9),
        ("last_value", 1.0),
    ] {
        let file = script(name);
        let mut speeds = [Vec::new(), Vec::new()];
        for _ in 0..bench.runs {
            for (at, (table, _)) in TABLES.iter().enumerate() {
                speeds[at].push(per_second(cluster, ("small", table), &file, SECONDS)?);
            }
        }
        let [heap, varve] = speeds.map(median);
        bench.page.both(
            &mut bench.report,
            &format!("pgbench {name}: transactions a second"),
            (heap, varve),
            (Judge::Ratio, Goal::Least(goal)),
        );
    }
    Ok(())
}

/// Transactions a second of a script of pgbench, by so many clients, on a table of a database.
pub fn per_second(
    cluster: &Cluster,
    (database, table): (&str, &str),
    script: &Path,
    seconds: u64,
) -> Result<f64> {
    let text = output(
        cluster
            .tree
            .program("pgbench")
            .args(["-U", "postgres", "-h"])
            .arg(cluster.host())
            .args(["-n", "-j2", "-c", CLIENTS, &format!("-T{seconds}")])
            .args(["-D", &format!("table={table}"), "-f"])
            .arg(script)
            .arg(database),
    )?;
    let line = text.lines().find_map(|line| line.strip_prefix("tps = "));
    let number = line.and_then(|line| line.split(' ').next()?.parse().ok());
    number.ok_or_else(|| format!("pgbench says no tps: {text}").into())
}

/// Statements of 400 rows, one session: rows a second, and how long the tail gets.
fn stream(bench: &mut Bench, cluster: &Cluster) -> Result<()> {
    let mut client = cluster.connect("small")?;
    let start = Instant::now();
    let (mut rows, mut longest, mut looked) = (0, 0, Instant::now());
    while start.elapsed() < STREAM {
        client.batch_execute(&format!(
            "INSERT INTO small_varve SELECT '2027-01-01'::timestamptz + ({rows} + g) * interval '1 ms', g % 1000, g % 100 / 10.0
             FROM generate_series(1, 400) g"
        ))?;
        rows += 400;
        if looked.elapsed() > Duration::from_secs(5) {
            looked = Instant::now();
            let tail = client.query_one(
                "SELECT rows FROM varve.stats('small_varve') WHERE part = 'tail'",
                &[],
            )?;
            longest = longest.max(tail.get::<_, i64>(0));
        }
    }
    let rate = rows as f64 / start.elapsed().as_secs_f64();
    let (page, report) = (&mut bench.page, &mut bench.report);
    page.own(
        report,
        "statements of 400 rows: rows a second, one session",
        rate,
        Goal::None,
    );
    page.own(
        report,
        "its longest tail, in rows",
        longest as f64,
        Goal::None,
    );
    Ok(())
}
