//! Changes of a few compressed rows at a time, as applications make them: by key, in loops, in sessions beside each other. Heap has the
//! same key. Processor time is the server's, of all sessions that make the changes.

use super::page::{Goal, Judge};
use super::{median, small, Bench};
use crate::heap_pair;
use crate::measure::{buffers, total_size, wal_position};
use crate::random::Random;
use crate::server::Cluster;
use crate::Result;
use postgres::Client;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

const TABLES: [(&str, &str); 2] = [("rows_heap", "heap"), ("rows_varve", "varve")];
/// Rows of a table: ten series of 6,000 rows in one chunk.
const ROWS: i64 = 60_000;
const SERIES: i64 = 10;
const UPDATES: usize = 2_000;
/// Sessions that upsert, and the queue's workers.
const SESSIONS: usize = 8;
const WORKERS: usize = 6;
/// Rows that are gone one by one from a chunk that is read.
const GONE: usize = 1_000;
const LOCKS: i64 = 100_000;
/// Of pgbench, before and after each of which the tables are measured.
const TURNS: usize = 3;
const TURN_SECONDS: u64 = 10;

/// What something has cost.
#[derive(Clone, Copy)]
struct Cost {
    milliseconds: f64,
    wal: f64,
    /// How much the table with its indexes has grown.
    bytes: f64,
}

pub fn run(bench: &mut Bench) -> Result<()> {
    let settings = [
        "varve.worker = off",
        "synchronous_commit = off",
        "full_page_writes = off",
        "max_wal_size = '16GB'",
        "shared_buffers = '1GB'",
        "jit = off",
        "autovacuum = off",
    ];
    bench.page.section(
        "Changing single compressed rows",
        &format!(
            "{ROWS} rows of {SERIES} series in one chunk, primary key (sensor, time), synchronous_commit and full_page_writes off, \
             no worker. Each case finds the table compacted, heap's vacuumed; medians of {} runs in turns.",
            bench.runs
        ),
    );
    let cluster = Cluster::create(&bench.tree, &settings)?;
    let mut client = cluster.database("rows")?;
    for (table, method) in TABLES {
        client.batch_execute(&format!(
            "CREATE TABLE {table}(time timestamptz, sensor int, value float8, PRIMARY KEY (sensor, time)) USING {method}"
        ))?;
    }
    alone(bench, &mut client)?;
    loops(bench, &mut client)?;
    beside(bench, &cluster, &mut client)?;
    reading(bench, &mut client)?;
    locks(bench, &cluster, &mut client)?;
    upserts(bench, &cluster, &mut client)?;
    fill(&mut client)?;
    let equal = heap_pair::expect_equal(&mut client, TABLES[0].0, TABLES[1].0);
    bench
        .report
        .check("tables/rows changed one by one are the same in both", equal);
    let verified = heap_pair::expect_verified(&mut client, TABLES[1].0);
    bench
        .report
        .check("tables/rows changed one by one verified", verified);
    Ok(())
}

/// Fills both tables anew.
fn fill(client: &mut Client) -> Result<()> {
    for (table, _) in TABLES {
        client.batch_execute(&format!(
            "TRUNCATE {table};
             INSERT INTO {table} SELECT {}, i % {SERIES} + 1, i % 997 / 10.0 FROM generate_series(0, {ROWS} - 1) i",
            time("i")
        ))?;
    }
    heap_pair::compact(client, TABLES[1].0)?;
    client.batch_execute(&format!("VACUUM {}", TABLES[0].0))?;
    client.batch_execute("ANALYZE")?;
    Ok(())
}

/// When row `i` was measured.
fn time(row: &str) -> String {
    format!("'2026-01-01'::timestamptz + ({row}) / {SERIES} * interval '1 s'")
}

/// Rows that are not the same twice, in any order.
fn some_rows(count: usize, seed: u64) -> Vec<i64> {
    let mut random = Random::new(seed);
    let mut rows: Vec<i64> = (0..ROWS).collect();
    for at in 0..count {
        let other = random.integer(at as i64, rows.len() as i64) as usize;
        rows.swap(at, other);
    }
    rows.truncate(count);
    rows
}

