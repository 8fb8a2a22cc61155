//! The place that a worker has. The workers of all databases share `varve.max_workers` of them. One that finds work and no free place
//! waits for one, and whoever has had his for a while gives it up then, and waits in its turn: a database cannot keep others from
//! being compacted.

use crate::pg::places;
use std::time::{Duration, Instant};

/// A worker keeps a place that another one waits for so long at least.
const TURN: Duration = Duration::from_secs(10);
/// A worker that waits looks so often for a free place. One that has given up its own looks later, or it would take that again.
const LOOK: Duration = Duration::from_millis(100);
const LATER: Duration = Duration::from_secs(1);
/// A worker waits so long at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came of waiting.
pub enum Outcome {
    Held,
    /// As many wait as run, or none has gone for long.
    Crowded,
    /// The worker was asked to end.
    Left,
}

#[derive(Default)]
pub struct Place {
    held: Option<(u32, Instant)>,
}

impl Place {
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Keeps the place, or takes one, or waits for one with `nap`, which is false when the worker has to end.
    pub fn hold(&mut self, nap: impl Fn(Duration) -> bool) -> Outcome {
        let is_early = |(_, since): (u32, Instant)| since.elapsed() < TURN;
        if self.held.is_some_and(is_early) {
            return Outcome::Held;
        }
        // Those who wait come first.
        if !places::is_awaited() && (self.is_held() || self.take()) {
            return Outcome::Held;
        }
        let first = match self.held.take() {
            Some((place, _)) => {
                places::give_up(place);
                LATER
            }
            None => LOOK,
        };
        let Some(queue) = places::queue() else {
            return Outcome::Crowded;
        };
        let outcome = self.wait(first, nap);
        places::leave_queue(queue);
        outcome
    }

    fn wait(&mut self, first: Duration, nap: impl Fn(Duration) -> bool) -> Outcome {
        let start = Instant::now();
        let mut time = first;
        while start.elapsed() < PATIENCE {
            if !nap(time) {
                return Outcome::Left;
            }
            if self.take() {
                return Outcome::Held;
            }
            time = LOOK;
        }
        Outcome::Crowded
    }

    fn take(&mut self) -> bool {
        self.held = places::take_place().map(|place| (place, Instant::now()));
        self.is_held()
    }
}
