//! In the extension and its pure crate nothing that a user can reach ends in a panic without a reason: `expect` says "BUG: " and what cannot
//! be. (That `unwrap` is used nowhere is clippy's to say.)

use std::path::{Path, PathBuf};

/// The Rust files below `folder`, but for tests and fuzz targets in folders of their own.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("src can be read") {
        let path = entry.expect("src can be read").path();
        if path.is_dir() {
            if !path.ends_with("columns/tests") && !path.ends_with("columns/fuzz") {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

/// The lines at which a text calls `expect` without a reason of that form. Tests are at the end of a file.
fn without_reason(text: &str) -> Vec<usize> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let calls = code.match_indices(".expect(");
    calls
        .filter(|(at, call)| {
            let reason = code[at + call.len()..].trim_start();
            !reason.starts_with("\"BUG: ")
        })
        .map(|(at, _)| code[..at].lines().count())
        .collect()
}

#[test]
fn expects_say_what_cannot_be() {
    let mut files = Vec::new();
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../src"),
        &mut files,
    );
    assert!(files.len() > 200, "{} files", files.len());
    let mut faults = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source can be read");
        let lines = without_reason(&text);
        faults.extend(
            lines
                .into_iter()
                .map(|line| format!("{}:{line}", file.display())),
        );
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn an_expect_without_reason_is_found() {
    let text = "fn f() {\n    a.expect(\n        \"BUG: b\",\n    );\n    a.expect(\"b\");\n}\n#[cfg(test)]\nfn t() { a.expect(\"b\") }\n";
    assert_eq!(without_reason(text), [5]);
}
