//! varve-bench: every program around the extension that needs logic. Each subcommand starts private clusters of its own and
//! leaves nothing running or lying about; `test` runs all of them that belong to `make test`.

mod arguments;
mod asker;
mod commands;
mod errors;
mod generate;
mod heap_pair;
mod measure;
mod parallel;
mod processor;
mod random;
mod report;
mod server;
mod steady;
mod waiting;
mod workload;

/// What a program returns: any error ends it with its text.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> std::process::ExitCode {
    match commands::run() {
        Ok(true) => std::process::ExitCode::SUCCESS,
        Ok(false) => std::process::ExitCode::FAILURE,
        Err(error) => {
            eprintln!("varve-bench: {}", errors::describe(error.as_ref()));
            std::process::ExitCode::FAILURE
        }
    }
}
