//! The table of the model, its rollups, and what these must equal at any time.

use crate::heap_pair;
use crate::Result;
use postgres::{Client, Statement};

/// Rollups, with the queries that they are to equal.
pub const ROLLUPS: [(&str, &str); 3] = [
    (
        "hourly",
        "SELECT time_bucket('1 hour', time) AS bucket, device, count(*) AS rows, sum(value) AS sum, min(value) AS least, \
         avg(fine) AS average FROM readings WHERE value <> 13 GROUP BY bucket, device",
    ),
    (
        "daily",
        "SELECT time_bucket('1 day', bucket) AS day, device, sum(rows) AS rows, min(least) AS least FROM {hourly} \
         GROUP BY day, device",
    ),
    (
        "monthly",
        "SELECT time_bucket('1 month', time, 'Europe/Berlin') AS month, count(*) AS rows, max(fine) AS most FROM readings \
         GROUP BY month",
    ),
];

/// So many lines that differ are printed.
const MOST_LINES: usize = 50;
/// Partitions, of so many days each; those that are not there now have rows that come back with them.
pub const PARTITIONS: i64 = 10;
const PARTITION_DAYS: i64 = 6;

/// What is done to the table besides changes of rows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mode {
    /// It is emptied now and then.
    Plain,
    /// It has partitions, which come and go.
    Partitioned,
    /// Retention takes the oldest rows, and buckets stay.
    Retention,
}

impl Mode {
    pub fn of(seed: u64) -> Mode {
        [Mode::Plain, Mode::Partitioned, Mode::Retention][(seed % 3) as usize]
    }

    /// The tables that have the rows.
    pub fn tables(self) -> Vec<String> {
        match self {
            Mode::Partitioned => (0..PARTITIONS).map(|part| format!("part_{part}")).collect(),
            _ => vec!["readings".to_string()],
        }
    }
}

/// Where a partition is: the first one begins before all rows.
pub fn bounds(part: i64) -> String {
    let day = |part: i64| match part {
        0 => "MINVALUE".to_string(),
        PARTITIONS => "MAXVALUE".to_string(),
        _ => format!(
            "'2026-01-01'::timestamptz + interval '{} days'",
            part * PARTITION_DAYS - 3
        ),
    };
    format!("FOR VALUES FROM ({}) TO ({})", day(part), day(part + 1))
}

/// The table, its first rows, the rollups, and their queries as views.
pub fn create(client: &mut Client, mode: Mode) -> Result<()> {
    let columns = "(time timestamptz NOT NULL, device text NOT NULL, value int, fine float8)";
    if mode == Mode::Partitioned {
        client.batch_execute(&format!(
            "CREATE TABLE readings {columns} PARTITION BY RANGE (time)"
        ))?;
        for part in 0..PARTITIONS {
            let bounds = bounds(part);
            client.batch_execute(&format!(
                "CREATE TABLE part_{part} PARTITION OF readings {bounds} USING varve;
                 CREATE INDEX ON part_{part} USING varve (device, time)"
            ))?;
        }
    } else {
        client.batch_execute(&format!(
            "CREATE TABLE readings {columns} USING varve; CREATE INDEX ON readings USING varve (device, time)"
        ))?;
    }
    client.batch_execute(
        "INSERT INTO readings SELECT '2026-01-01'::timestamptz + i * interval '25 minutes', 'd' || i % 7, i % 29, i % 64 / 4.0
         FROM generate_series(0, 1151) i;
         CREATE TABLE taken (until timestamptz); INSERT INTO taken VALUES ('-infinity');
         CREATE TABLE kept (line text)",
    )?;
    for table in mode.tables() {
        heap_pair::compact(client, &table)?;
    }
    let mut hourly = String::new();
    for (name, query) in ROLLUPS {
        let view = query.replace("{hourly}", "hourly");
        client.execute("SELECT varve.create_rollup($1, $2)", &[&name, &view])?;
        // Where buckets outlive their rows, those above are made of what is kept of them.
        let raw = match mode {
            Mode::Retention => view,
            _ => query.replace("{hourly}", &format!("({hourly}) hourly")),
        };
        client.batch_execute(&format!("CREATE VIEW {name}_raw AS {raw}"))?;
        if name == "hourly" {
            hourly = raw;
        }
    }
    Ok(())
}

/// Retention takes rows of times before a start of an hour. What is kept of them is put down.
pub fn expire(client: &mut Client, until: &str) -> Result<()> {
    // From now on, buckets with such times are not compared with their rows.
    client.batch_execute(&format!("INSERT INTO taken VALUES ({until})"))?;
    for (name, _) in ROLLUPS {
        client.batch_execute(&format!("CALL varve.refresh_rollup('{name}')"))?;
    }
    // What time goes by until it is taken counts too.
    client.batch_execute(&format!(
        "SELECT varve.set_retention('readings', now() - ({until} - interval '4 hours'))"
    ))?;
    client.batch_execute("CALL varve.expire('readings')")?;
    // As far as retention has gone: a row that came late keeps it from going on.
    client.batch_execute(
        "BEGIN; DELETE FROM kept;
         INSERT INTO kept SELECT x::text FROM hourly x WHERE bucket < (SELECT timestamptz '2000-01-01 00:00+00' + r.removed * interval '1 us'
             FROM varve.rollup r WHERE r.view = 'hourly'::regclass AND r.removed > -9223372036854775808);
         COMMIT",
    )?;
    expect_kept(client)
}

