//! Everything of `make test`, in three lanes. What comes last in one is what a lane that is ready takes over.

use super::{
    aggregates, cancel, core_suites, crash, differential, faults, installcheck, keys, logical,
    model, pgbench, readme, replicate, resource_limits, rollups, worker,
};
use crate::parallel::{self, Program};
use crate::report::Report;
use crate::server::Tree;
use std::sync::Arc;

/// Programs that mind how long something takes come first here, while those of the other lanes leave a processor free.
const FAULTS: &[Program] = &[
    ("cancel", |tree, report, seed| {
        cancel::run(tree, report, 30_000, 2, seed)
    }),
    ("resource-limits", |tree, report, seed| {
        resource_limits::run(tree, report, "all", seed)
    }),
    ("faults", |tree, report, seed| {
        faults::run(tree, report, 60, seed)
    }),
    ("replicate", |tree, report, _| replicate::run(tree, report)),
    ("logical", |tree, report, seed| {
        logical::run(tree, report, 6, seed)
    }),
    ("differential", |tree, report, seed| {
        differential::run(tree, report, 6, 300, seed)
    }),
    ("crash", |tree, report, seed| {
        crash::run(tree, report, 5, seed)
    }),
    ("aggregates", |tree, report, seed| {
        aggregates::run(tree, report, 120, 0, seed)
    }),
    ("rollups", |tree, report, seed| {
        rollups::run(tree, report, 2_000, 600, seed)
    }),
];

const SESSIONS: &[Program] = &[
    ("installcheck", |tree, report, _| {
        installcheck::run(tree, report)
    }),
    ("readme", |tree, report, _| readme::run(tree, report)),
    ("model", |tree, report, seed| {
        model::run(tree, report, 120, seed)
    }),
    ("keys", |tree, report, seed| {
        keys::run(tree, report, 13, seed, "all")
    }),
    ("worker", |tree, report, seed| {
        worker::run(tree, report, 5, seed)
    }),
    ("pgbench", |tree, report, _| {
        pgbench::run(tree, report, 2, 3, "")
    }),
];

const SUITES: &[Program] = &[("core suites", |tree, report, _| {
    core_suites::test(tree, report)
})];

pub fn run(tree: &Arc<Tree>, report: &mut Report, seed: u64) {
    parallel::run(tree, report, seed, &[FAULTS, SESSIONS, SUITES]);
}
