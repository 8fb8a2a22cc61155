//! The figures that tell whether varve is well, as exact counters: no times, so any machine gives the same page. A tenth of
//! the Time Series Benchmark Suite's cpu data (100 hosts, 7.2 hours), crashes, and PostgreSQL's own suites.

mod steady;

use super::core_suites::{Sources, Suite};
use super::crash;
use crate::generate::{self, CPU_COLUMNS as COLUMNS};
use crate::heap_pair;
use crate::measure::{buffers, file_per_live_byte, total_size, wal_position};
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::Result;
use postgres::error::SqlState;
use postgres::Client;
use std::io::Write as _;
use std::sync::Arc;

const HOSTS: usize = 100;
const STEPS: i64 = 2_592;
const VALUES_PER_ROW: i64 = 10;
const CRASHES: u64 = 5;

/// What is asked of both tables: a name, the query, and by what its buffers are divided.
const QUERIES: [(&str, &str, i64); 5] = [
    (
        "one host, 1 h, 1 column",
        "SELECT date_trunc('minute', time), max(usage_user) FROM {t} WHERE tags_id = 17
         AND time >= '2016-01-01 03:10:00Z' AND time < '2016-01-01 04:10:00Z' GROUP BY 1",
        1,
    ),
    (
        "one host, 7 h, 5 columns",
        "SELECT date_trunc('hour', time), max(usage_user), max(usage_system), max(usage_idle), max(usage_nice), max(usage_iowait)
         FROM {t} WHERE tags_id = 17 AND time >= '2016-01-01 00:05:00Z' AND time < '2016-01-01 07:05:00Z' GROUP BY 1",
        1,
    ),
    (
        "8 hosts, 1 h, 5 columns",
        "SELECT date_trunc('minute', time), max(usage_user), max(usage_system), max(usage_idle), max(usage_nice), max(usage_iowait)
         FROM {t} WHERE tags_id IN (3, 14, 15, 35, 65, 79, 89, 97)
         AND time >= '2016-01-01 03:10:00Z' AND time < '2016-01-01 04:10:00Z' GROUP BY 1",
        1,
    ),
    (
        "last point, per host",
        "SELECT l.* FROM generate_series(1, 100) h,
         LATERAL (SELECT * FROM {t} c WHERE c.tags_id = h ORDER BY time DESC LIMIT 1) l",
        HOSTS as i64,
    ),
    ("count(*)", "SELECT count(*) FROM {t}", 1),
];

/// The page: a line for each figure, heap's beside varve's where heap has one.
#[derive(Default)]
struct Page {
    lines: Vec<String>,
}

pub fn run(tree: &Arc<Tree>, report: &mut Report, path: &str) -> Result<()> {
    let mut page = Page::default();
    storage(tree, &mut page)?;
    let failed_before = report.failures().len();
    crash::run(tree, report, CRASHES, 1)?;
    let unequal = report.failures().len() - failed_before;
    page.add(
        &format!("rounds that ended with a fault, of {CRASHES} kill -9"),
        "0",
        &unequal.to_string(),
    );
    match Sources::find(report)? {
        None => page.add(
            "differing outputs of PostgreSQL's suites",
            "0",
            "skipped: no sources",
        ),
        Some(sources) => {
            for (suite, name) in [
                (Suite::Regression, "regression"),
                (Suite::Isolation, "isolation"),
            ] {
                let differing = sources.count(tree, report, suite)?;
                page.add(
                    &format!("differing outputs of PostgreSQL's {name} suite"),
                    "0",
                    &differing.to_string(),
                );
            }
        }
    }
    let text = page.text();
    print!("{text}");
    Ok(std::fs::write(path, text)?)
}

