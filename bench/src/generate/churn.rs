//! Churning short series, like a scraped fleet whose containers come and go: each instance lives for 10 to 1,000 scrapes of
//! 15 s (log-uniform) and exposes 20 metrics, of which 12 never change, 4 are integer counters, 3 gauges with one decimal and
//! 1 a gauge in full double precision. A thousand instances are 20,000 series. Rows: time,instance,metric,value.

use super::{timestamp, START};
use crate::random::Random;
use std::io::{Result, Write};

/// Births are spread over twelve hours of scrapes.
const BIRTH_SCRAPES: i64 = 2 * 240 * 6;

struct Instance {
    number: usize,
    end: i64,
    constants: [i64; 12],
    counters: [i64; 4],
    tenths: [i64; 3],
    gauge: f64,
}

pub fn churn(out: &mut impl Write, instances: usize) -> Result<()> {
    let mut random = Random::new(7);
    let lifetimes: Vec<i64> = (0..instances)
        .map(|_| random.uniform(10f64.ln(), 1000f64.ln()).exp() as i64)
        .collect();
    let mut births: Vec<i64> = (0..instances)
        .map(|_| random.integer(0, BIRTH_SCRAPES))
        .collect();
    births.sort_unstable();
    let last = births
        .iter()
        .zip(&lifetimes)
        .map(|(b, l)| b + l)
        .max()
        .unwrap_or(0);
    let (mut alive, mut born): (Vec<Instance>, usize) = (Vec::new(), 0);
    for scrape in 0..last {
        while births.get(born) == Some(&scrape) {
            alive.push(Instance::new(born, scrape + lifetimes[born], &mut random));
            born += 1;
        }
        alive.retain(|instance| instance.end > scrape);
        let time = timestamp(START + 15 * scrape);
        for instance in &mut alive {
            instance.step(&mut random);
            instance.write(out, &time)?;
        }
    }
    Ok(())
}

impl Instance {
    fn new(number: usize, end: i64, random: &mut Random) -> Self {
        Self {
            number,
            end,
            constants: std::array::from_fn(|_| random.integer(0, 100_000)),
            counters: std::array::from_fn(|_| random.integer(0, 10_000_000)),
            tenths: std::array::from_fn(|_| random.integer(0, 1_000)),
            gauge: random.normal(50.0, 10.0),
        }
    }

    fn step(&mut self, random: &mut Random) {
        self.counters
            .iter_mut()
            .for_each(|v| *v += random.poisson(40.0));
        self.tenths
            .iter_mut()
            .for_each(|v| *v = (*v + random.integer(-5, 6)).abs());
        self.gauge += random.normal(0.0, 0.5);
    }

    fn write(&self, out: &mut impl Write, time: &str) -> Result<()> {
        let whole = self
            .constants
            .iter()
            .chain(&self.counters)
            .map(|v| v.to_string());
        let decimal = self.tenths.iter().map(|v| format!("{}.{}", v / 10, v % 10));
        let values = whole.chain(decimal).chain([format!("{:?}", self.gauge)]);
        for (metric, value) in values.enumerate() {
            writeln!(out, "{time},pod-{:06},m{metric:02},{value}", self.number)?;
        }
        Ok(())
    }
}
