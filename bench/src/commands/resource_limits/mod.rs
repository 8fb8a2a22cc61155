//! What befalls a server: the end of a rewrite and then of the machine, a prepared transaction that outlives a crash, a
//! backend that is killed or terminated in the middle of its work, a full disk, little memory, ids and locks that run out. Nothing that was committed may be lost, and
//! nothing else may be left.

mod disk;
mod killed;
mod limits;
mod memory;
mod rewritten;

use crate::heap_pair::{self, HEAP, VARVE};
use crate::report::Report;
use crate::server::Tree;
use crate::Result;
use postgres::Client;
use std::sync::Arc;

/// All of them, or one by its name; `huge` by its name only.
pub fn run(tree: &Arc<Tree>, report: &mut Report, which: &str, seed: u64) -> Result<()> {
    println!("resource-limits: seed {seed}");
    let wanted = |name: &str| which == "all" || which == name;
    if wanted("rewritten") {
        rewritten::run(tree, report)?;
    }
    if wanted("killed") {
        killed::run(tree, report, seed)?;
    }
    if wanted("disk") {
        disk::run(tree, report)?;
    }
    if wanted("memory") {
        memory::run(tree, report)?;
    }
    if which == "huge" {
        memory::run_huge(tree, report)?;
    }
    if wanted("limits") {
        limits::run(tree, report)?;
    }
    Ok(())
}

/// Twins with some long series; the varve one has large chunks, fresh chunks, changed rows and a tail.
fn create_twins(client: &mut Client) -> Result<()> {
    heap_pair::create(client)?;
    heap_pair::both(client, &rows("s", 1, 9_000))?;
    heap_pair::compact(client, VARVE)?;
    heap_pair::both(client, &rows("fresh", 9_001, 12_000))?;
    heap_pair::both(
        client,
        "UPDATE {t} SET value = -value WHERE seq % 70 = 1; DELETE FROM {t} WHERE seq % 50 = 2",
    )?;
    heap_pair::both(
        client,
        "INSERT INTO {t} VALUES ('2026-03-01', 1, -1, 0.5, 7, 'tail')",
    )
}

/// An INSERT of rows numbered `from` to `to` into `{t}`.
fn rows(state: &str, from: u32, to: u32) -> String {
    format!(
        "INSERT INTO {{t}} SELECT '2026-01-01'::timestamptz + g * interval '1 s', g % 3, g, random_of(g), g / 8.0, '{state}'
         FROM generate_series({from}, {to}) AS g"
    )
    .replace("random_of(g)", "(hashint4(g) / 1000.0)")
}

/// The twins are equal, and nothing is wrong with the varve one.
fn check(client: &mut Client) -> Result<()> {
    heap_pair::expect_equal(client, HEAP, VARVE)?;
    heap_pair::expect_verified(client, VARVE)
}
