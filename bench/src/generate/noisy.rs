//! Noisy monitoring data: devices with ten metrics each, a point every five minutes. Metrics 1 to 6 are sines with gaussian
//! noise and 7 to 8 gaussian random walks, both in full double precision; 9 and 10 are integer counters.
//! Rows: time,device_id,metric_id,value.

use super::{timestamp, START};
use crate::random::Random;
use std::f64::consts::TAU;
use std::io::{Result, Write};

const STEP_SECONDS: i64 = 300;
const PERIODS: [f64; 6] = [86_400.0, 43_200.0, 21_600.0, 86_400.0, 28_800.0, 604_800.0];

pub fn noisy(out: &mut impl Write, devices: usize, days: i64) -> Result<()> {
    let points = days * 86_400 / STEP_SECONDS;
    let mut random = Random::new(42);
    let series: Vec<Vec<f64>> = (0..devices * 10)
        .map(|i| one_series(&mut random, i % 10, points))
        .collect();
    for point in 0..points {
        let time = timestamp(START + STEP_SECONDS * point);
        for (i, values) in series.iter().enumerate() {
            writeln!(
                out,
                "{time},{},{},{:?}",
                i / 10 + 1,
                i % 10 + 1,
                values[point as usize]
            )?;
        }
    }
    Ok(())
}

fn one_series(random: &mut Random, metric: usize, points: i64) -> Vec<f64> {
    let mut walk = |mut sum: f64, step: &mut dyn FnMut(&mut Random) -> f64| -> Vec<f64> {
        let mut next = |random: &mut Random| {
            sum += step(random);
            sum
        };
        (0..points).map(|_| next(random)).collect()
    };
    match metric {
        0..=5 => {
            let (base, amplitude) = (random.uniform(20.0, 80.0), random.uniform(5.0, 20.0));
            let phase = random.uniform(0.0, TAU);
            let sine = |i: i64| (TAU * (i * STEP_SECONDS) as f64 / PERIODS[metric] + phase).sin();
            (0..points)
                .map(|i| base + amplitude * sine(i) + random.normal(0.0, amplitude * 0.1))
                .collect()
        }
        6..=7 => walk(550.0, &mut |random| random.normal(0.0, 1.0)),
        8 => walk(500.0, &mut |random| random.poisson(300.0) as f64),
        _ => walk(0.0, &mut |random| random.exponential(1e6))
            .into_iter()
            .map(f64::floor)
            .collect(),
    }
}
