//! How many outputs of a suite differed when it was last compared. `make vitals` wants no more than that, and takes it where
//! the suite has run since the library was built.

use super::{program, Sources, Suite};
use crate::report::Report;
use crate::server::Tree;
use crate::Result;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

impl Sources {
    /// Counts the outputs of a suite that differ from heap's; compares them only where that is not known.
    pub fn count(&self, tree: &Arc<Tree>, report: &mut Report, suite: Suite) -> Result<usize> {
        match self.kept(suite) {
            Some(differing) => Ok(differing),
            None => self.compare(tree, report, suite, None),
        }
    }

    pub(super) fn keep_count(&self, program: &str, differing: usize) -> Result<()> {
        Ok(fs::write(self.count_file(program), differing.to_string())?)
    }

    fn kept(&self, suite: Suite) -> Option<usize> {
        let file = self.count_file(&program(suite, None));
        let kept_at = fs::metadata(&file).and_then(|m| m.modified()).ok()?;
        let count = fs::read_to_string(&file).ok()?.parse().ok()?;
        (kept_at > built_at()?).then_some(count)
    }

    fn count_file(&self, program: &str) -> PathBuf {
        self.directory.join(format!("{program}.differing"))
    }
}

/// When the library was built that is under test; the Makefile says where it is.
fn built_at() -> Option<SystemTime> {
    let library = std::env::var_os("LIBRARY")?;
    fs::metadata(library).and_then(|m| m.modified()).ok()
}
