//! A table beside its ledger, which has a line of `n` = 1 for each row that came and of -1 for each that went.

use crate::Result;
use postgres::Client;

/// The table is what the ledger says, and has each key once.
pub fn expect_right(client: &mut Client, table: &str, ledger: &str) -> Result<()> {
    let rows = format!("SELECT device, time, value, count(*) AS n FROM {table} GROUP BY 1, 2, 3");
    let ledger = format!(
        "SELECT device, time, value, sum(n) AS n FROM {ledger} GROUP BY 1, 2, 3 HAVING sum(n) <> 0"
    );
    let wrong = client.query(
        &format!("SELECT 'table: ' || t FROM ({rows} EXCEPT {ledger}) t UNION ALL SELECT 'ledger: ' || t FROM ({ledger} EXCEPT {rows}) t LIMIT 5"),
        &[],
    )?;
    let twice = client.query(
        &format!("SELECT 'twice: ' || t FROM (SELECT device, time, count(*) FROM {table} GROUP BY 1, 2 HAVING count(*) > 1) t LIMIT 5"),
        &[],
    )?;
    let found: Vec<String> = wrong.iter().chain(&twice).map(|row| row.get(0)).collect();
    if found.is_empty() {
        Ok(())
    } else {
        Err(found.join("; ").into())
    }
}
