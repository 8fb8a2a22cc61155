//! A1 into both tables: COPY by one stream and by two, WAL, memory, sizes, and what compact needs on the way.

use super::data::Cpu;
use super::page::{Goal, Judge};
use super::{copy, create, median, watch, Bench};
use crate::measure::{file_per_live_byte, total_size, wal_position};
use crate::{heap_pair, Result};
use postgres::Client;
use std::path::PathBuf;
use std::time::Instant;

const MEGABYTE: f64 = (1 << 20) as f64;
pub const VALUES_PER_ROW: usize = 10;

/// Leaves `cpu_heap` and a compacted `cpu_varve` in the client's database.
pub fn run(bench: &mut Bench, client: &mut Client, data: &Cpu) -> Result<()> {
    bench.page.section("Loading and sizes", &format!(
        "{} rows of {VALUES_PER_ROW} values; COPY from a file of the server, fsync on, {} runs taken in turns, medians. Two \
         streams share the work: each loads every other host.",
        data.rows, bench.runs
    ));
    create(client, "cpu_heap", false)?;
    create(client, "cpu_varve", true)?;
    speeds(bench, client, data)?;
    let mut sizes = Vec::new();
    let mut wal = Vec::new();
    let mut memory = 0;
    for table in ["cpu_heap", "cpu_varve"] {
        client.batch_execute(&format!("TRUNCATE {table}"))?;
        let before = wal_position(client)?;
        let ((), peaks) = watch::during(&bench.cluster, client, table, |client| {
            copy(client, table, &data.all)
        })?;
        wal.push((wal_position(client)? - before) as f64 / data.rows as f64);
        sizes.push(total_size(client, table)? as f64);
        memory = peaks.memory_bytes;
    }
    let values = (data.rows * VALUES_PER_ROW) as f64;
    let (page, report) = (&mut bench.page, &mut bench.report);
    page.both(
        report,
        "WAL bytes a row of COPY",
        (wal[0], wal[1]),
        (Judge::Varve, Goal::Most(12.0)),
    );
    page.own(
        report,
        "MB of a COPY's own memory",
        memory as f64 / MEGABYTE,
        Goal::Most(256.0),
    );
    page.both(
        report,
        "bytes a value after COPY",
        (sizes[0] / values, sizes[1] / values),
        (Judge::Varve, Goal::None),
    );
    compact(bench, client, "A1", "cpu_varve", values, sizes[1])?;
    small(bench, client, data, values)
}

/// COPY of everything into heap, into varve, and into varve by two sessions.
fn speeds(bench: &mut Bench, client: &mut Client, data: &Cpu) -> Result<()> {
    let all = std::slice::from_ref(&data.all);
    create(client, "other", true)?;
    let [mut heap, mut one, mut two, mut apart] = std::array::from_fn(|_| Spent::default());
    for _ in 0..bench.runs {
        for (tables, files, spent) in [
            (["cpu_heap"; 2], all, &mut heap),
            (["cpu_varve"; 2], all, &mut one),
            (["cpu_varve"; 2], &data.halves[..], &mut two),
            (["cpu_varve", "other"], &data.halves[..], &mut apart),
        ] {
            client.batch_execute("TRUNCATE cpu_heap, cpu_varve, other")?;
            client.batch_execute("CHECKPOINT")?;
            copy_at_once(bench, tables, files, spent)?;
        }
    }
    client.batch_execute("DROP TABLE other")?;
    let [heap, one, two, apart] =
        [heap, one, two, apart].map(|spent| (median(spent.seconds), median(spent.busy)));
    let (page, report) = (&mut bench.page, &mut bench.report);
    let busy = (heap.1, one.1);
    page.both(
        report,
        "seconds of COPY, one stream",
        (heap.0, one.0),
        (Judge::Speed, Goal::Least(1.5)),
    );
    page.both(
        report,
        "processor seconds of it",
        busy,
        (Judge::Speed, Goal::None),
    );
    page.own(report, "seconds of COPY, two streams", two.0, Goal::None);
    page.own(report, "processor seconds of both", two.1, Goal::None);
    page.own(
        report,
        "seconds of COPY, two streams into a table each",
        apart.0,
        Goal::None,
    );
    page.own(
        report,
        "two streams against one, times as fast",
        one.0 / two.0,
        Goal::Least(1.7),
    );
    Ok(())
}