/// Of what `act` does to a table.
fn cost_of(
    client: &mut Client,
    table: &str,
    act: impl FnOnce(&mut Client) -> Result<()>,
) -> Result<Cost> {
    let (wal, bytes) = (wal_position(client)?, total_size(client, table)?);
    let start = Instant::now();
    act(client)?;
    Ok(Cost {
        milliseconds: start.elapsed().as_secs_f64() * 1e3,
        wal: (wal_position(client)? - wal) as f64,
        bytes: (total_size(client, table)? - bytes) as f64,
    })
}

/// Medians of a case on heap and on varve, in turns, each of which finds the tables filled anew.
fn in_turns(
    bench: &Bench,
    client: &mut Client,
    mut case: impl FnMut(&mut Client, &str) -> Result<Cost>,
) -> Result<(Cost, Cost)> {
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..bench.runs {
        fill(client)?;
        for (at, (table, _)) in TABLES.iter().enumerate() {
            costs[at].push(case(client, table)?);
        }
    }
    let [heap, varve] = costs.map(|costs| {
        let of = |figure: fn(&Cost) -> f64| median(costs.iter().map(figure).collect());
        Cost {
            milliseconds: of(|cost| cost.milliseconds),
            wal: of(|cost| cost.wal),
            bytes: of(|cost| cost.bytes),
        }
    });
    Ok((heap, varve))
}

fn show(bench: &mut Bench, name: &str, (heap, varve): (f64, f64), goal: Goal) {
    let judged = (Judge::Ratio, goal);
    bench
        .page
        .both(&mut bench.report, name, (heap, varve), judged);
}

/// One session, a statement a transaction.
fn alone(bench: &mut Bench, client: &mut Client) -> Result<()> {
    let rows = some_rows(UPDATES, 12);
    let mut parts = [Vec::new(), Vec::new()];
    let (heap, varve) = in_turns(bench, client, |client, table| {
        let update = format!(
            "UPDATE {table} SET value = value + 0.1 WHERE sensor = $1::bigint % {SERIES} + 1 AND time = {}",
            time("$1")
        );
        let update = client.prepare(&update)?;
        let mut times = Vec::new();
        let cost = cost_of(client, table, |client| {
            for row in &rows {
                let start = Instant::now();
                client.execute(&update, &[row])?;
                times.push(start.elapsed().as_secs_f64());
            }
            Ok(())
        })?;
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        if table == TABLES[1].0 {
            parts[0].push(mean(&times[..UPDATES / 4]));
            parts[1].push(mean(&times[UPDATES / 4 * 3..]));
        }
        Ok(cost)
    })?;
    let each = UPDATES as f64;
    let ms = (heap.milliseconds / each, varve.milliseconds / each);
    show(bench, "ms of an UPDATE of one row", ms, Goal::Most(2.0));
    let wal = (heap.wal / each, varve.wal / each);
    show(bench, "WAL bytes of it", wal, Goal::Most(3.0));
    let [first, last] = parts.map(median);
    bench.page.own(
        &mut bench.report,
        "the last 500 ÷ the first 500",
        last / first,
        Goal::Most(1.3),
    );
    bench.page.own(
        &mut bench.report,
        "bytes that table and indexes grow by it",
        varve.bytes / each,
        Goal::Most(600.0),
    );
    let gone = some_rows(26_000, 13);
    let (gone, rows) = gone.split_at(23_000);
    let (heap, varve) = in_turns(bench, client, |client, table| {
        let own = format!(
            "sensor = $1::bigint % {SERIES} + 1 AND time = {}",
            time("$1")
        );
        client.execute(
            &format!("DELETE FROM {table} t USING unnest($1::bigint[]) i WHERE t.sensor = i % {SERIES} + 1 AND t.time = {}", time("i")),
            &[&gone],
        )?;
        let delete = client.prepare(&format!("DELETE FROM {table} WHERE {own}"))?;
        cost_of(client, table, |client| {
            for row in rows {
                client.execute(&delete, &[row])?;
            }
            Ok(())
        })
    })?;
    let each = rows.len() as f64;
    let ms = (heap.milliseconds / each, varve.milliseconds / each);
    show(
        bench,
        "ms of a DELETE of one row, 23,000 gone",
        ms,
        Goal::None,
    );
    let wal = (heap.wal / each, varve.wal / each);
    show(
        bench,
        "WAL bytes of it, with 23,000 gone",
        wal,
        Goal::Most(3.0),
    );
    Ok(())
}

