//! A writer: batches of half of the series, into the table and its twin, each timed.

use super::{
    add_seconds, now_us, repeat, timestamp, Ended, Seconds, Shared, SERIES, TABLE, TWIN, WRITERS,
};
use crate::errors::is_conflict;
use crate::random::Random;
use crate::Result;
use postgres::Client;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Rows of a batch are at most 2 to this power.
const MOST_ROWS_LOG2: f64 = 9.97;
const LATE_PER_CENT: i64 = 5;
/// One batch in so many is followed by a correction of earlier rows.
const CORRECTION: i64 = 50;
const PAUSE_MS: i64 = 60;

/// Batches of up to so many rows.
pub const SIZES: [usize; 3] = [1, 100, 1_000];

/// Seconds of inserts by the size of their batch: of the table, and of its twin.
#[derive(Default)]
pub struct Written {
    pub rows: u64,
    pub late: u64,
    pub corrections: u64,
    pub seconds: Seconds<{ SIZES.len() }>,
}

impl Written {
    pub fn absorb(&mut self, other: Written) {
        self.rows += other.rows;
        self.late += other.late;
        self.corrections += other.corrections;
        add_seconds(&mut self.seconds, other.seconds);
    }
}

pub fn write(shared: &Shared, number: i64) -> Ended<Written> {
    let mut random = Random::new(number as u64 + 1);
    let mut written = Written::default();
    let mut next = 0;
    repeat(shared, Duration::ZERO, |client| {
        let rows = 2f64.powf(random.unit() * MOST_ROWS_LOG2) as usize;
        let statement = batch(shared, &mut random, &mut written, (number, &mut next), rows);
        let both = shared.pairs.read().map_err(|_| "a thread panicked")?;
        let size = SIZES
            .iter()
            .position(|&most| rows <= most)
            .unwrap_or(SIZES.len() - 1);
        // Neither is always the first.
        for which in if random.one_in(2) { [0, 1] } else { [1, 0] } {
            let statement = statement.replace("{t}", [TABLE, TWIN][which]);
            let start = Instant::now();
            client.batch_execute(&statement)?;
            written.seconds[size][which].push(start.elapsed().as_secs_f64());
        }
        written.rows += rows as u64;
        if random.one_in(CORRECTION) {
            correct(client, shared, &mut random, number)?;
            written.corrections += 1;
        }
        drop(both);
        thread::sleep(Duration::from_millis(random.integer(0, PAUSE_MS) as u64));
        Ok(())
    })?;
    Ok(written)
}

/// An INSERT into {t}: one series after another reports, some of them late.
fn batch(
    shared: &Shared,
    random: &mut Random,
    written: &mut Written,
    (writer, next): (i64, &mut i64),
    rows: usize,
) -> String {
    let columns = shared.columns.load(Ordering::Relaxed);
    let names: Vec<_> = (0..columns).map(|n| format!("v{n}")).collect();
    let mut text = format!(
        "INSERT INTO {{t}} (time, host, {}) VALUES ",
        names.join(", ")
    );
    let now = now_us();
    for row in 0..rows {
        let mut time = now + row as i64;
        if random.integer(0, 100) < LATE_PER_CENT {
            time -= random.integer(0, shared.keep.as_micros() as i64 / 2);
            written.late += 1;
        }
        let host = *next % (SERIES / WRITERS) * WRITERS + writer;
        *next += 1;
        let comma = if row > 0 { ", " } else { "" };
        let _ = write!(text, "{comma}('{}', 'host-{host}'", timestamp(time));
        for column in 0..columns as i64 {
            // A slow wave of one decimal, and noise.
            let wave = ((now / 1_000_000 + host * 7) as f64 / 60.0).sin() * 200.0;
            let tenths = wave as i64 + column * 1_000 + random.integer(0, 20);
            let _ = write!(
                text,
                ", {}.{}",
                tenths.div_euclid(10),
                tenths.rem_euclid(10)
            );
        }
        text.push(')');
    }
    text
}

/// Some seconds of a series were measured wrong.
fn correct(client: &mut Client, shared: &Shared, random: &mut Random, writer: i64) -> Result<()> {
    let host = random.integer(0, SERIES / WRITERS) * WRITERS + writer;
    let from = now_us() - random.integer(0, shared.keep.as_micros() as i64 / 2);
    let statement = format!(
        "UPDATE {{t}} SET v0 = v0 + 1 WHERE host = 'host-{host}' AND time >= '{}' AND time < '{}'",
        timestamp(from),
        timestamp(from + 2_000_000)
    );
    for table in [TABLE, TWIN] {
        let statement = statement.replace("{t}", table);
        loop {
            match client.batch_execute(&statement) {
                Err(error) if is_conflict(&error) => {}
                outcome => break outcome?,
            }
        }
    }
    Ok(())
}
