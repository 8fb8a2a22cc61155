//! Small statements for long: what compact writes, and what it costs where little or nothing is new.

use super::Page;
use crate::heap_pair;
use crate::measure::total_size;
use crate::steady::{self, ROUND_ROWS};
use crate::Result;
use postgres::Client;

/// Of six rows of each series, in statements of 500 rows, with a compact at the end of each.
const ROUNDS: i64 = 12;
const STATEMENT_ROWS: i64 = 500;
const SHORT_SERIES: i64 = 100_000;

/// Nothing is known of a heap here, and nothing is measured where the test programs try themselves with one.
pub fn measure(client: &mut Client, page: &mut Page) -> Result<()> {
    if heap_pair::access_method() != "varve" {
        return Ok(());
    }
    client.batch_execute("CREATE EXTENSION IF NOT EXISTS pg_walinspect")?;
    for table in ["steady", "loaded"] {
        steady::create(client, table)?;
    }
    client.batch_execute("CHECKPOINT")?;
    let start = steady::position(client)?;
    let mut of_compact = 0;
    for round in 0..ROUNDS {
        steady::insert_round(client, "steady", round, STATEMENT_ROWS)?;
        of_compact += steady::compact(client, "steady")?.wal_bytes;
    }
    let rows = ROUNDS * ROUND_ROWS;
    let name = "WAL bytes of compact per row, statements of 500 rows of 4,000 series";
    page.add(
        name,
        "–",
        &format!("{:.1}", of_compact as f64 / rows as f64),
    );
    let written = steady::written_per_byte_left(client, "steady", &start)?;
    page.add(
        "WAL of inserted storage tuples ÷ bytes of those that are left",
        "–",
        &format!("{written:.2}"),
    );
    let size = total_size(client, "steady")?;
    idle(client, page)?;
    client.batch_execute(&steady::insert("loaded", 0, rows))?;
    heap_pair::compact(client, "loaded")?;
    let ratio = size as f64 / total_size(client, "loaded")? as f64;
    page.add(
        "size after statements of 500 rows ÷ that of one load of them",
        "–",
        &format!("{ratio:.3}"),
    );
    client.batch_execute("DROP TABLE steady, loaded")?;
    let ratio = steady::index_of_short_series(client, SHORT_SERIES)?;
    page.add(
        "index ÷ chunks, 100,000 series of ten rows",
        "–",
        &format!("{ratio:.3}"),
    );
    Ok(())
}

/// A compact that finds nothing new, and one that finds one row.
fn idle(client: &mut Client, page: &mut Page) -> Result<()> {
    heap_pair::compact(client, "steady")?;
    for (what, statement) in [
        ("nothing new", None),
        (
            "one new row",
            Some(steady::insert("steady", 10_000_000, 10_000_001)),
        ),
    ] {
        if let Some(statement) = statement {
            client.batch_execute(&statement)?;
        }
        let cost = steady::compact(client, "steady")?;
        page.add(
            &format!("WAL bytes of compact, {what}"),
            "–",
            &cost.wal_bytes.to_string(),
        );
        page.add(
            &format!("buffers of compact, {what}"),
            "–",
            &cost.buffers.to_string(),
        );
    }
    Ok(())
}
