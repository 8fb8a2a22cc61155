//! Queries for a few rows of a series, at most: what a client waits for, each by itself and many by LATERAL.

use super::page::{Goal, Judge};
use super::{median, Bench};
use crate::{heap_pair, Result};
use postgres::Client;
use std::time::Instant;

/// A name, the columns and rows of a table, and what is asked of it, `{t}` being the table.
struct Probe {
    name: &'static str,
    table: &'static str,
    query: &'static str,
}

/// Tables by name: columns, and the query that fills them. Their series are (host, time).
const TABLES: [(&str, &str, &str); 4] = [
    (
        "tiny",
        "time timestamptz, host int, value float8",
        "SELECT '2026-01-01'::timestamptz + g * interval '1 s', g, g * 0.5 FROM generate_series(1, 40000) g",
    ),
    (
        "hosts",
        "time timestamptz, host int, a int, b int, c int",
        "SELECT '2026-01-01'::timestamptz + s * interval '30 s', h, (random() * 100)::int, (random() * 100)::int, (random() * 100)::int
         FROM generate_series(0, 239) s, generate_series(1, 4000) h",
    ),
    (
        "short",
        "time timestamptz, host int, value float8",
        "SELECT '2026-01-01'::timestamptz + s * interval '10 s', h, round((random() * 1000)::numeric, 2)
         FROM generate_series(0, 599) s, generate_series(1, 1000) h",
    ),
    (
        "tracks",
        "time timestamptz, host int, lat float8, lon float8, speed float8, heading float8",
        "SELECT '2026-01-01'::timestamptz + s * interval '4 s' + random() * interval '3 s' + s / 700 * interval '3 hours', h,
                48 + random() + s * 1e-5, 11 + random() + s * 1e-5, random() * 50, random() * 360
         FROM generate_series(0, 14999) s, generate_series(1, 40) h",
    ),
];

const PROBES: [Probe; 6] = [
    Probe {
        name: "40,000 series of one row, in order",
        table: "tiny",
        query: "SELECT count(x.value) FROM (SELECT value FROM {t} ORDER BY host, time OFFSET 0) x",
    },
    Probe {
        name: "newest row of each of 4,000 hosts of two hours",
        table: "hosts",
        query: "SELECT count(l.a) FROM generate_series(1, 4000) h, LATERAL (SELECT * FROM {t} c WHERE c.host = h ORDER BY time DESC LIMIT 1) l",
    },
    Probe {
        name: "newest row of one of 1,000 series of 600 rows",
        table: "short",
        query: "SELECT * FROM {t} WHERE host = 417 ORDER BY time DESC LIMIT 1",
    },
    Probe {
        name: "newest row of one of 40 tracks, by LATERAL",
        table: "tracks",
        query: "SELECT l.* FROM generate_series(17, 17) h, LATERAL (SELECT * FROM {t} c WHERE c.host = h ORDER BY time DESC LIMIT 1) l",
    },
    Probe {
        name: "ten rows of one of 40 tracks",
        table: "tracks",
        query: "SELECT * FROM {t} WHERE host = 17 AND time >= '2026-01-02' ORDER BY time LIMIT 10",
    },
    Probe {
        name: "400 rows of 40 tracks by time",
        table: "tracks",
        query: "SELECT count(l.lat) FROM generate_series(1, 400) h, LATERAL (SELECT * FROM {t} c WHERE c.host = h % 40 + 1
                AND time < '2026-01-02'::timestamptz + h * interval '1 min' ORDER BY time DESC LIMIT 1) l",
    },
];

/// Runs of each query, of which the median counts.
const RUNS: usize = 21;

pub fn run(bench: &mut Bench, client: &mut Client) -> Result<()> {
    bench.page.section(
        "Few rows of a series",
        &format!("Milliseconds, median of {RUNS} runs, heap and varve by turns, each a transaction, warm. After compact."),
    );
    client.batch_execute(
        "SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off; SET max_parallel_workers_per_gather = 0",
    )?;
    for (table, columns, rows) in TABLES {
        let method = heap_pair::access_method();
        let index = if method == "varve" { "varve" } else { "btree" };
        client.batch_execute(&format!(
            "CREATE TABLE {table}_heap({columns}); CREATE INDEX ON {table}_heap (host, time); INSERT INTO {table}_heap {rows};
             CREATE TABLE {table}_varve({columns}) USING {method}; CREATE INDEX ON {table}_varve USING {index} (host, time);
             INSERT INTO {table}_varve TABLE {table}_heap"
        ))?;
        heap_pair::compact(client, &format!("{table}_varve"))?;
        client.batch_execute(&format!("VACUUM ANALYZE {table}_heap"))?;
        client.batch_execute(&format!("ANALYZE {table}_varve"))?;
    }
    for probe in &PROBES {
        let of = |kind: &str| {
            probe
                .query
                .replace("{t}", &format!("{}_{kind}", probe.table))
        };
        let (heap, varve) = (client.prepare(&of("heap"))?, client.prepare(&of("varve"))?);
        let (mut of_heap, mut of_varve) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            for (statement, times) in [(&heap, &mut of_heap), (&varve, &mut of_varve)] {
                let began = Instant::now();
                client.query(statement, &[])?;
                times.push(began.elapsed().as_secs_f64() * 1e3);
            }
        }
        let figures = (median(of_heap), median(of_varve));
        let judged = (Judge::Ratio, Goal::None);
        bench
            .page
            .both(&mut bench.report, probe.name, figures, judged);
    }
    for (table, ..) in TABLES {
        let (heap, varve) = (format!("{table}_heap"), format!("{table}_varve"));
        let equal = heap_pair::expect_equal(client, &heap, &varve);
        let name = format!("tables/{table} is the same in both");
        bench.report.check(&name, equal);
        client.batch_execute(&format!("DROP TABLE {heap}, {varve}"))?;
    }
    Ok(client.batch_execute("RESET ALL")?)
}
