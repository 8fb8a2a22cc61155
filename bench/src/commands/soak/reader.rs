//! A reader: the queries of a dashboard, of the table and of its twin, each timed.

use super::{add_seconds, repeat, Ended, Seconds, Shared, SERIES, TABLE, TWIN};
use crate::random::Random;
use std::time::{Duration, Instant};

/// What is asked of {t}, where {host} is a series.
pub const QUERIES: [(&str, &str); 4] = [
    (
        "last value of a series",
        "SELECT time, v0 FROM {t} WHERE host = '{host}' ORDER BY time DESC LIMIT 1",
    ),
    (
        "rows of a series, one minute",
        "SELECT time, v0, v1 FROM {t} WHERE host = '{host}' AND time >= now() - interval '1 minute'",
    ),
    (
        "averages of a series by ten seconds, the window",
        "SELECT time_bucket('10 s', time) AS at, avg(v0), max(v1) FROM {t} WHERE host = '{host}' GROUP BY at",
    ),
    (
        "averages of all series, one minute",
        "SELECT host, avg(v0) FROM {t} WHERE time >= now() - interval '1 minute' GROUP BY host",
    ),
];

/// Seconds of each query: of the table, and of its twin.
#[derive(Default)]
pub struct Queried {
    pub seconds: Seconds<{ QUERIES.len() }>,
}

impl Queried {
    pub fn absorb(&mut self, other: Queried) {
        add_seconds(&mut self.seconds, other.seconds);
    }
}

pub fn read(shared: &Shared, number: u64) -> Ended<Queried> {
    let mut random = Random::new(number + 100);
    let mut queried = Queried::default();
    repeat(shared, Duration::from_millis(50), |client| {
        let which = random.integer(0, QUERIES.len() as i64) as usize;
        let host = format!("host-{}", random.integer(0, SERIES));
        let query = QUERIES[which].1.replace("{host}", &host);
        for table in if random.one_in(2) { [0, 1] } else { [1, 0] } {
            let query = query.replace("{t}", [TABLE, TWIN][table]);
            let start = Instant::now();
            client.simple_query(&query)?;
            queried.seconds[which][table].push(start.elapsed().as_secs_f64());
        }
        Ok(())
    })?;
    Ok(queried)
}
