//! Small statements of thousands of series for long, a compact after each few rows of each, then a DELETE of the older half: what
//! maintenance writes and takes, and whether that grows with the table.

use super::data::Cpu;
use super::page::Goal;
use super::{copy, create, watch, Bench};
use crate::measure::{total_size, wal_position};
use crate::server::Cluster;
use crate::steady::{self, ROUND_ROWS, SERIES};
use crate::{heap_pair, Result};
use postgres::Client;

const ROUNDS: i64 = 120;
/// A line of the table over time.
const STRETCH: i64 = 10;
const STATEMENT_ROWS: i64 = 500;
/// They go through the tail.
const SHORTER_STATEMENT_ROWS: i64 = 400;
const ROUNDS_OF_SHORTER: i64 = 30;
const SHORT_SERIES: i64 = 1_000_000;

/// Nothing is measured where the test programs try themselves with heaps: the rows are of varve alone.
pub fn run(bench: &mut Bench, data: &Cpu) -> Result<()> {
    if heap_pair::access_method() != "varve" {
        return Ok(());
    }
    let settings = [
        "varve.worker = off",
        "autovacuum = off",
        "synchronous_commit = off",
        "full_page_writes = off",
        "checkpoint_timeout = '1h'",
        "max_wal_size = '16GB'",
        "shared_buffers = '1GB'",
        "jit = off",
    ];
    let cluster = Cluster::create(&bench.tree, &settings)?;
    let mut client = cluster.database("steady")?;
    client.batch_execute("CREATE EXTENSION pg_walinspect; CREATE EXTENSION pageinspect")?;
    over_time(bench, &mut client)?;
    little_new(bench, &mut client)?;
    delete_half(bench, &mut client)?;
    others(bench, &mut client)?;
    delete_half_of_long_series(bench, &mut client, data)
}

/// One line of what a table looks like after some rounds.
struct Line {
    rows: i64,
    bytes: i64,
    chunks: i64,
    /// Since the line before, as what follows.
    wal_of_inserts: i64,
    wal_of_compact: i64,
    longest: f64,
    /// Of one compact, on average.
    buffers: f64,
    /// Since the beginning.
    written: f64,
}

fn over_time(bench: &mut Bench, client: &mut Client) -> Result<()> {
    for table in ["steady", "loaded"] {
        steady::create(client, table)?;
    }
    client.batch_execute("CHECKPOINT")?;
    let start = steady::position(client)?;
    let mut lines = Vec::new();
    for stretch in 0..ROUNDS / STRETCH {
        lines.push(one_stretch(client, &start, stretch)?);
    }
    let per_row = |bytes: i64| bytes as f64 / (STRETCH * ROUND_ROWS) as f64;
    bench.page.table(
        "Steady state",
        &format!(
            "{SERIES} series, primary key (host, time), statements of {STATEMENT_ROWS} rows in the order of time, a compact after each {ROUND_ROWS} rows; no worker, \
             no autovacuum, full_page_writes off. Each line is of {STRETCH} such rounds; bytes are of the table with its indexes, written is the WAL of all \
             storage tuples that were inserted so far by the bytes of those that are left."
        ),
        &["rows", "bytes", "chunks", "WAL of inserts a row", "WAL of compact a row", "longest compact, ms", "buffers of a compact", "written"],
        lines.iter().map(|line| {
            vec![
                line.rows as f64,
                line.bytes as f64,
                line.chunks as f64,
                per_row(line.wal_of_inserts),
                per_row(line.wal_of_compact),
                line.longest * 1e3,
                line.buffers,
                line.written,
            ]
        }),
    );
    bench.page.section(
        "Its end, and what comes after",
        "The same table, but for the last four lines, which say what they are of.",
    );
    let last = lines.last().ok_or("no rounds")?;
    let of_compact: i64 = lines.iter().map(|line| line.wal_of_compact).sum();
    let longest = lines.iter().map(|line| line.longest).fold(0.0, f64::max);
    client.batch_execute(&steady::insert("loaded", 0, ROUNDS * ROUND_ROWS))?;
    heap_pair::compact(client, "loaded")?;
    let equal = heap_pair::expect_equal(client, "steady", "loaded");
    let loaded = total_size(client, "loaded")? as f64;
    let (page, report) = (&mut bench.page, &mut bench.report);
    report.check("tables/steady state is what was inserted", equal);
    for (name, figure, goal) in [
        (
            "WAL of inserted storage tuples ÷ bytes of those that are left",
            last.written,
            Goal::Most(6.0),
        ),
        (
            "WAL bytes of compact a row",
            of_compact as f64 / (ROUNDS * ROUND_ROWS) as f64,
            Goal::Most(30.0),
        ),
        ("longest compact, s", longest, Goal::Most(0.5)),
        (
            "bytes ÷ bytes of one load of the same rows, compacted",
            last.bytes as f64 / loaded,
            Goal::Most(1.1),
        ),
    ] {
        page.own(report, name, figure, goal);
    }
    Ok(())
}