/// An error where a bucket is not any more as it was when retention took its rows.
pub fn expect_kept(client: &mut Client) -> Result<()> {
    let query = "SELECT count(*) FROM (TABLE kept EXCEPT ALL SELECT x::text FROM hourly x) lost";
    match client.query_one(query, &[])?.get::<_, i64>(0) {
        0 => Ok(()),
        lines => {
            Err(format!("{lines} buckets that retention has left are not as they were").into())
        }
    }
}

/// A query for lines that a rollup has and its query has not, or the other way round.
fn differences((name, _): (&str, &str)) -> String {
    // Bucket columns come first. A bucket of times that retention has taken is not compared.
    let bucket = match name {
        "hourly" => "bucket",
        "monthly" => "month - interval '2 days'",
        _ => "'infinity'::timestamptz",
    };
    let side = |view: &str, side: i32| {
        format!("SELECT '{name}' AS rollup, x::text AS line, {side} AS side FROM {view} x WHERE {bucket} >= (SELECT max(until) FROM taken)")
    };
    format!(
        "SELECT rollup, line, sum(side) FROM ({} UNION ALL {}) lines GROUP BY rollup, line HAVING sum(side) <> 0",
        side(&format!("{name}_raw"), 1),
        side(name, -1)
    )
}

/// The comparison of all rollups with their queries, in one snapshot.
pub fn comparison() -> String {
    ROLLUPS.map(differences).join(" UNION ALL ")
}

/// Compares all rollups with their queries.
pub fn expect_equal(client: &mut Client) -> Result<()> {
    let rows = client.query(&comparison(), &[])?;
    judge(client, "all at once", &rows)
}

/// The same by a statement, whose plan may be older than what it compares. The snapshot comes first: a plan that was made before ATTACH,
/// and run after it, has not the partition's rows, as on a heap, where the rollup may have stored them.
pub fn expect_equal_as_prepared(client: &mut Client, comparison: &Statement) -> Result<()> {
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")?;
    let rows = client.query(comparison, &[])?;
    judge(client, "as prepared", &rows)?;
    Ok(client.batch_execute("COMMIT")?)
}

/// Compares one rollup with its query, in a transaction of any level. In READ COMMITTED the snapshot is taken when the plan has been made:
/// where partitions come meanwhile, the next statement has to find them equal.
pub fn expect_equal_rollup(client: &mut Client, which: usize, mode: Mode) -> Result<()> {
    let query = differences(ROLLUPS[which]);
    let mut rows = client.query(&query, &[])?;
    if mode == Mode::Partitioned && !rows.is_empty() && level(client)? == "read committed" {
        println!("{} lines differ by an older plan", rows.len());
        rows = client.query(&query, &[])?;
    }
    judge(client, "in its transaction", &rows)
}

/// A rollup that does not equal its query: whatever becomes of the session then, it counts.
#[derive(Debug)]
pub struct Different(String);

impl std::error::Error for Different {}

impl std::fmt::Display for Different {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The isolation level of the transaction.
fn level(client: &mut Client) -> Result<String> {
    let row = client.query_one("SHOW transaction_isolation", &[])?;
    Ok(row.get(0))
}

/// An error where there are differences; it says how the comparison was made, and what the same transaction sees of it again.
fn judge(client: &mut Client, how: &str, rows: &[postgres::Row]) -> Result<()> {
    let Some(row) = rows.first() else {
        return Ok(());
    };
    let (name, line, side): (String, String, i64) = (row.get(0), row.get(1), row.get(2));
    let what = if side > 0 {
        "is missing"
    } else {
        "is too many"
    };
    let level = level(client).unwrap_or("at a level that cannot be asked".to_string());
    let again = client.query(&comparison(), &[]);
    let again = again.map_or("it cannot be asked again".to_string(), |rows| {
        format!("then {} lines of all rollups differ", rows.len())
    });
    let lines = |row: &postgres::Row| {
        let (rollup, line, side): (&str, &str, i64) = (row.get(0), row.get(1), row.get(2));
        format!("{rollup} {line} {side}")
    };
    let all: Vec<String> = rows.iter().take(MOST_LINES).map(lines).collect();
    println!("{}", all.join("\n"));
    Err(Box::new(Different(format!(
        "{name}: {} lines differ, {line} {what}; {how}, {level}; {again}",
        rows.len()
    ))))
}
