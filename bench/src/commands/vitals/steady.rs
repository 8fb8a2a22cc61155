//! Small statements for long: what compact writes, and what it costs where little or nothing is new.

use super::Page;
use crate::heap_pair;
use crate::measure::{total_size, wal_position};
use crate::Result;
use postgres::Client;

const SERIES: i64 = 4_000;
/// Of six rows of each series, in statements of 500 rows, with a compact at the end of each.
const ROUNDS: i64 = 12;
const STATEMENT_ROWS: i64 = 500;
const ROUND_ROWS: i64 = 6 * SERIES;

/// Nothing is known of a heap here, and nothing is measured where the test programs try themselves with one.
pub fn measure(client: &mut Client, page: &mut Page) -> Result<()> {
    if heap_pair::access_method() != "varve" {
        return Ok(());
    }
    client.batch_execute("CREATE EXTENSION IF NOT EXISTS pg_walinspect")?;
    for table in ["steady", "loaded"] {
        client.batch_execute(&format!(
            "CREATE TABLE {table}(time timestamptz NOT NULL, host int NOT NULL, a float8, b int, PRIMARY KEY (host, time)) USING varve"
        ))?;
    }
    client.batch_execute("CHECKPOINT")?;
    let start: String = position(client)?;
    let mut of_compact = 0;
    for round in 0..ROUNDS {
        for statement in 0..ROUND_ROWS / STATEMENT_ROWS {
            let first = round * ROUND_ROWS + statement * STATEMENT_ROWS;
            client.batch_execute(&insert("steady", first, first + STATEMENT_ROWS))?;
        }
        let before = wal_position(client)?;
        heap_pair::compact(client, "steady")?;
        of_compact += wal_position(client)? - before;
    }
    let rows = ROUNDS * ROUND_ROWS;
    let name = "WAL bytes of compact per row, statements of 500 rows of 4,000 series";
    page.add(
        name,
        "–",
        &format!("{:.1}", of_compact as f64 / rows as f64),
    );
    let end = position(client)?;
    // Storage tuples are longer than rows.
    let inserted = client.query_one(
        "SELECT sum(record_length)::float8 FROM pg_get_wal_records_info($1::text::pg_lsn, $2::text::pg_lsn)
         WHERE resource_manager = 'Heap' AND record_type LIKE 'INSERT%' AND record_length > 150",
        &[&start, &end],
    )?;
    let written = inserted.get::<_, f64>(0) / chunk_bytes(client, "steady")?;
    page.add(
        "WAL of inserted storage tuples ÷ bytes of those that are left",
        "–",
        &format!("{written:.2}"),
    );
    let steady = total_size(client, "steady")?;
    idle(client, page)?;
    client.batch_execute(&insert("loaded", 0, rows))?;
    heap_pair::compact(client, "loaded")?;
    let ratio = steady as f64 / total_size(client, "loaded")? as f64;
    page.add(
        "their size ÷ that of one load of them",
        "–",
        &format!("{ratio:.3}"),
    );
    client.batch_execute("DROP TABLE steady, loaded")?;
    short_series(client, page)
}

/// Rows by their number, in the order of time.
fn insert(table: &str, first: i64, end: i64) -> String {
    format!(
        "INSERT INTO {table} SELECT '2026-01-01'::timestamptz + n / {SERIES} * interval '10 s', n % {SERIES},
             (n % {SERIES} * 37 % 1000 + n / {SERIES} / 4 + hashint8(n) % 5) / 10.0, n % {SERIES} + n / {SERIES} / 20
         FROM generate_series({first}::bigint, {end} - 1) n"
    )
}

fn position(client: &mut Client) -> Result<String> {
    let row = client.query_one("SELECT pg_current_wal_flush_lsn()::text", &[])?;
    Ok(row.get(0))
}

fn chunk_bytes(client: &mut Client, table: &str) -> Result<f64> {
    let query =
        format!("SELECT sum(header_bytes + payload_bytes)::float8 FROM varve.chunks('{table}')");
    Ok(client.query_one(&query, &[])?.get(0))
}

/// Buffers of a table and its indexes that this session has asked for so far.
fn asked_for(client: &mut Client, table: &str) -> Result<i64> {
    client.batch_execute("SELECT pg_stat_force_next_flush()")?;
    let query = format!(
        "SELECT (heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0))::bigint
         FROM pg_statio_all_tables WHERE relid = '{table}'::regclass"
    );
    Ok(client.query_one(&query, &[])?.get(0))
}

/// A compact that finds nothing new, and one that finds one row.
fn idle(client: &mut Client, page: &mut Page) -> Result<()> {
    heap_pair::compact(client, "steady")?;
    for (what, statement) in [
        ("nothing new", None),
        (
            "one new row",
            Some(insert("steady", 10_000_000, 10_000_001)),
        ),
    ] {
        if let Some(statement) = statement {
            client.batch_execute(&statement)?;
        }
        let (wal, touched) = (wal_position(client)?, asked_for(client, "steady")?);
        heap_pair::compact(client, "steady")?;
        let wal = wal_position(client)? - wal;
        let touched = asked_for(client, "steady")? - touched;
        page.add(
            &format!("WAL bytes of compact, {what}"),
            "–",
            &wal.to_string(),
        );
        page.add(
            &format!("buffers of compact, {what}"),
            "–",
            &touched.to_string(),
        );
    }
    Ok(())
}

fn short_series(client: &mut Client, page: &mut Page) -> Result<()> {
    client.batch_execute(
        "CREATE TABLE short(time timestamptz NOT NULL, host int NOT NULL, value int, PRIMARY KEY (host, time)) USING varve;
         INSERT INTO short SELECT '2026-01-01'::timestamptz + (n / 100000) * interval '10 s', n % 100000, hashint8(n) % 1000
         FROM generate_series(0, 999999) n",
    )?;
    heap_pair::compact(client, "short")?;
    let size = client.query_one("SELECT pg_indexes_size('short')::float8", &[])?;
    let ratio = size.get::<_, f64>(0) / chunk_bytes(client, "short")?;
    page.add(
        "index ÷ chunks, 100,000 series of ten rows",
        "–",
        &format!("{ratio:.3}"),
    );
    client.batch_execute("DROP TABLE short")?;
    Ok(())
}
