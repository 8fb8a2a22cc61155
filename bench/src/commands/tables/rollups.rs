//! A1 with an hourly rollup: what is stored, what a dashboard and a refresh take, and what writers pay.

use super::data::Cpu;
use super::page::{Goal, Judge};
use super::{copy, create, median, watch, Bench};
use crate::measure::{total_size, wal_position};
use crate::Result;
use postgres::Client;
use std::time::Instant;

/// COPY is repeated so often: processor time is told in hundredths of a second.
const COPIES: usize = 11;
const LATE_ROWS: usize = 11;
/// Rows that are inserted one by one, in turns of so many.
const SINGLE_ROWS: usize = 20_000;
const TURN_ROWS: usize = 1_000;

/// Works in a copy of the database that has A1 in `cpu_heap` and `cpu_varve`.
pub fn run(bench: &mut Bench, data: &Cpu) -> Result<()> {
    bench.page.section(
        "Rollups",
        "Averages and maxima of ten columns by hour and host, of A1: stored by `varve.create_rollup`, and from the raw heap, which \
         has no indexes that help. The last hour is computed from the raw table, since it is not over. Refreshes are against the \
         rollup's query on the raw varve table. COPY of a tenth of A1 into a new table, without rollups and with two, in turns; and rows in order, one by one, likewise.",
    );
    let mut client = bench.copy_of_database("rollups")?;
    client.batch_execute("VACUUM ANALYZE cpu_heap")?;
    client.batch_execute("ANALYZE cpu_varve")?;
    let query = query(&mut client)?;
    sizes_and_times(bench, &mut client, &query)?;
    late_rows(bench, &mut client)?;
    writers(bench, &mut client, data, &query)?;
    single_inserts(bench, &mut client, &query)
}

/// The rollup's query, of {t}.
fn query(client: &mut Client) -> Result<String> {
    let row = client.query_one(
        "SELECT string_agg(format('avg(%1$s) AS mean_%1$s, max(%1$s) AS max_%1$s', attname), ', ' ORDER BY attnum)
         FROM pg_attribute WHERE attrelid = 'cpu_heap'::regclass AND attnum > 2",
        &[],
    )?;
    let columns: String = row.get(0);
    Ok(format!(
        "SELECT time_bucket('1 hour', time) AS bucket, tags_id, {columns} FROM {{t}} GROUP BY bucket, tags_id"
    ))
}

fn seconds(client: &mut Client, statement: &str) -> Result<f64> {
    let start = Instant::now();
    client.batch_execute(statement)?;
    Ok(start.elapsed().as_secs_f64())
}

fn sizes_and_times(bench: &mut Bench, client: &mut Client, query: &str) -> Result<()> {
    let all = |from: &str| format!("COPY ({from}) TO '/dev/null'");
    let raw = |table: &str| all(&query.replace("{t}", table));
    let [mut plain, mut refresh, mut heap, mut dashboard] = std::array::from_fn(|_| Vec::new());
    for _ in 0..bench.runs {
        client.execute(
            "SELECT varve.create_rollup('hourly', $1)",
            &[&query.replace("{t}", "cpu_varve")],
        )?;
        plain.push(seconds(client, &raw("cpu_varve"))?);
        refresh.push(seconds(client, "CALL varve.refresh_rollup('hourly')")?);
        heap.push(seconds(client, &raw("cpu_heap"))?);
        client.batch_execute("ANALYZE hourly_stored")?;
        dashboard.push(seconds(client, &all("SELECT * FROM hourly"))?);
        client.batch_execute("SELECT varve.drop_rollup('hourly')")?;
    }
    client.execute(
        "SELECT varve.create_rollup('hourly', $1)",
        &[&query.replace("{t}", "cpu_varve")],
    )?;
    client.batch_execute("CALL varve.refresh_rollup('hourly')")?;
    client.batch_execute("CALL varve.compact('hourly_stored')")?;
    let row = client.query_one("SELECT pg_relation_size('cpu_heap')", &[])?;
    let sizes = (
        row.get::<_, i64>(0) as f64,
        total_size(client, "hourly_stored")? as f64,
    );
    let [plain, refresh, heap, dashboard] = [plain, refresh, heap, dashboard].map(median);
    let (page, report) = (&mut bench.page, &mut bench.report);
    let most = |goal| (Judge::Ratio, Goal::Most(goal));
    page.both(
        report,
        "bytes: raw heap without indexes, rollup",
        sizes,
        most(0.03),
    );
    page.both(
        report,
        "seconds of a dashboard of three days of all hosts",
        (heap, dashboard),
        most(0.05),
    );
    page.own(
        report,
        "seconds of the query on the raw varve table",
        plain,
        Goal::None,
    );
    page.own(
        report,
        "refresh of everything ÷ that",
        refresh / plain,
        Goal::Most(2.0),
    );
    Ok(())
}