/// One statement that changes many rows, one after the other.
fn loops(bench: &mut Bench, client: &mut Client) -> Result<()> {
    let own = format!("sensor = i % {SERIES} + 1 AND time = {}", time("i"));
    let delete = format!("DELETE FROM {{t}} WHERE {own};");
    let upsert = format!(
        "INSERT INTO {{t}} VALUES ({}, i % {SERIES} + 1, 1.5) ON CONFLICT (sensor, time) DO UPDATE SET value = EXCLUDED.value;",
        time("i")
    );
    let cases = [
        (
            "20,000 DELETEs of a row in a DO block",
            20_000,
            delete.clone(),
        ),
        (
            "5,000 of them, an EXCEPTION block each",
            5_000,
            format!("BEGIN {delete} EXCEPTION WHEN division_by_zero THEN NULL; END;"),
        ),
        ("2,500 upserts in a DO block", 2_500, upsert),
    ];
    for (name, count, body) in cases {
        let step = 7_919;
        let (heap, varve) = in_turns(bench, client, |client, table| {
            let body = body.replace("{t}", table);
            cost_of(client, table, |client| {
                Ok(client.batch_execute(&format!(
                    "DO $$ DECLARE i bigint; BEGIN FOR n IN 1 .. {count} LOOP i := n::bigint * {step} % {ROWS}; {body} END LOOP; END $$"
                ))?)
            })
        })?;
        let ms = (heap.milliseconds, varve.milliseconds);
        show(bench, &format!("ms of {name}"), ms, Goal::Most(5.0));
    }
    cascade(bench, client)
}

