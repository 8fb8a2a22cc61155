//! Counting checks: one line for each, and the closing line `N passed, N failed` that .ci/run adds up.

use crate::errors::describe;
use crate::Result;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Report {
    passed: usize,
    failures: Vec<String>,
    /// Passed and failed checks of each program, the part of a name before its slash.
    programs: BTreeMap<String, (usize, usize)>,
}

impl Report {
    /// Notes how one check ended; an error counts as failed and is printed.
    pub fn check(&mut self, name: &str, outcome: Result<()>) {
        let program = name.split('/').next().unwrap_or_default().to_string();
        let counts = self.programs.entry(program).or_default();
        match outcome {
            Ok(()) => {
                self.passed += 1;
                counts.0 += 1;
                println!("ok      {name}");
            }
            Err(error) => {
                self.failures.push(name.to_string());
                counts.1 += 1;
                println!("FAILED  {name}: {}", describe(error.as_ref()));
            }
        }
    }

    /// Says that something could not be tried here, and why; counts as nothing.
    pub fn skip(&mut self, name: &str, reason: &str) {
        println!("SKIPPED {name}: {reason}");
    }

    /// Adds what another report counted, of programs that ran beside this one's.
    pub fn absorb(&mut self, other: Self) {
        self.passed += other.passed;
        self.failures.extend(other.failures);
        for (program, (passed, failed)) in other.programs {
            let counts = self.programs.entry(program).or_default();
            counts.0 += passed;
            counts.1 += failed;
        }
    }

    pub fn by_program(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        self.programs
            .iter()
            .map(|(name, (passed, failed))| (name.as_str(), *passed, *failed))
    }

    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// The closing line; true where nothing failed.
    pub fn close(self) -> bool {
        println!("{} passed, {} failed", self.passed, self.failures.len());
        self.failures.is_empty()
    }
}
