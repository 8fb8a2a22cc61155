//! The long tests: 200 crashes, core's suites in torture mode as far as they are no part of `make test`, pgbench, keys,
//! sessions against the model, killed workers, random aggregates and rollups. Its page, with the commit it was run on, is kept under docs/.

use super::core_suites::{Sources, Suite, Torture};
use super::{aggregates, crash, differential, keys, model, pgbench, rollups, worker};
use crate::parallel::{self, Program};
use crate::report::Report;
use crate::server::{self, Tree};
use crate::Result;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

const CRASHES: u64 = 200;
const SEVEN: Torture = Torture { chunk_rows: 7 };
/// Of four sessions.
const MODEL_SECONDS: u64 = 600;
/// Of each of its four modes.
const KEYS_SECONDS: u64 = 60;
/// In three modes; some twenty milliseconds of processor time each.
const ROLLUP_TRANSACTIONS: u64 = 50_000;
/// A machine that needs longer has failed.
const ROLLUP_SECONDS: u64 = 3_000;
const AGGREGATE_SECONDS: u64 = 420;
const AGGREGATE_QUERIES: u64 = 20_000;
const KILLED_WORKERS: u64 = 200;
const TABLES: u64 = 12;
const STATEMENTS: usize = 1_000;

const KILLED: &[Program] = &[
    ("crash", |tree, report, seed| {
        crash::run(tree, report, CRASHES, seed)
    }),
    ("worker", |tree, report, seed| {
        worker::run(tree, report, KILLED_WORKERS, seed)
    }),
];

const SESSIONS_AND_SUITES: &[Program] = &[
    ("model", |tree, report, seed| {
        model::run(tree, report, MODEL_SECONDS, seed)
    }),
    ("keys", |tree, report, seed| {
        keys::run(tree, report, KEYS_SECONDS, seed, "all")
    }),
    ("differential", |tree, report, seed| {
        differential::run(tree, report, TABLES, STATEMENTS, seed)
    }),
    ("pgbench", |tree, report, _| {
        pgbench::run(tree, report, 10, 20, "")
    }),
    ("pgbench in torture mode", |tree, report, _| {
        pgbench::run(tree, report, 10, 20, &SEVEN.settings())
    }),
    ("core suites", |tree, report, _| core_suites(tree, report)),
];

const ROLLUPS_AND_AGGREGATES: &[Program] = &[
    ("rollups", |tree, report, seed| {
        rollups::run(tree, report, ROLLUP_TRANSACTIONS, ROLLUP_SECONDS, seed)
    }),
    ("aggregates", |tree, report, seed| {
        aggregates::run(tree, report, AGGREGATE_SECONDS, AGGREGATE_QUERIES, seed)
    }),
];

pub fn run(tree: &Arc<Tree>, report: &mut Report, page: &str, seed: u64) -> Result<()> {
    let start = Instant::now();
    parallel::run(
        tree,
        report,
        seed,
        &[KILLED, SESSIONS_AND_SUITES, ROLLUPS_AND_AGGREGATES],
    );
    std::fs::write(page, summary(report, seed, start)?)?;
    println!("written: {page}");
    Ok(())
}

fn core_suites(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    let Some(sources) = Sources::find(report)? else {
        return Ok(());
    };
    let one = Torture { chunk_rows: 1 };
    sources.compare(tree, report, Suite::Isolation, Some(one))?;
    sources.compare(tree, report, Suite::Regression, Some(SEVEN))?;
    Ok(())
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
