//! Reading compacted A1 by the plain scan and through the series index, and changing it.

use super::page::{Goal, Judge};
use super::{median, watch, Bench};
use crate::measure::{buffers, total_size, wal_position};
use crate::Result;
use postgres::Client;
use std::time::Instant;

const TABLES: [&str; 2] = ["cpu_heap", "cpu_varve"];
const SCAN: &str = "SELECT count(*), sum(usage_user), min(time), max(usage_idle) FROM {t}";
const HOSTS: i64 = 100;
const SCANS: usize = 11;

/// A name, the query, by what its buffers are divided, and the most that they may be.
const DASHBOARD: [(&str, &str, i64, f64); 3] = [
    (
        "one host, 1 h, 1 column",
        "SELECT date_trunc('minute', time), max(usage_user) FROM {t} WHERE tags_id = 17
         AND time >= '2016-01-02 03:10:00Z' AND time < '2016-01-02 04:10:00Z' GROUP BY 1",
        1,
        12.0,
    ),
    (
        "one host, 12 h, 5 columns",
        "SELECT date_trunc('hour', time), max(usage_user), max(usage_system), max(usage_idle), max(usage_nice), max(usage_iowait)
         FROM {t} WHERE tags_id = 17 AND time >= '2016-01-02 03:10:00Z' AND time < '2016-01-02 15:10:00Z' GROUP BY 1",
        1,
        40.0,
    ),
    (
        "last point, per host",
        "SELECT l.* FROM generate_series(1, 100) h,
         LATERAL (SELECT * FROM {t} c WHERE c.tags_id = h ORDER BY time DESC LIMIT 1) l",
        HOSTS,
        8.0,
    ),
];

pub fn read(bench: &mut Bench, client: &mut Client) -> Result<()> {
    bench.page.section(
        "Reading A1",
        &format!(
            "The scan is one process's, the median of {SCANS} runs taken in turns; buffers are those of the second run."
        ),
    );
    client.batch_execute("VACUUM ANALYZE cpu_heap")?;
    client.batch_execute("ANALYZE cpu_varve; SET max_parallel_workers_per_gather = 0")?;
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    let (mut times, mut busy) = ([Vec::new(), Vec::new()], [0.0; 2]);
    for run in 0..=SCANS {
        for (at, table) in TABLES.iter().enumerate() {
            let (start, before) = (Instant::now(), watch::processor_seconds(pid)?);
            client.simple_query(&SCAN.replace("{t}", table))?;
            // The first run warms up.
            if run > 0 {
                times[at].push(start.elapsed().as_secs_f64() * 1e3);
                busy[at] += (watch::processor_seconds(pid)? - before) * 1e3 / SCANS as f64;
            }
        }
    }
    let [heap, varve] = times.map(median);
    let (page, report) = (&mut bench.page, &mut bench.report);
    page.both(
        report,
        "ms of count(*), sum, min and max by the plain scan",
        (heap, varve),
        (Judge::Ratio, Goal::Most(1.0)),
    );
    page.both(
        report,
        "processor ms of it, mean",
        (busy[0], busy[1]),
        (Judge::Ratio, Goal::Most(1.0)),
    );
    for (name, query, divisor, most) in DASHBOARD {
        let mut touched = |table: &str| -> Result<f64> {
            Ok(buffers(client, &query.replace("{t}", table))? as f64 / divisor as f64)
        };
        let (heap, varve) = (touched("cpu_heap")?, touched("cpu_varve")?);
        bench.page.both(
            &mut bench.report,
            &format!("buffers: {name}"),
            (heap, varve),
            (Judge::Varve, Goal::Most(most)),
        );
    }
    Ok(())
}

/// Works on copies of the database, so that each change finds the table compacted.
pub fn change(bench: &mut Bench) -> Result<()> {
    bench.page.section(
        "Changing compacted A1",
        "Times are medians of statements that are rolled back, of one table and the other in turns; WAL is that of the first.",
    );
    let mut client = bench.copy_of_database("changed")?;
    let deletes: Vec<String> = [17, 42, 93, 58, 71]
        .iter()
        .map(|host| format!("DELETE FROM {{t}} WHERE tags_id = {host}"))
        .collect();
    let (times, wal) = rolled_back(&mut client, &deletes)?;
    let (page, report) = (&mut bench.page, &mut bench.report);
    page.both(
        report,
        "ms of DELETE of one host",
        times,
        (Judge::Ratio, Goal::Most(1.0)),
    );
    page.both(
        report,
        "kB of WAL of it",
        wal,
        (Judge::Varve, Goal::Most(10.0)),
    );
    let updates: Vec<String> = [3, 47, 81]
        .iter()
        .map(|n| format!(
            "UPDATE {{t}} SET usage_user = usage_user + 1 WHERE (extract(epoch FROM time)::bigint / 10 * 7 + tags_id * 13) % 100 = {n}"
        ))
        .collect();
    let (times, wal) = rolled_back(&mut client, &updates)?;
    page.both(
        report,
        "ms of UPDATE of 1 % scattered rows",
        times,
        (Judge::Ratio, Goal::Most(1.2)),
    );
    page.both(
        report,
        "kB of WAL of it",
        wal,
        (Judge::Ratio, Goal::Most(1.0)),
    );
    let thinnings: Vec<String> = [3, 47, 81]
        .iter()
        .map(|n| {
            format!(
            "DELETE FROM {{t}} WHERE (extract(epoch FROM time)::bigint / 10 + tags_id) % 100 = {n}"
        )
        })
        .collect();
    let (times, wal) = rolled_back(&mut client, &thinnings)?;
    let judge = (Judge::Ratio, Goal::Most(1.2));
    page.both(report, "ms of DELETE of every 100th row", times, judge);
    page.both(report, "kB of WAL of it", wal, (Judge::Ratio, Goal::None));
    drop(client);
    let mut client = bench.copy_of_database("thinned")?;
    let mut grown = Vec::new();
    for table in TABLES {
        let before = total_size(&mut client, table)? as f64;
        client.batch_execute(&format!(
            "DELETE FROM {table} WHERE (extract(epoch FROM time)::bigint / 10 + tags_id) % 100 = 0"
        ))?;
        grown.push(100.0 * (total_size(&mut client, table)? as f64 / before - 1.0));
    }
    bench.page.both(
        &mut bench.report,
        "growth by DELETE of every 100th row, %",
        (grown[0], grown[1]),
        (Judge::Varve, Goal::Most(20.0)),
    );
    Ok(())
}

/// Milliseconds and kilobytes of WAL on heap and on varve.
fn rolled_back(client: &mut Client, statements: &[String]) -> Result<((f64, f64), (f64, f64))> {
    let (mut times, mut wal) = ([Vec::new(), Vec::new()], [0.0; 2]);
    for (turn, statement) in statements.iter().enumerate() {
        for (at, table) in TABLES.iter().enumerate() {
            let before = wal_position(client)?;
            client.batch_execute("BEGIN")?;
            let start = Instant::now();
            client.batch_execute(&statement.replace("{t}", table))?;
            times[at].push(start.elapsed().as_secs_f64() * 1e3);
            if turn == 0 {
                wal[at] = (wal_position(client)? - before) as f64 / 1024.0;
            }
            client.batch_execute("ROLLBACK")?;
        }
    }
    let [heap, varve] = times.map(median);
    Ok(((heap, varve), (wal[0], wal[1])))
}
