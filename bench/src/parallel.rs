//! Programs in lanes, side by side: many of them wait most of the time. A lane that has come to its end helps the others. Lines of all lanes
//! are printed as they come; each names its program.

use crate::report::Report;
use crate::server::Tree;
use crate::Result;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// A program by its name; it is given the seed of the run.
pub type Program = (&'static str, fn(&Arc<Tree>, &mut Report, u64) -> Result<()>);

/// The programs of each lane that have not begun.
struct Waiting<'a>(Mutex<Vec<VecDeque<&'a Program>>>);

impl<'a> Waiting<'a> {
    fn of(lanes: &[&'a [Program]]) -> Self {
        let lanes = lanes.iter().map(|lane| lane.iter().collect());
        Waiting(Mutex::new(lanes.collect()))
    }

    /// The first one of a lane, or the last one of the lane that has most, where it has none.
    fn next(&self, lane: usize) -> Option<&'a Program> {
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = lanes[lane].pop_front();
        own.or_else(|| lanes.iter_mut().max_by_key(|lane| lane.len())?.pop_back())
    }
}

/// Runs the programs of each lane one after another, beside those of the others. One that breaks off counts as failed, and those
/// behind it run all the same.
pub fn run(tree: &Arc<Tree>, report: &mut Report, seed: u64, lanes: &[&[Program]]) {
    let waiting = Waiting::of(lanes);
    let ends = thread::scope(|scope| {
        let waiting = &waiting;
        let running: Vec<_> = (0..lanes.len())
            .map(|lane| scope.spawn(move || run_lane(waiting, lane, tree, seed)))
            .collect();
        let ends = running.into_iter().map(|lane| lane.join());
        ends.collect::<Vec<_>>()
    });
    for (number, end) in ends.into_iter().enumerate() {
        match end {
            Ok(lane) => report.absorb(lane),
            Err(_) => report.check(
                &format!("lane {}", number + 1),
                Err("its thread panicked".into()),
            ),
        }
    }
}

fn run_lane(waiting: &Waiting, lane: usize, tree: &Arc<Tree>, seed: u64) -> Report {
    let mut report = Report::default();
    while let Some((name, program)) = waiting.next(lane) {
        let start = Instant::now();
        if let Err(error) = program(tree, &mut report, seed) {
            report.check(&format!("{name}/to its end"), Err(error));
        }
        println!("{name}: {} s", start.elapsed().as_secs());
    }
    report
}
