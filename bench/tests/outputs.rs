//! What a test of sql/ is expected to print has its statements as often in each of its outputs: some versions of PostgreSQL have one of their own,
//! which is forgotten easily, since tests run on one version at a time.

use std::fs;
use std::path::Path;

/// The first line of a test that two of its outputs do not have equally often.
fn differing<'t>(test: &'t str, output: &str, other: &str) -> Option<&'t str> {
    let count = |text: &str, wanted: &str| text.lines().filter(|&line| line == wanted).count();
    test.lines()
        .filter(|line| !line.trim().is_empty())
        .find(|line| count(output, line) != count(other, line))
}

#[test]
fn outputs_of_a_test_have_the_same_statements() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |folder: &str, name: &str| fs::read_to_string(top.join(folder).join(name)).ok();
    let mut others = 0;
    for entry in fs::read_dir(top.join("expected")).expect("outputs") {
        let file = entry.expect("an output").file_name();
        let name = file.to_str().expect("a name").trim_end_matches(".out");
        if read("sql", &format!("{name}.sql")).is_some() {
            continue;
        }
        let own = |name: &str| {
            let (first, _) = name.rsplit_once('_')?;
            let test = read("sql", &format!("{first}.sql"))?;
            Some((test, read("expected", &format!("{first}.out"))?))
        };
        let (test, output) = own(name).unwrap_or_else(|| panic!("{name} is of no test"));
        let other = read("expected", &format!("{name}.out")).expect("text");
        if let Some(line) = differing(&test, &output, &other) {
            panic!("{name} has it more often, or less: {line}");
        }
        others += 1;
    }
    assert!(others > 0, "no test has two outputs");
}

#[test]
fn a_statement_that_is_missing_is_found() {
    let (test, output) = ("SELECT 1;\n\nSELECT 2;\n", "SELECT 1;\n 1\nSELECT 2;\n 2\n");
    assert_eq!(
        differing(test, output, &output.replace("\n 2", "\n 3")),
        None
    );
    assert_eq!(
        differing(test, output, "SELECT 1;\n 1\n"),
        Some("SELECT 2;")
    );
}