/// Loads, asks, deletes; everything in one cluster without autovacuum, so that the counters are exact.
fn storage(tree: &Arc<Tree>, page: &mut Page) -> Result<()> {
    let cluster = Cluster::create(
        tree,
        &["autovacuum = off", "checkpoint_timeout = '1h'", "jit = off"],
    )?;
    let mut client = cluster.database("vitals")?;
    client.batch_execute("CREATE EXTENSION pageinspect")?;
    let method = heap_pair::access_method();
    let index = if method == "varve" { "varve" } else { "btree" };
    client.batch_execute(&format!(
        "CREATE TABLE cpu_heap({COLUMNS}); CREATE INDEX ON cpu_heap (tags_id, time DESC); CREATE INDEX ON cpu_heap (time DESC);
         CREATE TABLE cpu_varve({COLUMNS}) USING {method}; CREATE INDEX ON cpu_varve USING {index} (tags_id, time)"
    ))?;
    let mut rows = Vec::new();
    generate::cpu(&mut rows, HOSTS, STEPS)?;
    let count = HOSTS as i64 * STEPS;
    let mut wal = Vec::new();
    for table in ["cpu_heap", "cpu_varve"] {
        let before = wal_position(&mut client)?;
        let mut writer = client.copy_in(&format!("COPY {table} FROM STDIN (FORMAT csv)"))?;
        writer.write_all(&rows)?;
        writer.finish()?;
        wal.push(wal_position(&mut client)? - before);
    }
    page.ratio("WAL bytes per row of COPY", wal[0], wal[1], count);
    let heap_size = total_size(&mut client, "cpu_heap")?;
    page.ratio(
        "bytes per value after COPY",
        heap_size,
        total_size(&mut client, "cpu_varve")?,
        count * VALUES_PER_ROW,
    );
    heap_pair::compact(&mut client, "cpu_varve")?;
    client.batch_execute("VACUUM ANALYZE cpu_heap")?;
    client.batch_execute("ANALYZE cpu_varve")?;
    page.ratio(
        "bytes per value after compact",
        heap_size,
        total_size(&mut client, "cpu_varve")?,
        count * VALUES_PER_ROW,
    );
    let fill = |client: &mut Client, table: &str| -> Result<String> {
        Ok(format!("{:.3}", file_per_live_byte(client, table)?))
    };
    let (heap_fill, varve_fill) = (
        fill(&mut client, "cpu_heap")?,
        fill(&mut client, "cpu_varve")?,
    );
    page.add("file size ÷ live tuple bytes", &heap_fill, &varve_fill);
    chunks(&mut client, page)?;
    for (name, query, divisor) in QUERIES {
        let touched =
            |client: &mut Client, table: &str| buffers(client, &query.replace("{t}", table));
        let (heap, varve) = (
            touched(&mut client, "cpu_heap")?,
            touched(&mut client, "cpu_varve")?,
        );
        page.ratio(&format!("buffers: {name}"), heap, varve, divisor);
    }
    deletes(&mut client, page, count)?;
    small_batches(&mut client, page)?;
    single_inserts(&mut client, page)?;
    single_updates(&mut client, page)?;
    upserts(&cluster, page)?;
    steady::measure(&mut client, page)?;
    heap_pair::expect_equal(&mut client, "cpu_heap", "cpu_varve")?;
    heap_pair::expect_verified(&mut client, "cpu_varve")
}

fn chunks(client: &mut Client, page: &mut Page) -> Result<()> {
    if heap_pair::access_method() != "varve" {
        return Ok(());
    }
    let query = "SELECT count(*), coalesce(avg(rows), 0)::float8, coalesce(avg(header_bytes), 0)::float8, count(*) FILTER (WHERE one_series) FROM varve.chunks('cpu_varve')";
    let row = client.query_one(query, &[])?;
    page.add("chunks", "–", &row.get::<_, i64>(0).to_string());
    page.add(
        "rows per chunk",
        "–",
        &format!("{:.1}", row.get::<_, f64>(1)),
    );
    page.add(
        "header bytes per chunk",
        "–",
        &format!("{:.1}", row.get::<_, f64>(2)),
    );
    Ok(())
}

/// What a point query touches after many small batches without a compact.
fn small_batches(client: &mut Client, page: &mut Page) -> Result<()> {
    const BATCHES: i64 = 500;
    let mut touched = Vec::new();
    for method in ["heap", &heap_pair::access_method()] {
        client.batch_execute(&format!(
            "CREATE TABLE small(time timestamptz, host int, value int, PRIMARY KEY (host, time)) USING {method}"
        ))?;
        for batch in 0..BATCHES {
            client.batch_execute(&format!(
                "INSERT INTO small SELECT '2026-01-01'::timestamptz + ({batch} * 5 + g / 100) * interval '1 s', g % 100, g
                 FROM generate_series(0, 499) g"
            ))?;
        }
        client.batch_execute("ANALYZE small")?;
        let query = "SELECT value FROM small WHERE host = 17 AND time = '2026-01-01'::timestamptz + interval '20 s'";
        touched.push(buffers(client, query)?);
        client.batch_execute("DROP TABLE small")?;
    }
    let name = format!("buffers: one row, after {BATCHES} batches of 500 rows");
    page.ratio(&name, touched[0], touched[1], 1);
    Ok(())
}