/// One row into the middle, and a refresh, again and again.
fn late_rows(bench: &mut Bench, client: &mut Client) -> Result<()> {
    let mut refresh = Vec::new();
    for row in 0..LATE_ROWS {
        client.batch_execute(&format!(
            "INSERT INTO cpu_varve SELECT time + interval '1 s', tags_id, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 FROM cpu_varve
             WHERE tags_id = {} ORDER BY time OFFSET 9000 LIMIT 1",
            row + 1
        ))?;
        refresh.push(seconds(client, "CALL varve.refresh_rollup('hourly')")? * 1e3);
    }
    bench.page.own(
        &mut bench.report,
        "milliseconds of a refresh after a late row",
        median(refresh),
        Goal::Most(20.0),
    );
    Ok(())
}

/// In-order COPY into a table with two rollups, and without.
fn writers(bench: &mut Bench, client: &mut Client, data: &Cpu, query: &str) -> Result<()> {
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    let mut wal = [Vec::new(), Vec::new()];
    let mut busy = [Vec::new(), Vec::new()];
    for _ in 0..COPIES {
        for rollups in [0, 1] {
            create(client, "fresh", true)?;
            if rollups > 0 {
                for (name, query) in [
                    ("fresh_hourly", query.replace("{t}", "fresh")),
                    (
                        "fresh_daily",
                        query.replace("{t}", "fresh").replace("1 hour", "1 day"),
                    ),
                ] {
                    client.execute("SELECT varve.create_rollup($1, $2)", &[&name, &query])?;
                    client.batch_execute(&format!("CALL varve.refresh_rollup('{name}')"))?;
                }
            }
            client.batch_execute("CHECKPOINT")?;
            let before = (wal_position(client)?, watch::processor_seconds(pid)?);
            copy(client, "fresh", &data.tenth)?;
            wal[rollups].push((wal_position(client)? - before.0) as f64);
            busy[rollups].push(watch::processor_seconds(pid)? - before.1);
            client.batch_execute("DROP TABLE fresh CASCADE")?;
        }
    }
    let [wal, busy] = [wal, busy].map(|of| of.map(median));
    let (page, report) = (&mut bench.page, &mut bench.report);
    page.own(
        report,
        "WAL of COPY with two rollups ÷ without",
        wal[1] / wal[0],
        Goal::Most(1.03),
    );
    page.own(
        report,
        "processor time of COPY with two rollups ÷ without",
        busy[1] / busy[0],
        Goal::Most(1.05),
    );
    Ok(())
}

/// Rows in order, one a transaction, into a table with two rollups, and into one without.
fn single_inserts(bench: &mut Bench, client: &mut Client, query: &str) -> Result<()> {
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    client.batch_execute("SET synchronous_commit = off")?;
    let tables = ["single", "single_rolled_up"];
    let mut inserts = Vec::new();
    for table in tables {
        create(client, table, true)?;
        inserts.push(client.prepare(&format!(
            "INSERT INTO {table} SELECT clock_timestamp(), $1::int, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1"
        ))?);
    }
    for (name, width) in [("single_hourly", "1 hour"), ("single_daily", "1 day")] {
        let query = query.replace("{t}", tables[1]).replace("1 hour", width);
        client.execute("SELECT varve.create_rollup($1, $2)", &[&name, &query])?;
        client.execute(&inserts[1], &[&1i32])?;
        client.batch_execute(&format!("CALL varve.refresh_rollup('{name}')"))?;
    }
    let mut times = [Vec::new(), Vec::new()];
    let mut busy = [0.0; 2];
    for turn in 0..2 * SINGLE_ROWS / TURN_ROWS {
        let before = watch::processor_seconds(pid)?;
        for row in 0..TURN_ROWS {
            let start = Instant::now();
            client.execute(&inserts[turn % 2], &[&(row as i32 % 100)])?;
            times[turn % 2].push(start.elapsed().as_secs_f64());
        }
        busy[turn % 2] += watch::processor_seconds(pid)? - before;
    }
    client.batch_execute("DROP TABLE single, single_rolled_up CASCADE")?;
    let slowest = times.map(|mut of| {
        of.sort_by(f64::total_cmp);
        of[of.len() * 99 / 100]
    });
    let (page, report) = (&mut bench.page, &mut bench.report);
    page.own(
        report,
        "slowest percentile of single rows with two rollups ÷ without",
        slowest[1] / slowest[0],
        Goal::Most(1.1),
    );
    page.own(
        report,
        "processor time of single rows with two rollups ÷ without",
        busy[1] / busy[0],
        Goal::None,
    );
    Ok(())
}
