//! The SQL of README.md, statement after statement, as a new user types it: on a database without the extension, with a file
//! to load. What the README says of it must be so: a load is compressed, compact leaves no tail, and loading again adds nothing.

use crate::heap_pair;
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::Result;
use postgres::Client;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// The file that the README loads.
const FILE: &str = "/path/to/cpu.csv";
/// More than `varve.batch_rows`.
const ROWS: usize = 3_000;
/// What the README inserts row by row.
const SINGLE_ROWS: i64 = 2;

pub fn run(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    if heap_pair::access_method() != "varve" {
        return Ok(());
    }
    let cluster = Cluster::create(tree, &["autovacuum = off"])?;
    report.check("readme/its SQL", follow(&cluster));
    Ok(())
}

fn follow(cluster: &Cluster) -> Result<()> {
    let readme = Path::new("README.md");
    let statements = statements(&blocks(&fs::read_to_string(readme)?));
    for words in [
        "CREATE EXTENSION",
        "USING varve",
        FILE,
        "time_bucket",
        "CALL varve.compact",
    ] {
        if !statements.iter().any(|sql| sql.contains(words)) {
            return Err(format!("no statement of README.md has {words}").into());
        }
    }
    let mut client = cluster.connect("postgres")?;
    let mut found_rows = false;
    for sql in &statements {
        let result: Result<()> = match sql.split_once(&format!("'{FILE}'")) {
            // What a client sends.
            Some((copy, options)) => load(&mut client, &format!("{copy}STDIN{options}")),
            None if sql.starts_with("SELECT") => {
                let rows = client.query(sql, &[]).map_err(Into::into);
                rows.map(|rows| found_rows |= rows.len() > 1)
            }
            None => client.batch_execute(sql).map_err(Into::into),
        };
        result.map_err(|error| format!("{sql}\n{error}"))?;
    }
    if !found_rows {
        return Err("its query finds nothing".into());
    }
    check(&mut client)
}

fn check(client: &mut Client) -> Result<()> {
    let query = "SELECT tail_rows, chunk_rows, obstacle IS NULL FROM varve.tables WHERE \"table\" = 'cpu'::regclass";
    let row = client.query_one(query, &[])?;
    let found: (i64, i64, bool) = (row.get(0), row.get(1), row.get(2));
    let right = (0, ROWS as i64 + SINGLE_ROWS, true);
    if found != right {
        return Err(format!("tail, chunks and obstacle are {found:?}, not {right:?}").into());
    }
    let again = "INSERT INTO cpu SELECT * FROM cpu ON CONFLICT DO NOTHING";
    match client.execute(again, &[])? {
        0 => heap_pair::expect_verified(client, "cpu"),
        added => Err(format!("loading again added {added} rows").into()),
    }
}

/// Ten series by the minute, of this and the last hour of a day that retention keeps, or of the README's.
fn load(client: &mut Client, copy: &str) -> Result<()> {
    use std::io::Write;
    let mut writer = client.copy_in(copy)?;
    for at in 0..ROWS {
        let (host, minute) = (at % 10, at / 10);
        writeln!(
            writer,
            "2026-01-01 {:02}:{:02}:30Z,web-{host},{at},{}",
            minute / 60,
            minute % 60,
            100 - at % 100
        )?;
    }
    writer.finish()?;
    Ok(())
}

/// The blocks of SQL of a page in Markdown.
fn blocks(page: &str) -> String {
    let mut lines = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match line.trim_start() {
            "```sql" => inside = true,
            "```" => inside = false,
            _ if inside => lines.push(line),
            _ => {}
        }
    }
    lines.join("\n")
}

/// SQL without comments, a statement each. The README has no semicolon or comment sign in a literal.
fn statements(sql: &str) -> Vec<String> {
    let lines = sql
        .lines()
        .map(|line| line.split("--").next().unwrap_or_default());
    let text = lines.collect::<Vec<_>>().join("\n");
    let parts = text.split(';').map(str::trim);
    parts
        .filter(|part| !part.is_empty())
        .map(String::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{blocks, statements};

    #[test]
    fn statements_come_out_of_blocks_without_their_comments() {
        let page =
            "# A\n```sql\nSELECT 1; -- one; more\nSELECT\n  2;\n```\n```rust\nfn a() {}\n```\n";
        assert_eq!(statements(&blocks(page)), ["SELECT 1", "SELECT\n  2"]);
    }
}