/// What each run took, on the clock and of the processors.
#[derive(Default)]
struct Spent {
    seconds: Vec<f64>,
    busy: Vec<f64>,
}

/// Sessions load a file each at the same time.
fn copy_at_once(
    bench: &Bench,
    tables: [&str; 2],
    files: &[PathBuf],
    spent: &mut Spent,
) -> Result<()> {
    let mut sessions = Vec::new();
    for (table, file) in tables.into_iter().zip(files) {
        let mut client = bench.cluster.connect("tables")?;
        let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
        sessions.push((client, pid, table, file));
    }
    let start = Instant::now();
    let outcomes: Vec<std::result::Result<f64, String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = sessions
            .into_iter()
            .map(|(mut client, pid, table, file)| {
                scope.spawn(move || {
                    copy(&mut client, table, file)
                        .and_then(|()| watch::processor_seconds(pid))
                        .map_err(|e| e.to_string())
                })
            })
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread
                .join()
                .unwrap_or_else(|_| Err("a session panicked".into()))
        };
        threads.into_iter().map(join).collect()
    });
    spent.seconds.push(start.elapsed().as_secs_f64());
    let busy: std::result::Result<Vec<f64>, String> = outcomes.into_iter().collect();
    spent.busy.push(busy?.iter().sum());
    Ok(())
}

/// Compacts a table of A1 or of a part of it, and says what that took and left.
pub fn compact(
    bench: &mut Bench,
    client: &mut Client,
    name: &str,
    table: &str,
    values: f64,
    fresh: f64,
) -> Result<()> {
    let ((), peaks) = watch::during(&bench.cluster, client, table, |client| {
        heap_pair::compact(client, table)
    })?;
    let size = total_size(client, table)? as f64;
    let file: i64 = client
        .query_one("SELECT pg_relation_size($1::text::regclass)", &[&table])?
        .get(0);
    let fill = file_per_live_byte(client, table)?;
    let (page, report) = (&mut bench.page, &mut bench.report);
    page.own(
        report,
        &format!("{name}: bytes a value after compact"),
        size / values,
        Goal::Most(if name == "A1" { 0.40 } else { 0.60 }),
    );
    page.own(
        report,
        &format!("{name}: size after compact ÷ before"),
        size / fresh,
        Goal::Most(1.0),
    );
    page.own(
        report,
        &format!("{name}: file ÷ live tuples after compact"),
        fill,
        Goal::Most(1.15),
    );
    page.own(
        report,
        &format!("{name}: peak of the file in compact ÷ (1.5 × final + fresh)"),
        peaks.file_bytes as f64 / (1.5 * file as f64 + fresh),
        Goal::Most(1.0),
    );
    page.own(
        report,
        &format!("{name}: MB of compact's own memory"),
        peaks.memory_bytes as f64 / MEGABYTE,
        Goal::Most(256.0),
    );
    Ok(())
}

/// A1 again with `varve.compression = small`, and its first tenth with the default.
fn small(bench: &mut Bench, client: &mut Client, data: &Cpu, values: f64) -> Result<()> {
    create(client, "other", true)?;
    copy(client, "other", &data.all)?;
    client.batch_execute("SET varve.compression = small")?;
    heap_pair::compact(client, "other")?;
    client.batch_execute("RESET varve.compression")?;
    let size = total_size(client, "other")? as f64;
    bench.page.own(
        &mut bench.report,
        "A1: bytes a value after compact, small",
        size / values,
        Goal::None,
    );
    client.batch_execute("DROP TABLE other")?;
    create(client, "other", true)?;
    copy(client, "other", &data.tenth)?;
    let (values, fresh) = (
        (data.tenth_rows * VALUES_PER_ROW) as f64,
        total_size(client, "other")? as f64,
    );
    bench.page.own(
        &mut bench.report,
        "a tenth of A1: bytes a value after COPY",
        fresh / values,
        Goal::None,
    );
    compact(bench, client, "a tenth of A1", "other", values, fresh)?;
    heap_pair::expect_verified(client, "other")?;
    Ok(client.batch_execute("DROP TABLE other")?)
}
