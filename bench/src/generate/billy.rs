//! One-decimal temperatures, one reading per sensor and minute, as in the "Billy" benchmark: each walks by a uniform step of
//! -0.5..+0.5, reflected in 0..150. Rows: time,sensor_id,temperature.

use super::{timestamp, START};
use crate::random::Random;
use std::io::{Result, Write};

pub fn billy(out: &mut impl Write, sensors: usize, days: i64) -> Result<()> {
    let mut random = Random::new(20_260_101);
    let mut tenths: Vec<i64> = (0..sensors).map(|_| random.integer(600, 900)).collect();
    for minute in 0..days * 1_440 {
        let time = timestamp(START + 60 * minute);
        for (sensor, value) in tenths.iter_mut().enumerate() {
            writeln!(out, "{time},{},{}.{}", sensor + 1, *value / 10, *value % 10)?;
            *value = (*value + random.integer(-5, 6)).abs();
            if *value > 1_500 {
                *value = 3_000 - *value;
            }
        }
    }
    Ok(())
}