/// ON DELETE CASCADE of 2,000 parents.
fn cascade(bench: &mut Bench, client: &mut Client) -> Result<()> {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..bench.runs {
        for (at, (_, method)) in TABLES.iter().enumerate() {
            client.batch_execute(&format!(
                "DROP TABLE IF EXISTS children, parents;
                 CREATE TABLE parents(id int PRIMARY KEY);
                 INSERT INTO parents SELECT generate_series(1, 3000);
                 CREATE TABLE children(parent int REFERENCES parents ON DELETE CASCADE, time timestamptz, value float8,
                                       PRIMARY KEY (parent, time)) USING {method};
                 INSERT INTO children SELECT i % 3000 + 1, {}, i % 997 / 10.0 FROM generate_series(0, {ROWS} - 1) i",
                time("i")
            ))?;
            if *method == "varve" {
                heap_pair::compact(client, "children")?;
            }
            client.batch_execute("ANALYZE parents, children")?;
            let start = Instant::now();
            client.batch_execute("DELETE FROM parents WHERE id <= 2000")?;
            times[at].push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    let [heap, varve] = times.map(median);
    let name = "ms of ON DELETE CASCADE of 2,000 parents";
    show(bench, name, (heap, varve), Goal::Most(5.0));
    Ok(())
}

/// Several sessions.
fn beside(bench: &mut Bench, cluster: &Cluster, client: &mut Client) -> Result<()> {
    let mut failed = 0;
    let (heap, varve) = in_turns(bench, client, |client, table| {
        cost_of(client, table, |_| {
            failed += upsert_beside(cluster, table)?;
            Ok(())
        })
    })?;
    let name = format!("ms of {SESSIONS} sessions that upsert 200 rows each, no row twice, shuffled, 50 a statement");
    let ms = (heap.milliseconds, varve.milliseconds);
    show(bench, &name, ms, Goal::Most(3.0));
    bench.page.own(
        &mut bench.report,
        "statements of these that failed",
        failed as f64,
        Goal::Most(0.0),
    );
    let mut wrong = 0;
    let (heap, varve) = in_turns(bench, client, |client, table| {
        cost_of(client, table, |_| {
            wrong += work_off(cluster, table)?;
            Ok(())
        })
    })?;
    let name =
        format!("ms of a queue of 4,000 rows, {WORKERS} workers, LIMIT 20 FOR UPDATE SKIP LOCKED");
    let ms = (heap.milliseconds, varve.milliseconds);
    show(bench, &name, ms, Goal::Most(3.0));
    bench.page.own(
        &mut bench.report,
        "rows of it that nobody took, or two, and deadlocks",
        wrong as f64,
        Goal::Most(0.0),
    );
    Ok(())
}

/// What readers pay for rows that are gone one by one.
fn reading(bench: &mut Bench, client: &mut Client) -> Result<()> {
    fill(client)?;
    let table = TABLES[1].0;
    let scan =
        format!("SELECT count(value), string_agg(value::text, '') FROM {table} WHERE value >= 0");
    let point = format!(
        "SELECT value FROM {table} WHERE sensor = 4 AND time = {}",
        time("30003")
    );
    let before = (median_of(client, &scan)?, buffers(client, &point)?);
    let delete = client.prepare(&format!(
        "DELETE FROM {table} WHERE sensor = $1::bigint % {SERIES} + 1 AND time = {}",
        time("$1")
    ))?;
    for row in some_rows(GONE + 1, 15)
        .into_iter()
        .filter(|&row| row != 30_003)
        .take(GONE)
    {
        client.execute(&delete, &[&row])?;
    }
    let after = (median_of(client, &scan)?, buffers(client, &point)?);
    // As long as a commit may be lost in a crash, nobody marks the entries of a header that it has replaced, as in a heap's index.
    client.batch_execute(
        "BEGIN; SET LOCAL synchronous_commit = on; SELECT pg_current_xact_id(); COMMIT",
    )?;
    let on_disk = buffers(client, &point)?;
    let (page, report) = (&mut bench.page, &mut bench.report);
    let name = "time of a scan of all rows with 1,000 gone ÷ without";
    page.own(report, name, after.0 / before.0, Goal::Most(1.2));
    let name = "buffers of a point query more, as soon as the changes are on disk";
    page.own(report, name, (on_disk - before.1) as f64, Goal::Most(2.0));
    let name = "the same right after them, some 0.2 s long";
    page.own(report, name, (after.1 - before.1) as f64, Goal::None);
    Ok(())
}

/// Milliseconds of a statement, the median of eleven.
fn median_of(client: &mut Client, statement: &str) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..11 {
        let start = Instant::now();
        client.batch_execute(statement)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(times))
}

/// Row locks beside a snapshot that sees all of them.
fn locks(bench: &mut Bench, cluster: &Cluster, client: &mut Client) -> Result<()> {
    fill(client)?;
    let table = TABLES[1].0;
    let point = format!(
        "SELECT value FROM {table} WHERE sensor = 4 AND time = {}",
        time("30003")
    );
    let before = (median_of(client, &point)?, total_size(client, table)?);
    let mut idle = cluster.connect("rows")?;
    idle.batch_execute(&format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM {table}"
    ))?;
    client.batch_execute(&format!(
        "DO $$ BEGIN FOR i IN 1 .. {LOCKS} LOOP
             PERFORM FROM {table} WHERE sensor = 4 AND time = {} FOR UPDATE;
             COMMIT;
         END LOOP; END $$",
        time("30003")
    ))?;
    let after = (median_of(client, &point)?, total_size(client, table)?);
    idle.batch_execute("COMMIT")?;
    heap_pair::compact(client, table)?;
    let left = total_size(client, table)?;
    let (page, report) = (&mut bench.page, &mut bench.report);
    let name = "time of a point query after 100,000 locks of its row beside a snapshot ÷ before";
    page.own(report, name, after.0 / before.0, Goal::Most(2.0));
    let name = "bytes that a lock leaves";
    page.own(
        report,
        name,
        (after.1 - before.1) as f64 / LOCKS as f64,
        Goal::Most(200.0),
    );
    let name = "bytes more after the next compact";
    page.own(report, name, (left - before.1) as f64, Goal::Most(0.0));
    Ok(())
}

