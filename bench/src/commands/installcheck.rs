//! The extension's own suites: pg_regress over sql/ and expected/, pg_isolation_regress over specs/ and specs/expected/, every file found.

use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::Result;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

pub fn run(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    // What a VACUUM of the tests may remove must not hang on an autovacuum that happens to run.
    let settings = ["wal_level = logical", "autovacuum = off"];
    let cluster = Cluster::create(tree, &settings)?;
    let database = "--dbname=varve_regression";
    suite(
        &cluster,
        report,
        tree.test_driver("regress/pg_regress").arg(database),
        "sql",
        Path::new("."),
        "build/regress",
    )?;
    let isolation = "--dbname=varve_isolation";
    suite(
        &cluster,
        report,
        tree.test_driver("isolation/pg_isolation_regress")
            .arg(isolation),
        "specs",
        &inputs_of_isolation("build/isolation")?,
        "build/isolation",
    )
}

/// One driver over every file of `directory` in `inputs`, a check for each; their outputs should be those in the folder `expected` beside it.
fn suite(
    cluster: &Cluster,
    report: &mut Report,
    driver: &mut Command,
    directory: &str,
    inputs: &Path,
    results: &str,
) -> Result<()> {
    let mut names = test_names(&inputs.join(directory))?;
    names.retain(|name| {
        let expected = inputs.join("expected").join(format!("{name}.out"));
        let known = expected.exists();
        if !known {
            let missing = Err(format!("there is no {}", expected.display()).into());
            report.check(&format!("{directory}/{name}"), missing);
        }
        known
    });
    if names.is_empty() {
        report.skip(directory, "no such test");
        return Ok(());
    }
    fs::create_dir_all(results)?;
    let output = driver
        .arg(format!("--bindir={}", cluster.tree.bin().display()))
        .arg(format!("--host={}", cluster.host().display()))
        .arg(format!("--outputdir={results}"))
        .arg(format!("--inputdir={}", inputs.display()))
        .args([
            "--user=postgres",
            "--encoding=UTF8",
            "--no-locale",
            "--load-extension=varve",
        ])
        .args(&names)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    for name in &names {
        let passed = text.lines().any(|line| is_pass_of(line, name));
        let outcome = if passed {
            Ok(())
        } else {
            Err(format!("see {results}/regression.diffs").into())
        };
        report.check(&format!("{directory}/{name}"), outcome);
    }
    if !output.status.success() {
        println!("{}", String::from_utf8_lossy(&output.stderr));
        show_differences(&Path::new(results).join("regression.diffs"));
    }
    Ok(())
}

/// A folder with the names that the driver looks for; what the tests print is beside them in the tree.
fn inputs_of_isolation(results: &str) -> Result<PathBuf> {
    let inputs = Path::new(results).join("inputs");
    fs::create_dir_all(&inputs)?;
    // Relative, since another root sees the tree elsewhere.
    let top: PathBuf = inputs.components().map(|_| "..").collect();
    for (name, target) in [("specs", "specs"), ("expected", "specs/expected")] {
        let link = inputs.join(name);
        if link.is_symlink() {
            fs::remove_file(&link)?;
        }
        symlink(top.join(target), link)?;
    }
    Ok(inputs)
}

fn test_names(directory: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    if !directory.exists() {
        return Ok(names);
    }
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "sql" || e == "spec") {
            names.extend(path.file_stem().map(|s| s.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// `test NAME ... ok 12 ms` up to version 15, `ok 1 - NAME 12 ms` from 16 on.
fn is_pass_of(line: &str, name: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let old =
        words.first() == Some(&"test") && words.get(1) == Some(&name) && words.contains(&"ok");
    let new = words.first() == Some(&"ok") && words.iter().skip(2).any(|w| *w == name);
    old || new
}

fn show_differences(path: &Path) {
    const LINES: usize = 400;
    if let Ok(text) = fs::read_to_string(path) {
        let lines: Vec<&str> = text.lines().take(LINES).collect();
        println!("{}", lines.join("\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::is_pass_of;

    #[test]
    fn both_forms_of_a_passed_test_are_known() {
        assert!(is_pass_of(
            "test insert                       ... ok           35 ms",
            "insert"
        ));
        assert!(is_pass_of(
            "ok 1         - insert                                   35 ms",
            "insert"
        ));
        assert!(!is_pass_of(
            "not ok 1     - insert                                   35 ms",
            "insert"
        ));
        assert!(!is_pass_of(
            "test insert                       ... FAILED       35 ms",
            "insert"
        ));
    }
}
