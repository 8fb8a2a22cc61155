//! What one series and one day cost, and the maximum of all, in small tables and in large ones: the first must not follow what else is there.

use crate::asker::Asker;
use crate::report::Report;
use crate::{heap_pair, measure, processor, Result};
use postgres::Client;
use std::fmt::Write as _;
use std::time::Instant;

/// Readings are a quarter of an hour apart.
const A_DAY: i64 = 96;
/// Some milliseconds of the shortest: whatever else the machine does takes less of them.
const RUNS: usize = 201;
/// A level of the series index more, and what an entry on another page costs.
const BUFFERS_MORE: i64 = 3;
/// Timed runs differ by so much where nothing has grown.
const TIMES_MORE: f64 = 1.5;

struct Size {
    series: i64,
    days: i64,
}

/// Each large one beside the small one that it is compared with.
const SIZES: [Size; 3] = [
    Size {
        series: 100,
        days: 1,
    },
    Size {
        series: 100_000,
        days: 1,
    },
    Size {
        series: 100,
        days: 1_095,
    },
];

struct Cost {
    buffers: i64,
    milliseconds: f64,
}

/// The section of the page.
pub fn section(client: &mut Client, asker: &mut Asker, report: &mut Report) -> Result<String> {
    let mut page = format!(
        "\n## Growth\n\nThe same two queries on varve tables of different sizes: the maximum of one series' day, and of everything. Times here are medians of {RUNS} runs.\n\n\
         | series | days | rows | chunks | one series, one day: buffers | ms | all: buffers | ms |\n|---|---|---|---|---|---|---|---|\n",
    );
    let mut small: Option<Cost> = None;
    client.batch_execute("SET search_path = public")?;
    asker.run("SET search_path = public")?;
    let _shared = processor::Shared::with_server(asker).ok();
    for Size { series, days } in SIZES {
        create(client, series, days)?;
        // What the load has left to be written is.
        asker.run("CHECKPOINT")?;
        let chunks: i64 = client
            .query_one("SELECT count(*) FROM varve.chunks('growth')", &[])?
            .get(0);
        let day = days / 2;
        let one = cost(client, asker, &format!(
            "SELECT max(value) FROM growth WHERE series = 42 AND time >= timestamptz '2020-01-01Z' + interval '{day} days' AND time < timestamptz '2020-01-01Z' + interval '{} days'",
            day + 1
        ))?;
        let all = cost(client, asker, "SELECT max(value) FROM growth")?;
        writeln!(
            page,
            "| {series} | {days} | {} | {chunks} | {} | {:.3} | {} | {:.2} |",
            series * days * A_DAY,
            one.buffers,
            one.milliseconds,
            all.buffers,
            all.milliseconds
        )?;
        match &small {
            Some(small) => report.check(
                &format!("queries/growth: one series and day of {series} and {days}"),
                not_grown(small, &one),
            ),
            None => small = Some(one),
        }
    }
    client.batch_execute("DROP TABLE growth")?;
    Ok(page)
}

fn not_grown(small: &Cost, large: &Cost) -> Result<()> {
    let buffers = large.buffers - small.buffers;
    let times = large.milliseconds / small.milliseconds;
    if buffers > BUFFERS_MORE || times > TIMES_MORE {
        return Err(format!("{buffers} buffers more, {times:.2} of the time").into());
    }
    Ok(())
}

fn create(client: &mut Client, series: i64, days: i64) -> Result<()> {
    client.batch_execute("DROP TABLE IF EXISTS growth")?;
    client.batch_execute(
        "CREATE TABLE growth(time timestamptz NOT NULL, series int NOT NULL, value float8, PRIMARY KEY (series, time)) USING varve",
    )?;
    client.batch_execute(&format!(
        "INSERT INTO growth SELECT timestamptz '2020-01-01Z' + step * interval '15 minutes', s, (s * 7919 + step * 31) % 1000 / 10.0
         FROM generate_series(0, {}) step, generate_series(1, {series}) s",
        days * A_DAY - 1
    ))?;
    heap_pair::compact(client, "growth")?;
    Ok(client.batch_execute("VACUUM ANALYZE growth")?)
}

/// Buffers of a warm run and the median time.
fn cost(client: &mut Client, asker: &mut Asker, query: &str) -> Result<Cost> {
    // Both sessions know the table before anything is counted.
    client.simple_query(query)?;
    asker.run(query)?;
    let buffers = measure::buffers(client, query)?;
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        asker.run(query)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(Cost {
        buffers,
        milliseconds: measure::median(times),
    })
}
