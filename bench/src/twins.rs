//! A varve table and its heap twin: the same change is made to both in one transaction, so that whatever survives a crash, a
//! standby or a restore must be equal.

use crate::random::Random;
use crate::Result;
use postgres::Client;
use std::fmt::Write as _;
use std::io::Write as _;

/// The access method under test. VARVE_AM=heap tries the test programs themselves: nothing may differ then.
pub fn access_method() -> String {
    std::env::var("VARVE_AM").unwrap_or_else(|_| "varve".into())
}

fn is_varve() -> bool {
    access_method() == "varve"
}

pub const HEAP: &str = "samples_heap";
pub const VARVE: &str = "samples_varve";

/// Both tables, the varve one with a series index.
pub fn create(client: &mut Client) -> Result<()> {
    let columns = "time timestamptz NOT NULL, device int NOT NULL, seq bigint, value float8, reading numeric, state text";
    let (method, index) = (access_method(), if is_varve() { "varve" } else { "btree" });
    Ok(client.batch_execute(&format!(
        "CREATE TABLE {HEAP}({columns}); CREATE TABLE {VARVE}({columns}) USING {method};
         CREATE INDEX ON {HEAP} (device, time); CREATE INDEX ON {VARVE} USING {index} (device, time)"
    ))?)
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

/// Random changes to the rows of a range of devices that nobody else changes.
pub struct Workload {
    pub random: Random,
    first_device: i64,
    devices: i64,
    seq: i64,
}

impl Workload {
    pub fn new(seed: u64, first_device: i64, devices: i64) -> Self {
        Self {
            random: Random::new(seed),
            first_device,
            devices,
            seq: 0,
        }
    }

    pub fn any_device(&mut self) -> i64 {
        self.first_device + self.random.integer(0, self.devices)
    }

    /// One to four changes, some of them undone by a savepoint, within the caller's transaction.
    pub fn changes(&mut self, client: &mut Client) -> Result<()> {
        for _ in 0..self.random.integer(1, 5) {
            if self.random.one_in(5) {
                client.batch_execute("SAVEPOINT s")?;
                let device = self.any_device();
                self.change(client, device)?;
                client.batch_execute(if self.random.one_in(2) {
                    "ROLLBACK TO s"
                } else {
                    "RELEASE s"
                })?;
            } else {
                let device = self.any_device();
                self.change(client, device)?;
            }
        }
        Ok(())
    }

    /// One random change of one device's rows, in both tables.
    pub fn change(&mut self, client: &mut Client, device: i64) -> Result<()> {
        match self.random.integer(0, 10) {
            0..=2 => self.copy(client, device),
            3..=4 => {
                let values: Vec<String> = (0..self.random.integer(1, 6))
                    .map(|_| self.values(device))
                    .collect();
                both(
                    client,
                    &format!("INSERT INTO {{t}} VALUES {}", values.join(", ")),
                )
            }
            5 => {
                let (rows, seq) = (self.random.integer(10, 3_000), self.seq);
                self.seq += rows;
                both(client, &format!(
                    "INSERT INTO {{t}} SELECT '2026-01-01'::timestamptz + ({seq} + g) * interval '10 s', {device}, {seq} + g,
                            (g * 7 % 1000) / 10.0, g / 8.0, 'bulk' FROM generate_series(1, {rows}) g"
                ))
            }
            6..=7 => {
                let predicate = self.predicate(device);
                let set = *self.random.pick(&[
                    "value = value + 0.5",
                    "state = 'changed'",
                    "time = time + interval '1 s'",
                    "reading = NULL, value = -value",
                ]);
                both(client, &format!("UPDATE {{t}} SET {set} WHERE {predicate}"))
            }
            8 => {
                let predicate = self.predicate(device);
                both(client, &format!("DELETE FROM {{t}} WHERE {predicate}"))
            }
            _ if self.random.one_in(4) => both(
                client,
                &format!("DELETE FROM {{t}} WHERE device = {device}"),
            ),
            _ => {
                let predicate = self.predicate(device);
                both(
                    client,
                    &format!(
                        "SELECT count(*) FROM (SELECT 1 FROM {{t}} WHERE {predicate} FOR UPDATE) l"
                    ),
                )
            }
        }
    }

    fn copy(&mut self, client: &mut Client, device: i64) -> Result<()> {
        let mut text = String::new();
        for _ in 0..self.random.integer(1, 5_000) {
            self.seq += 1;
            let value = if self.random.one_in(50) {
                "\\N".into()
            } else {
                format!("{:?}", self.random.uniform(-1e6, 1e6))
            };
            let state = *self.random.pick(&["up", "down", "", "\\N"]);
            writeln!(
                text,
                "{}\t{device}\t{}\t{value}\t{}\t{state}",
                self.time(),
                self.seq,
                self.random.integer(0, 99_999) as f64 / 100.0
            )?;
        }
        for table in [HEAP, VARVE] {
            let mut writer = client.copy_in(&format!(
                "COPY {table} (time, device, seq, value, reading, state) FROM STDIN"
            ))?;
            writer.write_all(text.as_bytes())?;
            writer.finish()?;
        }
        Ok(())
    }

    fn values(&mut self, device: i64) -> String {
        self.seq += 1;
        let value = *self.random.pick(&[
            "NULL",
            "'NaN'",
            "'-0'",
            "'Infinity'",
            "0.1",
            "42",
            "-3.25e-7",
        ]);
        let state = *self
            .random
            .pick(&["NULL", "'up'", "'down'", "repeat('long ', 700)"]);
        format!(
            "('{}', {device}, {}, {value}, {}, {state})",
            self.time(),
            self.seq,
            self.seq as f64 / 4.0
        )
    }

    /// Mostly in order of arrival, now and then late.
    fn time(&mut self) -> String {
        let late = if self.random.one_in(100) {
            self.random.integer(0, 100_000)
        } else {
            0
        };
        crate::generate::timestamp(1_767_225_600 + (self.seq - late) * 10)
    }

    fn predicate(&mut self, device: i64) -> String {
        let (n, m) = (self.random.integer(2, 300), self.random.integer(0, 2));
        match self.random.integer(0, 3) {
            0 => format!("device = {device} AND seq % {n} = {m}"),
            1 => {
                let from = self.random.integer(0, self.seq.max(1) + 1);
                format!("device = {device} AND seq BETWEEN {from} AND {}", from + n)
            }
            _ => format!("device = {device} AND time >= '2026-01-01'::timestamptz + {} * interval '10 s' AND seq % 7 = {m}", self.seq - 10 * n),
        }
    }
}

/// Runs the statement on both tables, `{t}` being their name.
pub fn both(client: &mut Client, statement: &str) -> Result<()> {
    for table in [HEAP, VARVE] {
        client.batch_execute(&statement.replace("{t}", table))?;
    }
    Ok(())
}
