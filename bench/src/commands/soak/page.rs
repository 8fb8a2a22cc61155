//! Samples of a soak, and the page that it writes.

use super::reader::QUERIES;
use super::writer::SIZES;
use super::{Measured, FIRST_COLUMNS, MOST_COLUMNS, SERIES, TABLE, TWIN, WINDOWS};
use crate::measure::total_size;
use crate::server;
use crate::Result;
use postgres::Client;
use std::fmt::Write as _;
use std::time::Duration;

pub struct Sample {
    minute: f64,
    rows: i64,
    pub tail_rows: i64,
    pub bytes: i64,
    twin_bytes: i64,
    pub memory_bytes: i64,
}

impl Sample {
    pub fn take(client: &mut Client, elapsed: Duration) -> Result<Sample> {
        let query = format!(
            "SELECT (SELECT count(*) FROM {TABLE}), (SELECT rows FROM varve.stats('{TABLE}') WHERE part = 'tail'),
                 pg_total_relation_size('{TABLE}'), pg_total_relation_size('{TWIN}')"
        );
        let row = client.query_one(&query, &[])?;
        Ok(Sample {
            minute: elapsed.as_secs_f64() / 60.0,
            rows: row.get(0),
            tail_rows: row.get(1),
            bytes: row.get(2),
            twin_bytes: row.get(3),
            memory_bytes: memory(client)?,
        })
    }
}

/// The most that a session, or the worker, has beyond shared memory and files.
fn memory(client: &mut Client) -> Result<i64> {
    let query = "SELECT pid FROM pg_stat_activity
                 WHERE backend_type IN ('client backend', 'varve worker') AND pid <> pg_backend_pid()";
    let pids = client.query(query, &[])?;
    Ok(pids
        .iter()
        .map(|row| own_memory(row.get(0)))
        .max()
        .unwrap_or(0))
}

/// RssAnon.
fn own_memory(pid: i32) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<i64>().ok())
        .map_or(0, |kilobytes| kilobytes * 1024)
}

/// What the tables take in the end.
pub struct Sizes {
    rows: i64,
    bytes: i64,
    bulk_bytes: i64,
    heap_bytes: i64,
}

/// Beside the table: the same rows loaded at once and compacted, and in a new heap.
pub fn sizes(client: &mut Client) -> Result<Sizes> {
    client.batch_execute(&format!(
        "CREATE TABLE bulk (LIKE {TABLE}) USING varve; CREATE INDEX ON bulk USING varve (host, time);
         CREATE TABLE bulk_heap (LIKE {TABLE}) USING heap; CREATE INDEX ON bulk_heap USING btree (host, time);
         INSERT INTO bulk TABLE {TABLE}; INSERT INTO bulk_heap TABLE {TABLE}"
    ))?;
    client.batch_execute("CALL varve.compact('bulk')")?;
    let rows = client
        .query_one(&format!("SELECT count(*) FROM {TABLE}"), &[])?
        .get(0);
    Ok(Sizes {
        rows,
        bytes: total_size(client, TABLE)?,
        bulk_bytes: total_size(client, "bulk")?,
        heap_bytes: total_size(client, "bulk_heap")?,
    })
}

pub fn text(
    measured: &Measured,
    sizes: &Sizes,
    minutes: u64,
    failures: &[String],
) -> Result<String> {
    let mut page = String::new();
    let (commit, version) = (server::commit()?, server::pg_config("--version")?);
    let written = &measured.written;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown");
    writeln!(
        page,
        "# Soak\n\n`make soak` on commit {commit}, {version}, {minutes} minutes: {} rows of {SERIES} series in batches of 1 to 1,000, {} of them \
         late, {} corrections, {} columns of values and then {}, retention of a window of {:.1} minutes, two writers, two readers, and the \
         background worker. A heap with an index on (host, time) gets the same statements; {} times while that went on, and in the end, the \
         rows of the window were the same in both. Times are of this machine, which does other things too (load average {load} in the end): compare the columns.\n",
        written.rows,
        written.late,
        written.corrections,
        FIRST_COLUMNS,
        MOST_COLUMNS,
        minutes as f64 / f64::from(WINDOWS),
        measured.compared
    )?;
    sizes_text(&mut page, sizes)?;
    page.push_str("| milliseconds, median and 99 % | heap | | varve | | varve ÷ heap | |\n|---|---|---|---|---|---|---|\n");
    for (rows, seconds) in SIZES.iter().zip(&written.seconds) {
        line(&mut page, &format!("INSERT of up to {rows} rows"), seconds)?;
    }
    for ((name, _), seconds) in QUERIES.iter().zip(&measured.queried.seconds) {
        line(&mut page, name, seconds)?;
    }
    samples_text(&mut page, &measured.samples)?;
    if !failures.is_empty() {
        page.push_str("\nFailed:\n\n");
        failures
            .iter()
            .try_for_each(|name| writeln!(page, "- {name}"))?;
    }
    Ok(page)
}

fn sizes_text(page: &mut String, sizes: &Sizes) -> Result<()> {
    page.push_str("| in the end, with indexes | bytes | a row |\n|---|---|---|\n");
    for (name, bytes) in [
        ("varve, by small inserts", sizes.bytes),
        ("varve, the same rows loaded at once", sizes.bulk_bytes),
        ("heap, the same rows loaded at once", sizes.heap_bytes),
    ] {
        let each = bytes as f64 / sizes.rows.max(1) as f64;
        writeln!(page, "| {name} | {bytes} | {each:.1} |")?;
    }
    page.push('\n');
    Ok(())
}

/// Seconds of the table, and of its twin.
fn line(page: &mut String, name: &str, [table, twin]: &[Vec<f64>; 2]) -> Result<()> {
    let [varve, heap] = [table, twin].map(|of| [0.5, 0.99].map(|part| quantile(of, part) * 1e3));
    writeln!(
        page,
        "| {name} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
        heap[0],
        heap[1],
        varve[0],
        varve[1],
        varve[0] / heap[0],
        varve[1] / heap[1]
    )?;
    Ok(())
}

fn quantile(of: &[f64], part: f64) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * part) as usize;
    sorted
        .get(at.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}

fn samples_text(page: &mut String, samples: &[Sample]) -> Result<()> {
    page.push_str(
        "\nThe twin's rows go by DELETE, and its space by autovacuum.\n\n\
         | minute | rows | of the tail | bytes | bytes of the twin | most memory of a process |\n|---|---|---|---|---|---|\n",
    );
    for sample in samples.iter().step_by(samples.len().div_ceil(20).max(1)) {
        writeln!(
            page,
            "| {:.1} | {} | {} | {} | {} | {} |",
            sample.minute,
            sample.rows,
            sample.tail_rows,
            sample.bytes,
            sample.twin_bytes,
            sample.memory_bytes
        )?;
    }
    Ok(())
}