fn one_stretch(client: &mut Client, start: &str, stretch: i64) -> Result<Line> {
    let (mut wal_of_inserts, mut wal_of_compact, mut longest, mut buffers) = (0, 0, 0.0, 0);
    for round in stretch * STRETCH..(stretch + 1) * STRETCH {
        let before = wal_position(client)?;
        steady::insert_round(client, "steady", round, STATEMENT_ROWS)?;
        wal_of_inserts += wal_position(client)? - before;
        let cost = steady::compact(client, "steady")?;
        wal_of_compact += cost.wal_bytes;
        longest = f64::max(longest, cost.seconds);
        buffers += cost.buffers;
    }
    let chunks = client.query_one("SELECT count(*) FROM varve.chunks('steady')", &[])?;
    Ok(Line {
        rows: (stretch + 1) * STRETCH * ROUND_ROWS,
        bytes: total_size(client, "steady")?,
        chunks: chunks.get(0),
        wal_of_inserts,
        wal_of_compact,
        longest,
        buffers: buffers as f64 / STRETCH as f64,
        written: steady::written_per_byte_left(client, "steady", start)?,
    })
}

/// A compact that finds nothing, and one that finds a row.
fn little_new(bench: &mut Bench, client: &mut Client) -> Result<()> {
    heap_pair::compact(client, "steady")?;
    let one_row = steady::insert("steady", ROUNDS * ROUND_ROWS, ROUNDS * ROUND_ROWS + 1);
    for (what, statement, most) in [
        ("nothing new", None, Goal::Most(50.0)),
        ("one new row", Some(one_row), Goal::None),
    ] {
        client.batch_execute(&statement.unwrap_or_default())?;
        let cost = steady::compact(client, "steady")?;
        let (page, report) = (&mut bench.page, &mut bench.report);
        page.own(
            report,
            &format!("buffers of a compact, {what}"),
            cost.buffers as f64,
            most,
        );
        let name = format!("WAL bytes of a compact, {what}");
        page.own(report, &name, cost.wal_bytes as f64, Goal::None);
    }
    Ok(())
}

fn delete_half(bench: &mut Bench, client: &mut Client) -> Result<()> {
    let tuples = |client: &mut Client| -> Result<i64> {
        let row = client.query_one(
            "SELECT count(*) FROM generate_series(0, pg_relation_size('steady') / current_setting('block_size')::int - 1) b,
                 heap_page_items(get_raw_page('steady', 'main', b)) WHERE lp_flags = 1",
            &[],
        )?;
        Ok(row.get(0))
    };
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    let before = tuples(client)?;
    let (processor, wal) = (watch::processor_seconds(pid)?, wal_position(client)?);
    client.batch_execute(&format!(
        "DELETE FROM steady WHERE time < '2026-01-01'::timestamptz + {} * interval '10 s'",
        ROUNDS * ROUND_ROWS / SERIES / 2
    ))?;
    let wal = (wal_position(client)? - wal) as f64;
    let processor = watch::processor_seconds(pid)? - processor;
    let of_compact = steady::compact(client, "steady")?.wal_bytes as f64;
    let freed = (before - tuples(client)?) as f64;
    let verified = heap_pair::expect_verified(client, "steady");
    let (page, report) = (&mut bench.page, &mut bench.report);
    report.check("tables/steady state verified", verified);
    page.own(
        report,
        "processor seconds of a DELETE of the older half",
        processor,
        Goal::Most(0.2),
    );
    page.own(report, "WAL bytes of it", wal, Goal::None);
    page.own(
        report,
        "WAL bytes of the next compact, for each storage tuple that it frees",
        of_compact / freed,
        Goal::Most(100.0),
    );
    Ok(())
}

/// Statements whose rows go through the tail, and indexes of short series.
fn others(bench: &mut Bench, client: &mut Client) -> Result<()> {
    steady::create(client, "shorter")?;
    let mut of_compact = 0;
    for round in 0..ROUNDS_OF_SHORTER {
        steady::insert_round(client, "shorter", round, SHORTER_STATEMENT_ROWS)?;
        of_compact += steady::compact(client, "shorter")?.wal_bytes;
    }
    let index = steady::index_of_short_series(client, SHORT_SERIES)?;
    let (page, report) = (&mut bench.page, &mut bench.report);
    page.own(
        report,
        &format!("WAL bytes of compact a row, statements of {SHORTER_STATEMENT_ROWS} rows, {ROUNDS_OF_SHORTER} rounds"),
        of_compact as f64 / (ROUNDS_OF_SHORTER * ROUND_ROWS) as f64,
        Goal::Most(110.0),
    );
    page.own(
        report,
        "bytes of indexes ÷ of chunks, a million series of ten rows",
        index,
        Goal::Most(0.3),
    );
    Ok(())
}

/// A1, whose hosts have a chunk each: the DELETE cuts all of them in two.
fn delete_half_of_long_series(bench: &mut Bench, client: &mut Client, data: &Cpu) -> Result<()> {
    create(client, "cpu", true)?;
    copy(client, "cpu", &data.all)?;
    heap_pair::compact(client, "cpu")?;
    let before = wal_position(client)?;
    client.batch_execute(
        "DELETE FROM cpu WHERE time < (SELECT min(time) + (max(time) - min(time)) / 2 FROM cpu)",
    )?;
    let wal = wal_position(client)? - before;
    let of_compact = steady::compact(client, "cpu")?.wal_bytes as f64;
    let left = steady::chunk_bytes(client, "cpu")?;
    let (page, report) = (&mut bench.page, &mut bench.report);
    page.own(
        report,
        "A1: WAL bytes of a DELETE of the older half",
        wal as f64,
        Goal::Most(100_000.0),
    );
    page.own(
        report,
        "A1: WAL bytes of the next compact by those of the chunks that are left",
        of_compact / left,
        Goal::Most(1.2),
    );
    Ok(())
}