/// Upserts of compressed rows by many clients, with a compact now and then.
fn upserts(bench: &mut Bench, cluster: &Cluster, client: &mut Client) -> Result<()> {
    for (table, _) in TABLES {
        client.batch_execute(&format!(
            "TRUNCATE {table};
             INSERT INTO {table} SELECT '2026-01-01'::timestamptz + i / 1000 * interval '1 s', i % 1000 + 1, i % 997 / 10.0
             FROM generate_series(0, 599999) i"
        ))?;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("pgbench/upsert_compressed.sql");
    let (mut speeds, mut grown) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..TURNS {
        heap_pair::compact(client, TABLES[1].0)?;
        client.batch_execute(&format!("VACUUM {}", TABLES[0].0))?;
        for (at, (table, _)) in TABLES.iter().enumerate() {
            let before = total_size(client, table)?;
            speeds[at].push(small::per_second(
                cluster,
                ("rows", table),
                &script,
                TURN_SECONDS,
            )?);
            grown[at].push((total_size(client, table)? - before) as f64);
        }
    }
    let last = speeds[1].last().copied().unwrap_or_default() / speeds[1][0];
    let [heap, varve] = speeds.map(median);
    let name = "pgbench upsert of compressed rows, 8 clients: transactions a second";
    show(bench, name, (heap, varve), Goal::Least(0.6));
    let name = "its last turn ÷ its first, a compact before each";
    bench
        .page
        .own(&mut bench.report, name, last, Goal::Least(0.8));
    let [heap, varve] = grown.map(|bytes| bytes[0]);
    show(
        bench,
        "bytes that it grows in the first turn",
        (heap, varve),
        Goal::Most(3.0),
    );
    Ok(())
}

/// How many statements failed.
fn upsert_beside(cluster: &Cluster, table: &str) -> Result<usize> {
    let all = some_rows(SESSIONS * 200, 14);
    in_sessions(cluster, SESSIONS, |session, client| {
        let rows = &all[session * 200..(session + 1) * 200];
        let mut failed = 0;
        for rows in rows.chunks(50) {
            let values: Vec<_> = rows
                .iter()
                .map(|row| format!("({}, {row} % {SERIES} + 1, 2.5)", time(&row.to_string())))
                .collect();
            let upsert = format!(
                "INSERT INTO {table} VALUES {} ON CONFLICT (sensor, time) DO UPDATE SET value = EXCLUDED.value",
                values.join(", ")
            );
            failed += usize::from(client.batch_execute(&upsert).is_err());
        }
        Ok(failed)
    })
}

/// How many rows were not taken exactly once, and statements that failed.
fn work_off(cluster: &Cluster, table: &str) -> Result<usize> {
    let taken = Mutex::new(Vec::new());
    let failed = in_sessions(cluster, WORKERS, |_, client| {
        let take = format!(
            "WITH next AS (SELECT sensor, time FROM {table} WHERE sensor = 3 AND time < {} ORDER BY time LIMIT 20 FOR UPDATE SKIP LOCKED)
             DELETE FROM {table} t USING next n WHERE t.sensor = n.sensor AND t.time = n.time
             RETURNING extract(epoch FROM t.time)::bigint",
            time(&(4_000 * SERIES).to_string())
        );
        let mut failed = 0;
        loop {
            match client.query(take.as_str(), &[]) {
                Ok(rows) if rows.is_empty() => return Ok(failed),
                Ok(rows) => {
                    let mut taken = taken.lock().map_err(|_| "a worker has failed")?;
                    taken.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
                }
                Err(_) if failed > 100 => return Ok(failed),
                Err(_) => failed += 1,
            }
        }
    })?;
    let mut taken = taken.into_inner().map_err(|_| "a worker has failed")?;
    let count = taken.len();
    taken.sort_unstable();
    taken.dedup();
    Ok(failed + (count - taken.len()) + 4_000_usize.abs_diff(taken.len()))
}

/// The sum of what each session returns.
fn in_sessions(
    cluster: &Cluster,
    count: usize,
    body: impl Fn(usize, &mut Client) -> Result<usize> + Sync,
) -> Result<usize> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(cluster.connect("rows")?);
    }
    std::thread::scope(|scope| {
        let body = &body;
        let start = |(session, mut client): (usize, Client)| {
            scope.spawn(move || body(session, &mut client).map_err(|error| error.to_string()))
        };
        let threads: Vec<_> = clients.into_iter().enumerate().map(start).collect();
        let mut sum = 0;
        for thread in threads {
            sum += thread.join().map_err(|_| "a session has panicked")??;
        }
        Ok(sum)
    })
}
