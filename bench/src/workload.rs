//! Random changes that a heap and its varve twin undergo alike.

use crate::errors::{is_conflict, sqlstate};
use crate::heap_pair::{Pair, PAIRS, PLAIN};
use crate::random::Random;
use crate::Result;
use postgres::Client;
use std::fmt::Write as _;
use std::io::Write as _;

/// The rows that one workload may enter, before the next one's keys begin.
const KEYS: i64 = 1 << 32;

/// Random changes to the rows of a range of devices that nobody else changes.
pub struct Workload {
    pub random: Random,
    pairs: &'static [Pair],
    first_device: i64,
    devices: i64,
    seq: i64,
    /// Added to `seq` where it is part of a key, so that no other workload enters the same.
    first_key: i64,
}

impl Workload {
    /// Changes the pair without a key.
    pub fn new(seed: u64, first_device: i64, devices: i64) -> Self {
        Self {
            random: Random::new(seed),
            pairs: &[PLAIN],
            first_device,
            devices,
            seq: 0,
            first_key: 0,
        }
    }

    /// Changes the pair with a key as well; `number` is this workload's own.
    pub fn with_keys(self, number: i64) -> Self {
        Self {
            pairs: &PAIRS,
            first_key: number * KEYS,
            ..self
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

    /// One random change of one device's rows, in both tables of a pair.
    pub fn change(&mut self, client: &mut Client, device: i64) -> Result<()> {
        let pair = *self.random.pick(self.pairs);
        if pair.has_key() && self.random.one_in(3) {
            return self.enter_again(client, pair, device);
        }
        match self.random.integer(0, 10) {
            0..=2 => self.copy(client, pair, device),
            3..=4 => {
                let values: Vec<String> = (0..self.random.integer(1, 6))
                    .map(|_| self.values(pair, device))
                    .collect();
                pair.both(
                    client,
                    &format!("INSERT INTO {{t}} VALUES {}", values.join(", ")),
                )
            }
            5 => {
                let rows = self.random.integer(10, 3_000);
                let bulk = self.bulk(pair, device, rows);
                pair.both(client, &format!("INSERT INTO {{t}} {bulk}"))
            }
            6..=7 => {
                let predicate = self.predicate(pair, device);
                let set = *self.random.pick(&[
                    "value = value + 0.5",
                    "state = 'changed'",
                    "time = time + interval '1 s'",
                    "reading = NULL, value = -value",
                ]);
                pair.both(client, &format!("UPDATE {{t}} SET {set} WHERE {predicate}"))
            }
            8 => {
                let predicate = self.predicate(pair, device);
                pair.both(client, &format!("DELETE FROM {{t}} WHERE {predicate}"))
            }
            _ if self.random.one_in(4) => pair.both(
                client,
                &format!("DELETE FROM {{t}} WHERE device = {device}"),
            ),
            _ => {
                let predicate = self.predicate(pair, device);
                pair.both(
                    client,
                    &format!(
                        "SELECT count(*) FROM (SELECT 1 FROM {{t}} WHERE {predicate} FOR UPDATE) l"
                    ),
                )
            }
        }
    }

    /// Enters keys that are there, alone or among new ones: nothing happens, their rows are updated, or it is an error. Rows that stay are locked before
    /// that: an old snapshot shows some that somebody has moved to another time, and with both of them there, an UPDATE of times passes or fails by the
    /// order in which it comes to them.
    fn enter_again(&mut self, client: &mut Client, pair: Pair, device: i64) -> Result<()> {
        let predicate = self.predicate(pair, device);
        let there = format!("SELECT * FROM {{t}} WHERE {predicate}");
        match self.random.integer(0, 4) {
            0 => pair.both(
                client,
                &format!("INSERT INTO {{t}} {there} FOR UPDATE ON CONFLICT DO NOTHING"),
            ),
            1 => refused(client, pair, &format!("INSERT INTO {{t}} {there}")),
            _ => {
                let rows = self.random.integer(1, 500);
                let new = self.bulk(pair, device, rows);
                pair.both(client, &format!(
                    "INSERT INTO {{t}} AS t SELECT time, device, seq, value, 0, 'again' FROM ({there} FOR UPDATE) t UNION ALL {new}
                     ON CONFLICT (device, time, seq) DO UPDATE SET value = t.value + 1, state = EXCLUDED.state"
                ))
            }
        }
    }

    /// A SELECT that makes new rows.
    fn bulk(&mut self, pair: Pair, device: i64, rows: i64) -> String {
        let (seq, first) = (self.seq, self.first_seq(pair));
        self.seq += rows;
        format!(
            "SELECT '2026-01-01'::timestamptz + ({seq} + g) * interval '10 s', {device}, {first} + {seq} + g,
                    (g * 7 % 1000) / 10.0, g / 8.0, 'bulk' FROM generate_series(1, {rows}) g"
        )
    }

    fn copy(&mut self, client: &mut Client, pair: Pair, device: i64) -> Result<()> {
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
                self.first_seq(pair) + self.seq,
                self.random.integer(0, 99_999) as f64 / 100.0
            )?;
        }
        for table in [pair.heap, pair.varve] {
            let mut writer = client.copy_in(&format!(
                "COPY {table} (time, device, seq, value, reading, state) FROM STDIN"
            ))?;
            writer.write_all(text.as_bytes())?;
            writer.finish()?;
        }
        Ok(())
    }

    fn values(&mut self, pair: Pair, device: i64) -> String {
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
            self.first_seq(pair) + self.seq,
            self.seq as f64 / 4.0
        )
    }

    fn first_seq(&self, pair: Pair) -> i64 {
        if pair.has_key() {
            self.first_key
        } else {
            0
        }
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

    fn predicate(&mut self, pair: Pair, device: i64) -> String {
        let (n, m) = (self.random.integer(2, 300), self.random.integer(0, 2));
        match self.random.integer(0, 3) {
            0 => format!("device = {device} AND seq % {n} = {m}"),
            1 => {
                let from = self.first_seq(pair) + self.random.integer(0, self.seq.max(1) + 1);
                format!("device = {device} AND seq BETWEEN {from} AND {}", from + n)
            }
            _ => format!("device = {device} AND time >= '2026-01-01'::timestamptz + {} * interval '10 s' AND seq % 7 = {m}", self.seq - 10 * n),
        }
    }
}

/// Both tables must refuse the statement with the same SQLSTATE, or do it; it is undone then.
fn refused(client: &mut Client, pair: Pair, statement: &str) -> Result<()> {
    let mut states = Vec::new();
    // A statement that is refused gives its lock back: nobody else is to change the tables between the two.
    pair.both(client, "LOCK {t} IN ROW EXCLUSIVE MODE")?;
    for table in [pair.heap, pair.varve] {
        client.batch_execute("SAVEPOINT refused")?;
        let outcome = client.batch_execute(&statement.replace("{t}", table));
        let state = match outcome {
            Ok(()) => None,
            Err(error) => match sqlstate(&error) {
                Some(state) if !is_conflict(&error) => Some(state.to_string()),
                // The transaction has to begin anew, or the server is gone.
                _ => return Err(error.into()),
            },
        };
        client.batch_execute("ROLLBACK TO refused; RELEASE refused")?;
        states.push(state);
    }
    if states[0] == states[1] {
        return Ok(());
    }
    Err(format!(
        "{statement}: {:?} on the heap, {:?} on varve",
        states[0], states[1]
    )
    .into())
}
