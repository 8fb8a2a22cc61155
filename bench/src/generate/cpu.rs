//! The shape of the Time Series Benchmark Suite's cpu-only data: hosts that report ten whole-numbered percentages every ten
//! seconds, each a normal random walk clamped to 0..100. Rows: time,tags_id,usage_user,usage_system,usage_idle,usage_nice,
//! usage_iowait,usage_irq,usage_softirq,usage_steal,usage_guest,usage_guest_nice.

use super::timestamp;
use crate::random::Random;
use std::io::{Result, Write};

/// The columns of a table for these rows.
pub const COLUMNS: &str = "time timestamptz NOT NULL, tags_id int NOT NULL, usage_user float8, usage_system float8,
    usage_idle float8, usage_nice float8, usage_iowait float8, usage_irq float8, usage_softirq float8,
    usage_steal float8, usage_guest float8, usage_guest_nice float8";

/// 2016-01-01T00:00:00Z, where the suite begins.
const START: i64 = 1_451_606_400;

pub fn cpu(out: &mut impl Write, hosts: usize, steps: i64) -> Result<()> {
    let mut random = Random::new(123);
    let mut state: Vec<[f64; 10]> = (0..hosts)
        .map(|_| std::array::from_fn(|_| random.uniform(0.0, 100.0)))
        .collect();
    for step in 0..steps {
        let time = timestamp(START + 10 * step);
        for (host, values) in state.iter_mut().enumerate() {
            write!(out, "{time},{}", host + 1)?;
            for value in values.iter_mut() {
                write!(out, ",{}", *value as i64)?;
                *value = (*value + random.normal(0.0, 1.0)).clamp(0.0, 100.0);
            }
            writeln!(out)?;
        }
    }
    Ok(())
}
