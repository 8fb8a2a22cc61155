//! The subcommands, one file each.

mod aggregates;
mod cancel;
mod core_suites;
mod crash;
mod demo;
mod differential;
mod faults;
mod generate;
mod installcheck;
mod keys;
mod logical;
mod model;
mod pgbench;
mod pglogical;
mod queries;
mod readme;
mod replicate;
mod resource_limits;
mod rollups;
mod soak;
mod tables;
mod test;
mod torture;
mod vitals;
mod worker;

use self::core_suites::Torture;
use crate::arguments::Arguments;
use crate::random::Random;
use crate::report::Report;
use crate::server::Tree;
use crate::Result;

/// Runs what the command line asks for; false where a check failed.
pub fn run() -> Result<bool> {
    let arguments = Arguments::from_environment()?;
    if arguments.command == "generate" {
        generate::run(&arguments)?;
        return Ok(true);
    }
    let seed = arguments.option("seed", Random::fresh_seed())?;
    let tree = Tree::install()?;
    if arguments.command == "demo" {
        demo::run(&tree)?;
        return Ok(true);
    }
    let mut report = Report::default();
    match arguments.command.as_str() {
        "installcheck" => installcheck::run(&tree, &mut report)?,
        "replicate" => replicate::run(&tree, &mut report)?,
        "logical" => logical::run(&tree, &mut report, arguments.option("rounds", 9)?, seed)?,
        "readme" => readme::run(&tree, &mut report)?,
        "rollups" => rollups::run(
            &tree,
            &mut report,
            arguments.option("transactions", 2_000)?,
            arguments.option("seconds", 7_200)?,
            seed,
        )?,
        "crash" => crash::run(&tree, &mut report, arguments.option("rounds", 5)?, seed)?,
        "aggregates" => {
            aggregates::run(
                &tree,
                &mut report,
                arguments.option("seconds", 120)?,
                0,
                seed,
            )?;
        }
        "differential" => {
            differential::run(
                &tree,
                &mut report,
                arguments.option("rounds", 6)?,
                arguments.option("steps", 300)?,
                seed,
            )?;
        }
        "faults" => faults::run(&tree, &mut report, arguments.option("flips", 60)?, seed)?,
        "cancel" => cancel::run(
            &tree,
            &mut report,
            arguments.option("rows", 300_000)?,
            arguments.option("rounds", 9)?,
            seed,
        )?,
        "resource-limits" => {
            let which = arguments.word(0, "all".to_string())?;
            resource_limits::run(&tree, &mut report, &which, seed)?;
        }
        "core-suites" => {
            let suite = arguments.given("suite")?;
            core_suites::run(&tree, &mut report, suite, arguments.given("chunk-rows")?)?;
        }
        "keys" => keys::run(
            &tree,
            &mut report,
            arguments.option("seconds", 60)?,
            seed,
            &arguments.word(0, "all".to_string())?,
        )?,
        "worker" => worker::run(&tree, &mut report, arguments.option("rounds", 5)?, seed)?,
        "model" => model::run(&tree, &mut report, arguments.option("seconds", 120)?, seed)?,
        "pgbench" => {
            let torture = arguments.given("chunk-rows")?;
            let settings = torture.map(|chunk_rows| Torture { chunk_rows }.settings());
            pgbench::run(
                &tree,
                &mut report,
                arguments.option("scale", 10)?,
                arguments.option("seconds", 10)?,
                &settings.unwrap_or_default(),
            )?;
        }
        "soak" => {
            let page = arguments.word(0, "docs/soak.md".to_string())?;
            soak::run(&tree, &mut report, arguments.option("minutes", 10)?, &page)?;
        }
        "tables" => tables::run(
            &tree,
            &mut report,
            arguments.option("runs", 3)?,
            arguments.option("days", 90)?,
            &arguments.word(0, "docs/tables.md".to_string())?,
            (
                arguments.given("section")?,
                arguments.option("minutes", 10)?,
            ),
        )?,
        "queries" => queries::run(
            &tree,
            &mut report,
            arguments.option("sensors", 50)?,
            arguments.option("days", 90)?,
            &arguments.word(0, "docs/queries.md".to_string())?,
        )?,
        "torture" => torture::run(
            &tree,
            &mut report,
            &arguments.word(0, "docs/torture.md".to_string())?,
            seed,
        )?,
        "vitals" => vitals::run(
            &tree,
            &mut report,
            &arguments.word(0, "docs/vitals.md".to_string())?,
        )?,
        "test" => test::run(&tree, &mut report, seed),
        other => return Err(format!("there is no command \"{other}\"").into()),
    }
    Ok(report.close())
}
