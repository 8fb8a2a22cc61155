//! Many series that get a few rows each in small statements, with a compact now and then: what most tables see for years.

use crate::measure::wal_position;
use crate::{heap_pair, Result};
use postgres::Client;
use std::time::Instant;

pub const SERIES: i64 = 4_000;
/// Six of each series.
pub const ROUND_ROWS: i64 = 6 * SERIES;

pub fn create(client: &mut Client, table: &str) -> Result<()> {
    Ok(client.batch_execute(&format!(
        "CREATE TABLE {table}(time timestamptz NOT NULL, host int NOT NULL, a float8, b int, PRIMARY KEY (host, time)) USING varve"
    ))?)
}

/// Inserts rows by their number, in the order of time.
pub fn insert(table: &str, first: i64, end: i64) -> String {
    format!(
        "INSERT INTO {table} SELECT '2026-01-01'::timestamptz + n / {SERIES} * interval '10 s', n % {SERIES},
             (n % {SERIES} * 37 % 1000 + n / {SERIES} / 4 + hashint8(n) % 5) / 10.0, n % {SERIES} + n / {SERIES} / 20
         FROM generate_series({first}::bigint, {end} - 1) n"
    )
}

/// A round's rows, in statements of so many.
pub fn insert_round(
    client: &mut Client,
    table: &str,
    round: i64,
    statement_rows: i64,
) -> Result<()> {
    for statement in 0..ROUND_ROWS / statement_rows {
        let first = round * ROUND_ROWS + statement * statement_rows;
        client.batch_execute(&insert(table, first, first + statement_rows))?;
    }
    Ok(())
}

/// What a compact has cost.
pub struct Cost {
    pub wal_bytes: i64,
    /// Of the table and its indexes.
    pub buffers: i64,
    pub seconds: f64,
}

pub fn compact(client: &mut Client, table: &str) -> Result<Cost> {
    let (asked, wal) = (asked_for(client, table)?, wal_position(client)?);
    let begun = Instant::now();
    heap_pair::compact(client, table)?;
    Ok(Cost {
        seconds: begun.elapsed().as_secs_f64(),
        wal_bytes: wal_position(client)? - wal,
        buffers: asked_for(client, table)? - asked,
    })
}

/// A place in the WAL, for `written_per_byte_left`.
pub fn position(client: &mut Client) -> Result<String> {
    let row = client.query_one("SELECT pg_current_wal_flush_lsn()::text", &[])?;
    Ok(row.get(0))
}

/// WAL of all storage tuples that were inserted since `start` by the bytes of those that are left (extension pg_walinspect).
pub fn written_per_byte_left(client: &mut Client, table: &str, start: &str) -> Result<f64> {
    let end = position(client)?;
    // Storage tuples are longer than rows.
    let inserted = client.query_one(
        "SELECT sum(record_length)::float8 FROM pg_get_wal_records_info($1::text::pg_lsn, $2::text::pg_lsn)
         WHERE resource_manager = 'Heap' AND record_type LIKE 'INSERT%' AND record_length > 150",
        &[&start, &end],
    )?;
    Ok(inserted.get::<_, f64>(0) / chunk_bytes(client, table)?)
}

pub fn chunk_bytes(client: &mut Client, table: &str) -> Result<f64> {
    let query =
        format!("SELECT sum(header_bytes + payload_bytes)::float8 FROM varve.chunks('{table}')");
    Ok(client.query_one(&query, &[])?.get(0))
}

/// Buffers of a table and its indexes that all sessions have asked for so far.
fn asked_for(client: &mut Client, table: &str) -> Result<i64> {
    client.batch_execute("SELECT pg_stat_force_next_flush()")?;
    let query = format!(
        "SELECT (heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0))::bigint
         FROM pg_statio_all_tables WHERE relid = '{table}'::regclass"
    );
    Ok(client.query_one(&query, &[])?.get(0))
}

/// Bytes of the indexes by those of the chunks, of so many series of ten rows, loaded at once and compacted.
pub fn index_of_short_series(client: &mut Client, series: i64) -> Result<f64> {
    client.batch_execute(&format!(
        "CREATE TABLE short(time timestamptz NOT NULL, host int NOT NULL, value int, PRIMARY KEY (host, time)) USING varve;
         INSERT INTO short SELECT '2026-01-01'::timestamptz + n / {series} * interval '10 s', n % {series}, hashint8(n) % 1000
         FROM generate_series(0, {series} * 10 - 1) n"
    ))?;
    heap_pair::compact(client, "short")?;
    let size = client.query_one("SELECT pg_indexes_size('short')::float8", &[])?;
    let ratio = size.get::<_, f64>(0) / chunk_bytes(client, "short")?;
    client.batch_execute("DROP TABLE short")?;
    Ok(ratio)
}
