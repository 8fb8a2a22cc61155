//! The long tests: 200 crashes, core's suites in torture mode as far as they are no part of `make test`, pgbench, and an hour's worth of sessions
//! against the model. Its page, with the commit it was run on, is kept under docs/.

use super::core_suites::{Sources, Suite, Torture};
use super::{crash, differential, model, pgbench};
use crate::errors::describe;
use crate::report::Report;
use crate::server::{self, Tree};
use crate::Result;
use std::fmt::Write as _;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

const CRASHES: u64 = 200;
const SEVEN: Torture = Torture { chunk_rows: 7 };
/// Four sessions for a quarter of an hour.
const MODEL_SECONDS: u64 = 900;
const TABLES: u64 = 30;
const STATEMENTS: usize = 1_000;

pub fn run(tree: &Arc<Tree>, report: &mut Report, page: &str, seed: u64) -> Result<()> {
    let start = Instant::now();
    let lanes: [Lane; 2] = [
        ("crashes and suites", crashes_and_suites),
        ("model and random statements", model_and_statements),
    ];
    let ends = thread::scope(|scope| {
        let lanes =
            lanes.map(|(name, lane)| (name, scope.spawn(move || run_lane(lane, tree, seed))));
        lanes.map(|(name, lane)| (name, lane.join()))
    });
    for (name, end) in ends {
        let (lane, outcome) = end.map_err(|_| format!("the thread of {name} panicked"))?;
        report.absorb(lane);
        outcome.map_err(|error| format!("{name}: {error}"))?;
    }
    std::fs::write(page, summary(report, seed, start)?)?;
    println!("written: {page}");
    Ok(())
}

/// Programs that run one after another, beside those of the other lane: each uses about one processor.
type Lane = (&'static str, fn(&Arc<Tree>, &mut Report, u64) -> Result<()>);

fn run_lane(
    lane: impl Fn(&Arc<Tree>, &mut Report, u64) -> Result<()>,
    tree: &Arc<Tree>,
    seed: u64,
) -> (Report, std::result::Result<(), String>) {
    let mut report = Report::default();
    let outcome = lane(tree, &mut report, seed).map_err(|error| describe(error.as_ref()));
    (report, outcome)
}

fn crashes_and_suites(tree: &Arc<Tree>, report: &mut Report, seed: u64) -> Result<()> {
    crash::run(tree, report, CRASHES, seed)?;
    if let Some(sources) = Sources::find(report)? {
        sources.compare(
            tree,
            report,
            Suite::Isolation,
            Some(Torture { chunk_rows: 1 }),
        )?;
        sources.compare(tree, report, Suite::Regression, Some(SEVEN))?;
    }
    Ok(())
}

fn model_and_statements(tree: &Arc<Tree>, report: &mut Report, seed: u64) -> Result<()> {
    model::run(tree, report, MODEL_SECONDS, seed)?;
    differential::run(tree, report, TABLES, STATEMENTS, seed)?;
    pgbench::run(tree, report, 10, 20, "")?;
    pgbench::run(tree, report, 1, 20, &SEVEN.settings())
}

fn summary(report: &Report, seed: u64, start: Instant) -> Result<String> {
    let commit = server::commit()?;
    let version = server::pg_config("--version")?;
    let minutes = start.elapsed().as_secs() / 60;
    let mut page = format!("# Torture\n\n`make torture` on commit {commit}, {version}, seed {seed}, {minutes} minutes.\n\n");
    page.push_str("| program | passed | failed |\n|---|---|---|\n");
    for (program, passed, failed) in report.by_program() {
        writeln!(page, "| {program} | {passed} | {failed} |")?;
    }
    if !report.failures().is_empty() {
        page.push_str("\nFailed:\n\n");
        for name in report.failures() {
            writeln!(page, "- {name}")?;
        }
    }
    Ok(page)
}
