//! The subcommands, one file each.

mod generate;
mod installcheck;

use crate::arguments::Arguments;
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
    let tree = Tree::install()?;
    let mut report = Report::default();
    match arguments.command.as_str() {
        "installcheck" => installcheck::run(&tree, &mut report)?,
        "test" => {
            installcheck::run(&tree, &mut report)?;
        }
        other => return Err(format!("there is no command \"{other}\"").into()),
    }
    Ok(report.close())
}
