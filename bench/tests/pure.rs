//! Files of the extension that know nothing of PostgreSQL, built again here, since a test program of the extension itself would
//! have to be a server.

#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/exec/aggregate/cuts.rs"]
mod cuts;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/exec/aggregate/known.rs"]
mod known;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/rollup/label.rs"]
mod label;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/exec/aggregate/passes.rs"]
mod passes;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/rollup/ranges.rs"]
mod ranges;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/exec/aggregate/row_ranges.rs"]
mod row_ranges;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/exec/aggregate/share.rs"]
mod share;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/exec/aggregate/slice.rs"]
mod slice;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/exec/aggregate/total.rs"]
mod total;

use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("src can be read") {
        let path = entry.expect("src can be read").path();
        if path.is_dir() && !path.ends_with("src/columns") {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn tests_of_all_files_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 200, "{} files", files.len());
    let here = include_str!("pure.rs");
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source can be read");
        let name = file.strip_prefix(&root).expect("a file below src");
        let is_here = here.contains(&format!("../../src/{}", name.display()));
        assert!(
            is_here || !text.contains("#[cfg(test)]"),
            "nothing runs the tests in {}",
            name.display()
        );
    }
}