/// Inserts of one row each, in transactions of their own, and a compact now and then: what they and that write to the log.
fn single_inserts(client: &mut Client, page: &mut Page) -> Result<()> {
    const SERIES: i64 = 1_000;
    const ROUNDS: i64 = 4;
    const ROUND_ROWS: i64 = 10_000;
    for (indexes, second) in [
        ("a primary key", ""),
        (
            "a primary key and another index",
            "CREATE INDEX ON one_by_one (value)",
        ),
    ] {
        let mut wal = Vec::new();
        for method in ["heap", &heap_pair::access_method()] {
            // No page is logged whole that is only a moment old.
            client.batch_execute("CHECKPOINT")?;
            client.batch_execute(&format!(
                "CREATE TABLE one_by_one(time timestamptz, host int, value float8, PRIMARY KEY (host, time)) USING {method}; {second}"
            ))?;
            let before = wal_position(client)?;
            for round in 0..ROUNDS {
                let first = round * ROUND_ROWS;
                client.batch_execute(&format!(
                    "DO $$ BEGIN FOR i IN {first} .. {first} + {ROUND_ROWS} - 1 LOOP
                         INSERT INTO one_by_one VALUES ('2026-01-01'::timestamptz + i * interval '10 ms', i % {SERIES}, i / 1000 % 97 / 10.0);
                         COMMIT;
                     END LOOP; END $$"
                ))?;
                if method != "heap" {
                    heap_pair::compact(client, "one_by_one")?;
                }
            }
            wal.push(wal_position(client)? - before);
            client.batch_execute("DROP TABLE one_by_one")?;
        }
        let name = format!("WAL bytes of a single-row insert and its compact, {indexes}");
        page.ratio(&name, wal[0], wal[1], ROUNDS * ROUND_ROWS);
    }
    Ok(())
}

/// Updates of one row of a chunk each, in transactions of their own: what the first and the last hundred of a thousand cost.
fn single_updates(client: &mut Client, page: &mut Page) -> Result<()> {
    const ROWS: i64 = 60_000;
    let mut figures = Vec::new();
    for method in ["heap", &heap_pair::access_method()] {
        // No page is logged whole that is only a moment old.
        client.batch_execute("CHECKPOINT")?;
        client.batch_execute(&format!(
            "CREATE TABLE single(time timestamptz, host int, value float8, PRIMARY KEY (host, time)) USING {method};
             INSERT INTO single SELECT '2026-01-01'::timestamptz + g * interval '1 s', 1, g FROM generate_series(1, {ROWS}) g"
        ))?;
        if method != "heap" {
            heap_pair::compact(client, "single")?;
        }
        for hundred in 0..10 {
            let (wal, size) = (wal_position(client)?, total_size(client, "single")?);
            for update in hundred * 100..(hundred + 1) * 100 {
                let row = update * 7_919 % ROWS + 1;
                client.batch_execute(&format!(
                    "UPDATE single SET value = -value WHERE host = 1 AND time = '2026-01-01'::timestamptz + {row} * interval '1 s'"
                ))?;
            }
            let wal = wal_position(client)? - wal;
            figures.push((wal, total_size(client, "single")? - size));
        }
        client.batch_execute("DROP TABLE single")?;
    }
    for (name, at) in [("first", 0), ("last", 9)] {
        let (heap, varve) = (figures[at], figures[10 + at]);
        let name = format!("of 1,000 single-row updates of a chunk, {name} 100");
        page.ratio(&format!("WAL bytes, each {name}"), heap.0, varve.0, 100);
        page.ratio(&format!("growth, each {name}"), heap.1, varve.1, 100);
    }
    Ok(())
}

