//! A long day in short: small inserts and batches, corrections, retention and compact go on for a while. Neither the file nor a
//! session's memory may grow once the first quarter is over, and what is there must be what was written.

use crate::errors::{describe, is_conflict};
use crate::heap_pair;
use crate::report::Report;
use crate::server::{self, Cluster, Tree};
use crate::Result;
use postgres::{Client, NoTls};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const TABLE: &str = "soak";
/// How many of the newest rows retention keeps of each writer.
const KEPT_ROWS: i64 = 200_000;
const BATCH_ROWS: i64 = 2_000;
const MOST_FILE_GROWTH: f64 = 1.5;
const MOST_MEMORY_GROWTH_BYTES: i64 = 64 << 20;

struct Sample {
    minute: f64,
    rows: i64,
    file_bytes: i64,
    memory_bytes: i64,
}

pub fn run(tree: &Arc<Tree>, report: &mut Report, minutes: u64, page: &str) -> Result<()> {
    let cluster = Cluster::create(tree, &["autovacuum_naptime = '10s'"])?;
    let mut client = cluster.database("soak")?;
    let method = heap_pair::access_method();
    let index = if method == "varve" { "varve" } else { "btree" };
    client.batch_execute(&format!(
        "CREATE TABLE {TABLE}(time timestamptz NOT NULL, device int NOT NULL, seq bigint NOT NULL, value float8) USING {method};
         CREATE INDEX ON {TABLE} USING {index} (device, time)"
    ))?;
    let stop = AtomicBool::new(false);
    let conninfo = cluster.conninfo("soak");
    let (samples, ends) = thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|w| {
                let (c, s) = (&conninfo, &stop);
                scope.spawn(move || write(c, w, s))
            })
            .collect();
        let compactor = scope.spawn(|| compact(&conninfo, &stop));
        let samples = watch(&mut client, minutes, || {
            writers.iter().any(|w| w.is_finished()) || compactor.is_finished()
        });
        stop.store(true, Ordering::Relaxed);
        let mut ends: Vec<std::result::Result<(i64, i64, u64), String>> = Vec::new();
        ends.extend(
            writers
                .into_iter()
                .map(|w| w.join().unwrap_or_else(|_| Err("a writer panicked".into()))),
        );
        let compacted = compactor
            .join()
            .unwrap_or_else(|_| Err("compact panicked".into()));
        (samples, (ends, compacted))
    });
    let samples = samples?;
    report.check("soak/compact met no error", ends.1.map_err(Into::into));
    for (writer, end) in ends.0.into_iter().enumerate() {
        report.check(
            &format!("soak/writer {writer} finds what it wrote"),
            end.map_err(Into::into)
                .and_then(|(first, last, conflicts)| {
                    println!(
                        "soak: writer {writer} began {conflicts} statements anew after a conflict"
                    );
                    expect_rows(&mut client, writer, (first, last))
                }),
        );
    }
    report.check(
        "soak/file stays bounded",
        bounded(
            &samples,
            |s| s.file_bytes as f64,
            |first| first * MOST_FILE_GROWTH,
        ),
    );
    report.check(
        "soak/memory stays bounded",
        bounded(
            &samples,
            |s| s.memory_bytes as f64,
            |first| first + MOST_MEMORY_GROWTH_BYTES as f64,
        ),
    );
    report.check(
        "soak/verified in the end",
        heap_pair::expect_verified(&mut client, TABLE),
    );
    std::fs::write(page, text(&samples, minutes)?)?;
    println!("written: {page}");
    Ok(())
}

/// Writes until told to stop; returns the first and the last seq that retention left,
/// and how many statements a conflict with the other writer ended: those were done again.
fn write(
    conninfo: &str,
    writer: i64,
    stop: &AtomicBool,
) -> std::result::Result<(i64, i64, u64), String> {
    let mut client = Client::connect(conninfo, NoTls).map_err(|e| e.to_string())?;
    let (mut first, mut last, mut conflicts) = (1, 0, 0);
    let row = |seq: &str| {
        format!("'2026-01-01'::timestamptz + {seq} * interval '1 s', {writer} * 100 + {seq} % 50, {seq}, ({seq} % 1000) / 10.0")
    };
    let mut turn = || -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..20 {
                last += 1;
                client.batch_execute(&format!(
                    "INSERT INTO {TABLE} VALUES ({})",
                    row(&last.to_string())
                ))?;
            }
            client.batch_execute(&format!(
                "INSERT INTO {TABLE} SELECT {} FROM generate_series({}::bigint, {}) g",
                row("g"),
                last + 1,
                last + BATCH_ROWS
            ))?;
            last += BATCH_ROWS;
            conflicts += until_done(&mut client, &format!("UPDATE {TABLE} SET value = value + 1 WHERE device / 100 = {writer} AND seq > {} AND seq % 50 = 7", last - 5_000))?;
            if last - first > KEPT_ROWS + 10 * BATCH_ROWS {
                first = last - KEPT_ROWS;
                conflicts += until_done(
                    &mut client,
                    &format!("DELETE FROM {TABLE} WHERE device / 100 = {writer} AND seq < {first}"),
                )?;
            }
        }
        Ok(())
    };
    turn().map_err(|e| describe(e.as_ref()))?;
    Ok((first, last, conflicts))
}

