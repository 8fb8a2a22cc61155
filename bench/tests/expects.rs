//! In the extension and its pure crate nothing that a user can reach ends in a panic without a reason: `expect` says "BUG: " and what cannot
//! be. (That `unwrap` is used nowhere is clippy's to say.)

mod sources;

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
    let mut faults = Vec::new();
    for file in sources::but_for(&["columns/tests", "columns/fuzz"]) {
        let lines = without_reason(&file.text).into_iter();
        faults.extend(lines.map(|line| format!("{}:{line}", file.path.display())));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn an_expect_without_reason_is_found() {
    let text = "fn f() {\n    a.expect(\n        \"BUG: b\",\n    );\n    a.expect(\"b\");\n}\n#[cfg(test)]\nfn t() { a.expect(\"b\") }\n";
    assert_eq!(without_reason(text), [5]);
}
