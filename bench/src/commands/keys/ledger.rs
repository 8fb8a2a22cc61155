//! A table beside its ledger, which has a line of `n` = 1 for each row that came and of -1 for each that went.

use crate::Result;
use postgres::Client;

/// The same of a table that `create_table` made.
pub fn expect_right(client: &mut Client, table: &str) -> Result<()> {
    expect_rows(client, table, "device, time, value", "device, time")
}

/// The table is what the ledger says, and has each key once.
pub fn expect_rows(client: &mut Client, table: &str, columns: &str, key: &str) -> Result<()> {
    let rows = format!("SELECT {columns}, count(*) AS n FROM {table} GROUP BY {columns}");
    let ledger = format!(
        "SELECT {columns}, sum(n) AS n FROM {table}_ledger GROUP BY {columns} HAVING sum(n) <> 0"
    );
    let wrong = client.query(
        &format!("SELECT '{table}: ' || t FROM ({rows} EXCEPT {ledger}) t UNION ALL SELECT '{table}_ledger: ' || t FROM ({ledger} EXCEPT {rows}) t LIMIT 5"),
        &[],
    )?;
    let twice = client.query(
        &format!("SELECT 'twice in {table}: ' || t FROM (SELECT {key}, count(*) FROM {table} GROUP BY {key} HAVING count(*) > 1) t LIMIT 5"),
        &[],
    )?;
    let found: Vec<String> = wrong.iter().chain(&twice).map(|row| row.get(0)).collect();
    if found.is_empty() {
        Ok(())
    } else {
        Err(found.join("; ").into())
    }
}
