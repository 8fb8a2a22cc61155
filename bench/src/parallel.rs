//! Programs in lanes, side by side: many of them wait most of the time. Lines of all lanes are printed as they come; each
//! names its program.

use crate::report::Report;
use crate::server::Tree;
use crate::Result;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// A program by its name; it is given the seed of the run.
pub type Program = (&'static str, fn(&Arc<Tree>, &mut Report, u64) -> Result<()>);

/// Runs the programs of a lane one after another, beside those of the others. One that breaks off counts as failed, and those
/// behind it run all the same.
pub fn run(tree: &Arc<Tree>, report: &mut Report, seed: u64, lanes: &[&[Program]]) {
    let ends = thread::scope(|scope| {
        let running: Vec<_> = lanes
            .iter()
            .map(|lane| scope.spawn(move || run_lane(lane, tree, seed)))
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

fn run_lane(lane: &[Program], tree: &Arc<Tree>, seed: u64) -> Report {
    let mut report = Report::default();
    for (name, program) in lane {
        let start = Instant::now();
        if let Err(error) = program(tree, &mut report, seed) {
            report.check(&format!("{name}/to its end"), Err(error));
        }
        println!("{name}: {} s", start.elapsed().as_secs());
    }
    report
}
