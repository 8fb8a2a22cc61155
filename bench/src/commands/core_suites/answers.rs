//! What the tests of a suite print with heap. Its sources say that for the server as it comes: in a file for each test, and in more of them
//! where it hangs on the platform.

use super::filter::filtered;
use crate::Result;
use std::fs;
use std::path::Path;

/// Files of a test beside the first are numbered by one digit.
const MOST: usize = 9;

/// The tests that a schedule names.
pub fn tests_of(schedule: &str) -> Vec<String> {
    let lines = schedule
        .lines()
        .filter_map(|line| line.strip_prefix("test:"));
    lines
        .flat_map(str::split_whitespace)
        .map(str::to_string)
        .collect()
}

/// Whatever a test may print, after the filter; `suite` has the suite's sources.
pub fn of(suite: &Path, test: &str) -> Result<Vec<String>> {
    let names = [format!("{test}.out")].into_iter();
    let names = names.chain((0..=MOST).map(|number| format!("{test}_{number}.out")));
    let files = names.map(|name| suite.join("expected").join(name));
    let answers = files.filter(|file| file.exists()).map(|file| {
        let text = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(filtered(&String::from_utf8_lossy(&text)))
    });
    answers.collect()
}

#[cfg(test)]
mod tests {
    use super::tests_of;

    #[test]
    fn a_schedule_names_tests() {
        let schedule = "# first\ntest: boolean char\n\nignore: random\ntest: insert\n";
        assert_eq!(tests_of(schedule), ["boolean", "char", "insert"]);
    }
}
