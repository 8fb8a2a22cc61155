//! The long tests: 200 crashes, core's suites with chunks of one and of seven rows, pgbench, and an hour's worth of sessions
//! against the model. Its page, with the commit it was run on, is kept under docs/.

use super::core_suites::{Sources, Suite};
use super::{crash, differential, model, pgbench};
use crate::report::Report;
use crate::server::{self, Tree};
use crate::Result;
use std::fmt::Write as _;
use std::process::Command;
use std::rc::Rc;
use std::time::Instant;

const CRASHES: u64 = 200;
/// Four sessions for a quarter of an hour.
const MODEL_SECONDS: u64 = 900;
const TABLES: u64 = 30;
const STATEMENTS: usize = 1_000;

/// Every inserted row becomes a compressed one at once, in chunks of so many rows.
fn chunks_of(rows: u32) -> String {
    format!("-c varve.batch_rows=1 -c varve.chunk_rows={rows}")
}

pub fn run(tree: &Rc<Tree>, report: &mut Report, page: &str, seed: u64) -> Result<()> {
    let start = Instant::now();
    crash::run(tree, report, CRASHES, seed)?;
    if let Some(sources) = Sources::find(report)? {
        sources.compare(tree, report, Suite::Isolation, &chunks_of(1))?;
        sources.compare(tree, report, Suite::Isolation, &chunks_of(7))?;
        sources.compare(tree, report, Suite::Regression, &chunks_of(7))?;
    }
    pgbench::run(tree, report, 10, 20, "")?;
    pgbench::run(tree, report, 1, 20, &chunks_of(7))?;
    differential::run(tree, report, TABLES, STATEMENTS, seed)?;
    model::run(tree, report, MODEL_SECONDS, seed)?;
    std::fs::write(page, summary(report, seed, start)?)?;
    println!("written: {page}");
    Ok(())
}

fn summary(report: &Report, seed: u64, start: Instant) -> Result<String> {
    let commit = server::output(Command::new("git").args([
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
    ]))?;
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