/// Does a statement again until no conflict ends it; returns how often one did. Changes of many rows lock the chunks that both
/// writers have rows in, in any order (docs/design/0010).
fn until_done(client: &mut Client, statement: &str) -> Result<u64> {
    let mut conflicts = 0;
    loop {
        match client.batch_execute(statement) {
            Err(error) if is_conflict(&error) => conflicts += 1,
            outcome => return Ok(outcome.map(|()| conflicts)?),
        }
    }
}

fn compact(conninfo: &str, stop: &AtomicBool) -> std::result::Result<(), String> {
    let mut client = Client::connect(conninfo, NoTls).map_err(|e| e.to_string())?;
    while !stop.load(Ordering::Relaxed) {
        heap_pair::compact(&mut client, TABLE).map_err(|e| describe(e.as_ref()))?;
        thread::sleep(Duration::from_secs(2));
    }
    Ok(())
}

/// A sample every ten seconds.
fn watch(client: &mut Client, minutes: u64, ended: impl Fn() -> bool) -> Result<Vec<Sample>> {
    let (start, mut samples) = (Instant::now(), Vec::new());
    while start.elapsed() < Duration::from_secs(60 * minutes) && !ended() {
        thread::sleep(Duration::from_secs(10));
        let row = client.query_one(
            &format!("SELECT count(*), pg_total_relation_size('{TABLE}') FROM {TABLE}"),
            &[],
        )?;
        let pids = client.query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()", &[])?;
        let memory = pids
            .iter()
            .map(|row| own_memory(row.get(0)))
            .max()
            .unwrap_or(0);
        samples.push(Sample {
            minute: start.elapsed().as_secs_f64() / 60.0,
            rows: row.get(0),
            file_bytes: row.get(1),
            memory_bytes: memory,
        });
    }
    Ok(samples)
}

/// RssAnon: what a backend has beyond shared memory and files.
fn own_memory(pid: i32) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<i64>().ok())
        .map_or(0, |kilobytes| kilobytes * 1024)
}

/// The most after the first quarter of the time, against the most within it.
fn bounded(
    samples: &[Sample],
    value: impl Fn(&Sample) -> f64,
    limit: impl Fn(f64) -> f64,
) -> Result<()> {
    let (warm, rest) = samples.split_at(samples.len().div_ceil(4));
    let most = |samples: &[Sample]| samples.iter().map(&value).fold(0.0, f64::max);
    if most(rest) > limit(most(warm)) {
        return Err(format!(
            "{:.0} bytes in the first quarter, {:.0} later",
            most(warm),
            most(rest)
        )
        .into());
    }
    Ok(())
}

fn expect_rows(client: &mut Client, writer: usize, (first, last): (i64, i64)) -> Result<()> {
    let query = format!("SELECT count(*), count(DISTINCT seq), min(seq), max(seq) FROM {TABLE} WHERE device / 100 = {writer}");
    let row = client.query_one(&query, &[])?;
    let found: [i64; 4] = std::array::from_fn(|i| row.get(i));
    if found != [last - first + 1, last - first + 1, first, last] {
        return Err(format!("wrote {first}..{last}, found {found:?}").into());
    }
    Ok(())
}

fn text(samples: &[Sample], minutes: u64) -> Result<String> {
    let commit = server::commit()?;
    let mut page = format!("# Soak\n\n`make soak` on commit {commit}, {minutes} minutes of inserts, updates, retention and compact.\n\n");
    page.push_str("| minute | rows | file bytes | most memory of a session |\n|---|---|---|---|\n");
    for sample in samples.iter().step_by(samples.len().div_ceil(20).max(1)) {
        writeln!(
            page,
            "| {:.1} | {} | {} | {} |",
            sample.minute, sample.rows, sample.file_bytes, sample.memory_bytes
        )?;
    }
    Ok(page)
}
