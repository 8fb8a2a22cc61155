//! The notes in docs/design: each is about one decision and at most a page long, and what cites one cites one that is there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A page.
const WORDS: usize = 1_000;

const CITING: [&str; 6] = ["src", "docs", "bench", "specs", "sql", "README.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What the notes say, by their numbers.
fn notes() -> BTreeMap<String, String> {
    let folder = fs::read_dir(root().join("docs/design")).expect("docs/design can be read");
    let mut notes = BTreeMap::new();
    for entry in folder {
        let path = entry.expect("docs/design can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(number) = numbers(&name).first().map(ToString::to_string) else {
            continue;
        };
        let text = fs::read_to_string(&path).expect("a note can be read");
        let other = notes.insert(number.clone(), text);
        assert!(other.is_none(), "two notes are {number}");
    }
    assert!(notes.len() > 20, "{} notes", notes.len());
    notes
}

/// Numbers of notes in a text: `0014` at its start, in `(0014)` and `(0014, 0015)`, and behind `design/`.
fn numbers(text: &str) -> Vec<&str> {
    let digits = |c: char| c.is_ascii_digit();
    let is_number = |start: usize| {
        let (before, rest) = text.split_at(start);
        let cited = before.is_empty()
            || before.ends_with('(')
            || before.ends_with("design/")
            || before.ends_with(", ") && in_brackets(before);
        let length = rest.find(|c| !digits(c)).unwrap_or(rest.len());
        cited && length == 4
    };
    let starts = text.match_indices("00").map(|(at, _)| at);
    starts
        .filter(|&at| is_number(at))
        .map(|at| &text[at..at + 4])
        .collect()
}

/// Does a text end within brackets that hold nothing but numbers?
fn in_brackets(before: &str) -> bool {
    let inside = before.rsplit('(').next().unwrap_or_default();
    before.contains('(')
        && inside
            .chars()
            .all(|c| c.is_ascii_digit() || c == ',' || c == ' ')
}

fn texts(path: &Path, found: &mut Vec<(PathBuf, String)>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder can be read") {
            texts(&entry.expect("a folder can be read").path(), found);
        }
    } else if ["rs", "md", "sql", "spec"]
        .iter()
        .any(|kind| path.extension().is_some_and(|e| e == *kind))
    {
        let text = fs::read_to_string(path).expect("a text can be read");
        found.push((path.to_owned(), text));
    }
}

#[test]
fn a_note_is_at_most_a_page() {
    for (number, text) in notes() {
        let words = text.split_whitespace().count();
        assert!(
            words <= WORDS,
            "docs/design/{number} has {words} words, a page has {WORDS}: split it by idea"
        );
        assert!(
            text.starts_with(&format!("# {number}: ")),
            "docs/design/{number} does not begin with its number"
        );
    }
}

#[test]
fn what_is_cited_is_there() {
    let notes = notes();
    let mut found = Vec::new();
    for name in CITING {
        texts(&root().join(name), &mut found);
    }
    let mut cited = 0;
    for (path, text) in found {
        for number in numbers(&text) {
            cited += 1;
            assert!(
                notes.contains_key(number),
                "{} cites {number}, which is not in docs/design",
                path.display()
            );
        }
    }
    assert!(cited > 100, "{cited} citations");
}

#[test]
fn numbers_are_found() {
    assert_eq!(numbers("0014-changes.md"), ["0014"]);
    assert_eq!(
        numbers("as decided (0014, 0027), docs/design/0003"),
        ["0014", "0027", "0003"]
    );
    assert!(numbers("10014 (00145) 0a000 12, 0014").is_empty());
}
