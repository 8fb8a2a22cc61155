//! A varve table and its heap twin: the same change is made to both in one transaction, so that whatever survives a crash, a
//! standby or a restore must be equal. A second pair has a primary key.

use crate::errors::is_conflict;
use crate::Result;
use postgres::Client;
use std::fmt::Write as _;

/// The access method under test. VARVE_AM=heap tries the test programs themselves: nothing may differ then.
pub fn access_method() -> String {
    std::env::var("VARVE_AM").unwrap_or_else(|_| "varve".into())
}

fn is_varve() -> bool {
    access_method() == "varve"
}

pub const HEAP: &str = PLAIN.heap;
pub const VARVE: &str = PLAIN.varve;

/// A heap and its varve twin.
#[derive(Clone, Copy)]
pub struct Pair {
    pub heap: &'static str,
    pub varve: &'static str,
    /// What follows the columns: a primary key that holds those of the series index.
    key: &'static str,
}

pub const PLAIN: Pair = Pair {
    heap: "samples_heap",
    varve: "samples_varve",
    key: "",
};

pub const KEYED: Pair = Pair {
    heap: "keyed_heap",
    varve: "keyed_varve",
    key: ", PRIMARY KEY (device, time, seq)",
};

pub const PAIRS: [Pair; 2] = [PLAIN, KEYED];

/// The pair without a key.
pub fn create(client: &mut Client) -> Result<()> {
    PLAIN.create(client)
}

impl Pair {
    /// Both tables, the varve one with a series index.
    pub fn create(self, client: &mut Client) -> Result<()> {
        let columns = format!(
            "time timestamptz NOT NULL, device int NOT NULL, seq bigint, value float8, reading numeric, state text{}",
            self.key
        );
        let (method, index) = (access_method(), if is_varve() { "varve" } else { "btree" });
        let Self { heap, varve, .. } = self;
        Ok(client.batch_execute(&format!(
            "CREATE TABLE {heap}({columns}); CREATE TABLE {varve}({columns}) USING {method};
             CREATE INDEX ON {heap} (device, time); CREATE INDEX ON {varve} USING {index} (device, time)"
        ))?)
    }

    pub fn has_key(self) -> bool {
        !self.key.is_empty()
    }

    /// Runs the statement on both tables, `{t}` being their name.
    pub fn both(self, client: &mut Client, statement: &str) -> Result<()> {
        for table in [self.heap, self.varve] {
            let executed = client.batch_execute(&statement.replace("{t}", table));
            executed.inspect_err(|error| {
                if !is_conflict(error) {
                    println!("failed on {table}: {statement}");
                }
            })?;
        }
        Ok(())
    }

    /// An error where the tables differ.
    pub fn expect_equal(self, client: &mut Client) -> Result<()> {
        expect_equal(client, self.heap, self.varve)
    }

    /// An error where the tables differ or `varve.verify` finds something.
    pub fn expect_right(self, client: &mut Client) -> Result<()> {
        self.expect_equal(client)?;
        expect_verified(client, self.varve)
    }
}

/// An error that shows rows which only one of the tables has. Compared as text: -0 and 0 are not the same.
pub fn expect_equal(client: &mut Client, left: &str, right: &str) -> Result<()> {
    let side = |a: &str, b: &str| {
        format!("(SELECT '{a}: ' || t FROM (SELECT t::text AS t FROM {a} t EXCEPT ALL SELECT t::text FROM {b} t) d)")
    };
    let query = format!(
        "SELECT * FROM ({} UNION ALL {}) d(row)",
        side(left, right),
        side(right, left)
    );
    let count: i64 = client
        .query_one(&format!("SELECT count(*) FROM ({query}) c"), &[])?
        .get(0);
    if count == 0 {
        return Ok(());
    }
    let mut text = format!("{count} rows differ, among them");
    for row in client.query(&format!("{query} LIMIT 3"), &[])? {
        write!(text, "\n    {}", row.get::<_, String>(0))?;
    }
    Err(text.into())
}

/// An error that shows what `varve.verify` finds wrong with the table.
pub fn expect_verified(client: &mut Client, table: &str) -> Result<()> {
    if !is_varve() {
        return Ok(());
    }
    let found = client.query(
        &format!("SELECT v::text FROM varve.verify('{table}'::regclass) v LIMIT 3"),
        &[],
    )?;
    match found.first() {
        None => Ok(()),
        Some(row) => Err(format!("varve.verify({table}): {}", row.get::<_, String>(0)).into()),
    }
}

/// What order of rows does not change: their number, and the sum of the hashes of their texts.
pub fn digest(client: &mut Client, table: &str) -> Result<String> {
    let query = format!("SELECT count(*) || ' rows, ' || coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM {table} t");
    Ok(client.query_one(&query, &[])?.get(0))
}

pub fn compact(client: &mut Client, table: &str) -> Result<()> {
    let statement = if is_varve() {
        format!("CALL varve.compact('{table}')")
    } else {
        format!("VACUUM {table}")
    };
    Ok(client.batch_execute(&statement)?)
}

/// Runs the statement on both tables without a key, `{t}` being their name.
pub fn both(client: &mut Client, statement: &str) -> Result<()> {
    PLAIN.both(client, statement)
}
