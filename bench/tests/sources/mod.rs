//! The Rust files of the extension, for tests that read them.

use std::path::{Path, PathBuf};

/// A file: its path below `src`, and what it says.
pub struct File {
    pub path: PathBuf,
    pub text: String,
}

/// All files below `src`, but for those in folders that are passed by.
pub fn but_for(passed: &[&str]) -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let (mut folders, mut files) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("src can be read") {
            let full = entry.expect("src can be read").path();
            let path = full
                .strip_prefix(&root)
                .expect("a file below src")
                .to_owned();
            if full.is_dir() {
                if !passed.iter().any(|passed| path == Path::new(passed)) {
                    folders.push(full);
                }
            } else if full.extension().is_some_and(|kind| kind == "rs") {
                let text = std::fs::read_to_string(&full).expect("a source can be read");
                files.push(File { path, text });
            }
        }
    }
    assert!(files.len() > 200, "{} files", files.len());
    files
}
