//! A1 under PRIMARY KEY (tags_id, time): loading it, loading it again, correcting a part of it.

use super::data::Cpu;
use super::page::{Goal, Judge};
use super::{copy, median, Bench};
use crate::generate::CPU_COLUMNS;
use crate::measure::total_size;
use crate::{heap_pair, Result};
use postgres::Client;
use std::time::Instant;

const TABLES: [&str; 2] = ["keyed_heap", "keyed_varve"];

/// Wants the compacted `cpu_varve`, whose size it compares.
pub fn run(bench: &mut Bench, client: &mut Client, data: &Cpu) -> Result<()> {
    bench.page.section(
        "Under PRIMARY KEY (tags_id, time)",
        "The key alone: it brings the varve table's series index. COPY and INSERT … SELECT from a heap without indexes, of one \
         table and the other in turns, medians.",
    );
    client.batch_execute(&format!("CREATE TABLE staging({CPU_COLUMNS}) USING heap"))?;
    copy(client, "staging", &data.all)?;
    client.batch_execute("VACUUM ANALYZE staging")?;
    for (table, method) in TABLES.iter().zip(["heap", &heap_pair::access_method()]) {
        client.batch_execute(&format!(
            "CREATE TABLE {table}({CPU_COLUMNS}, PRIMARY KEY (tags_id, time)) USING {method}"
        ))?;
    }
    let [mut copies, mut loads] = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for _ in 0..bench.runs {
        for (at, table) in TABLES.iter().enumerate() {
            emptied(client, table)?;
            copies[at].push(seconds(|| copy(client, table, &data.all))?);
            emptied(client, table)?;
            let load = format!("INSERT INTO {table} SELECT * FROM staging");
            loads[at].push(seconds(|| Ok(client.batch_execute(&load)?))?);
        }
    }
    let [copies, loads] = [copies, loads].map(|of| of.map(median));
    heap_pair::compact(client, TABLES[1])?;
    let ratio = total_size(client, TABLES[1])? as f64 / total_size(client, "cpu_varve")? as f64;
    for table in TABLES {
        client.batch_execute(&format!("VACUUM ANALYZE {table}"))?;
    }
    let again = rolled_back(
        bench,
        client,
        "INSERT INTO {t} SELECT * FROM staging ON CONFLICT DO NOTHING",
    )?;
    let staged = staged(bench, client, data)?;
    let upsert = rolled_back(
        bench,
        client,
        "INSERT INTO {t} SELECT * FROM staging WHERE (extract(epoch FROM time)::bigint / 10 * 7 + tags_id * 13) % 100 = 3
         ON CONFLICT (tags_id, time) DO UPDATE SET usage_user = EXCLUDED.usage_user + 1",
    )?;
    let (page, report) = (&mut bench.page, &mut bench.report);
    let speed = (Judge::Speed, Goal::Least(1.0));
    page.both(report, "seconds of COPY", (copies[0], copies[1]), speed);
    page.both(
        report,
        "seconds of INSERT … SELECT",
        (loads[0], loads[1]),
        (Judge::Speed, Goal::None),
    );
    page.own(
        report,
        "size after compact ÷ that without the key",
        ratio,
        Goal::Most(1.15),
    );
    page.both(
        report,
        "seconds of the same with ON CONFLICT DO NOTHING, all rows there",
        (again[0], again[1]),
        (Judge::Ratio, Goal::None),
    );
    page.own(
        report,
        "that against the first INSERT … SELECT, times as fast",
        loads[1] / again[1],
        Goal::Least(0.5),
    );
    page.own(
        report,
        "that and a COPY into a temporary table before it, against the first COPY, times as fast",
        copies[1] / (staged + again[1]),
        Goal::Least(0.5),
    );
    page.both(
        report,
        "seconds of an upsert of 1 % of the rows",
        (upsert[0], upsert[1]),
        (Judge::Ratio, Goal::Most(3.0)),
    );
    let equal = heap_pair::expect_equal(client, TABLES[0], TABLES[1]);
    bench
        .report
        .check("tables/A1 with a key is the same in both", equal);
    Ok(client.batch_execute("DROP TABLE staging, keyed_heap, keyed_varve")?)
}

fn emptied(client: &mut Client, table: &str) -> Result<()> {
    client.batch_execute(&format!("TRUNCATE {table}"))?;
    Ok(client.batch_execute("CHECKPOINT")?)
}

/// Seconds of a COPY of the data into a temporary table.
fn staged(bench: &Bench, client: &mut Client, data: &Cpu) -> Result<f64> {
    client.batch_execute(&format!("CREATE TEMPORARY TABLE staged({CPU_COLUMNS})"))?;
    let mut times = Vec::new();
    for _ in 0..bench.runs {
        emptied(client, "staged")?;
        times.push(seconds(|| copy(client, "staged", &data.all))?);
    }
    client.batch_execute("DROP TABLE staged")?;
    Ok(median(times))
}

/// Seconds of a statement on each of the tables, as often as the bench has runs, each undone.
fn rolled_back(bench: &Bench, client: &mut Client, statement: &str) -> Result<[f64; 2]> {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..bench.runs {
        for (at, table) in TABLES.iter().enumerate() {
            client.batch_execute("BEGIN")?;
            let statement = statement.replace("{t}", table);
            times[at].push(seconds(|| Ok(client.batch_execute(&statement)?))?);
            client.batch_execute("ROLLBACK")?;
        }
    }
    Ok(times.map(median))
}

fn seconds(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}