/// Upserts of different rows by four sessions at a time, in orders of their own.
fn upserts(cluster: &Cluster, page: &mut Page) -> Result<()> {
    const SESSIONS: i64 = 4;
    const STATEMENTS: i64 = 20;
    let mut client = cluster.connect("vitals")?;
    let mut deadlocks = Vec::new();
    for method in ["heap", &heap_pair::access_method()] {
        client.batch_execute(&format!(
            "CREATE TABLE upserted(time timestamptz, host int, value int, PRIMARY KEY (host, time)) USING {method};
             INSERT INTO upserted SELECT '2026-01-01'::timestamptz + g * interval '1 s', h, 0
             FROM generate_series(1, 20) h, generate_series(1, 2000) g"
        ))?;
        if method != "heap" {
            heap_pair::compact(&mut client, "upserted")?;
        }
        let session = |number: i64| -> std::result::Result<i64, String> {
            let mut client = cluster
                .connect("vitals")
                .map_err(|error| error.to_string())?;
            let mut failed = 0;
            for statement in 0..STATEMENTS {
                // 50 rows that no other statement has, over all hosts.
                let done = client.batch_execute(&format!(
                    "INSERT INTO upserted SELECT '2026-01-01'::timestamptz + (1 + ({number} + {SESSIONS} * ({statement} * 50 + g)) / 20) * interval '1 s',
                         1 + ({number} + {SESSIONS} * ({statement} * 50 + g)) % 20, 1
                     FROM generate_series(0, 49) g ORDER BY hashint4(g + {number})
                     ON CONFLICT (host, time) DO UPDATE SET value = excluded.value"
                ));
                match done {
                    Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {
                        failed += 1;
                    }
                    other => other.map_err(|error| error.to_string())?,
                }
            }
            Ok(failed)
        };
        let failed = std::thread::scope(|scope| {
            let sessions: Vec<_> = (0..SESSIONS)
                .map(|number| scope.spawn(move || session(number)))
                .collect();
            let ended = sessions
                .into_iter()
                .map(|one| one.join().expect("no panic"));
            ended.sum::<std::result::Result<i64, String>>()
        })?;
        deadlocks.push(failed);
        client.batch_execute("DROP TABLE upserted")?;
    }
    let name = format!(
        "deadlocks of {} upserts of different rows, {SESSIONS} sessions",
        SESSIONS * STATEMENTS
    );
    page.add(&name, &deadlocks[0].to_string(), &deadlocks[1].to_string());
    Ok(())
}

/// Every hundredth row goes; then what that cost for each of them.
fn deletes(client: &mut Client, page: &mut Page, count: i64) -> Result<()> {
    let (mut wal, mut growth) = (Vec::new(), Vec::new());
    for table in ["cpu_heap", "cpu_varve"] {
        let (wal_before, size_before) = (wal_position(client)?, total_size(client, table)?);
        // Exactly one in a hundred, scattered over all hosts: host and ten-second step decide.
        client.batch_execute(&format!(
            "DELETE FROM {table} WHERE (extract(epoch FROM time)::bigint / 10 + tags_id) % 100 = 0"
        ))?;
        wal.push(wal_position(client)? - wal_before);
        growth.push(total_size(client, table)? - size_before);
    }
    page.ratio(
        "WAL bytes per deleted row, every 100th",
        wal[0],
        wal[1],
        count / 100,
    );
    page.ratio(
        "file growth per deleted row, every 100th",
        growth[0],
        growth[1],
        count / 100,
    );
    Ok(())
}

impl Page {
    fn add(&mut self, name: &str, heap: &str, varve: &str) {
        self.lines.push(format!("| {name} | {heap} | {varve} |"));
    }

    fn ratio(&mut self, name: &str, heap: i64, varve: i64, divisor: i64) {
        let per = |value: i64| format!("{:.2}", value as f64 / divisor as f64);
        self.add(name, &per(heap), &per(varve));
    }

    fn text(&self) -> String {
        let head = "# Vitals\n\n`make vitals`: exact counters on a tenth of the Time Series Benchmark Suite's cpu data as \
                    `varve-bench generate cpu`\nmakes it; the heap has the suite's two indexes.\n\n| | heap | varve |\n|---|---|---|\n";
        format!("{head}{}\n", self.lines.join("\n"))
    }
}
