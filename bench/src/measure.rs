//! Exact counters of a server: WAL, sizes, buffers, and how full a table's pages are.

use crate::Result;
use postgres::{Client, SimpleQueryMessage};

pub fn wal_position(client: &mut Client) -> Result<i64> {
    Ok(client
        .query_one("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint", &[])?
        .get(0))
}

/// Bytes of the table with its indexes, TOAST and maps.
pub fn total_size(client: &mut Client, table: &str) -> Result<i64> {
    Ok(client
        .query_one(
            "SELECT pg_total_relation_size($1::text::regclass)",
            &[&table],
        )?
        .get(0))
}

/// Counted from the pages themselves (extension pageinspect): line pointers in use whose tuple nobody has deleted.
pub fn file_per_live_byte(client: &mut Client, table: &str) -> Result<f64> {
    let query = format!(
        "SELECT pg_relation_size('{table}')::float8 / nullif(sum(lp_len + 4) FILTER (WHERE lp_flags = 1 AND (t_xmax = 0 OR t_xmax::text = '0')), 0)::float8
         FROM generate_series(0, pg_relation_size('{table}') / current_setting('block_size')::int - 1) b,
              heap_page_items(get_raw_page('{table}', 'main', b))"
    );
    Ok(client
        .query_one(&query, &[])?
        .get::<_, Option<f64>>(0)
        .unwrap_or(f64::NAN))
}

/// The one in the middle; there must be one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Shared buffers that the second run of the query touches.
pub fn buffers(client: &mut Client, query: &str) -> Result<i64> {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {query}");
    client.simple_query(&explain)?;
    let mut text = String::new();
    for message in client.simple_query(&explain)? {
        if let SimpleQueryMessage::Row(row) = message {
            text.push_str(row.get(0).unwrap_or(""));
        }
    }
    let counter = |name: &str| -> Result<i64> {
        let (_, rest) = text
            .split_once(&format!("\"{name}\": "))
            .ok_or("EXPLAIN shows no buffers")?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Ok(digits.parse()?)
    };
    Ok(counter("Shared Hit Blocks")? + counter("Shared Read Blocks")?)
}
