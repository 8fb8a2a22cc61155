//! The place that a worker has. The workers of all databases share `varve.max_workers` of them. One that finds work and no free place
//! waits for one, and whoever has had his for a while leaves then: a database cannot keep others from being compacted. That one does
//! not wait in its turn, or those who found too many waiting would not come to it.

use crate::pg::places;
use std::time::{Duration, Instant};

/// A worker keeps a place that another one waits for so long at least.
const TURN: Duration = Duration::from_secs(10);
/// A worker that waits looks so often for a free place.
const LOOK: Duration = Duration::from_millis(100);
/// A worker waits so long at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came of waiting.
pub enum Outcome {
    Held,
    /// It is another one's turn.
    Over,
    /// As many wait as run, or none has gone for long.
    Crowded,
    /// The worker was asked to end.
    Left,
}

/// Since when the worker has a place.
#[derive(Default)]
pub struct Place(Option<Instant>);

impl Place {
    pub fn is_held(&self) -> bool {
        self.0.is_some()
    }

    /// Keeps the place, or takes one, or waits for one with `nap`, which is false when the worker has to end.
    pub fn hold(&mut self, nap: impl Fn(Duration) -> bool) -> Outcome {
        if let Some(since) = self.0 {
            let is_over = since.elapsed() > TURN && places::is_awaited();
            return if is_over {
                Outcome::Over
            } else {
                Outcome::Held
            };
        }
        // Those who wait come first.
        if !places::is_awaited() && self.take() {
            return Outcome::Held;
        }
        let Some(queue) = places::queue() else {
            return Outcome::Crowded;
        };
        let outcome = self.wait(nap);
        places::leave_queue(queue);
        outcome
    }

    fn wait(&mut self, nap: impl Fn(Duration) -> bool) -> Outcome {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if !nap(LOOK) {
                return Outcome::Left;
            }
            if self.take() {
                return Outcome::Held;
            }
        }
        Outcome::Crowded
    }

    fn take(&mut self) -> bool {
        self.0 = places::take_place().then(Instant::now);
        self.is_held()
    }
}
