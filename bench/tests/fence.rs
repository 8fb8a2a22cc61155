//! The fence around PostgreSQL's C: `src/pg` and the callbacks in `src/am` name its functions and pointers. Above them a file that
//! names `pg_sys` is one that has still to be brought behind the fence, and no new one may come.

use std::path::{Path, PathBuf};

/// Files of the other folders that name `pg_sys`. To be lowered with each that no longer does.
const OUTSIDE: usize = 6;
/// Those of `exec` and `plan`, which look into what the planner and the executor have open.
const OF_NODES: usize = 0;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("src can be read") {
        let path = entry.expect("src can be read").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

/// Does a text name `pg_sys` outside its comments?
fn names_it(text: &str) -> bool {
    let code = text.lines().map(|line| line.split("//").next());
    code.flatten().any(|line| line.contains("pg_sys"))
}

/// How many files of folders that `counts` name `pg_sys`.
fn number(counts: impl Fn(&str) -> bool) -> usize {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 200, "{} files", files.len());
    let folder = |file: &Path| {
        let inside = file.strip_prefix(&root).expect("a file below src");
        inside
            .iter()
            .next()
            .expect("a name")
            .to_string_lossy()
            .into_owned()
    };
    let of_interest = files.iter().filter(|file| counts(&folder(file)));
    of_interest
        .filter(|file| names_it(&std::fs::read_to_string(file).expect("a source can be read")))
        .count()
}

/// The fence has moved neither way without this test's knowing.
fn check(found: usize, allowed: usize, what: &str) {
    assert!(
        found <= allowed,
        "{found} files {what} name pg_sys, {allowed} did: what PostgreSQL offers is wrapped in src/pg"
    );
    assert!(
        found == allowed,
        "{found} files {what} name pg_sys, {allowed} did: lower the number in bench/tests/fence.rs"
    );
}

#[test]
fn no_more_files_name_c() {
    let within = |folder: &str| ["pg", "am", "columns"].contains(&folder);
    let of_nodes = |folder: &str| ["exec", "plan"].contains(&folder);
    let outside = number(|folder| !within(folder) && !of_nodes(folder));
    check(outside, OUTSIDE, "outside pg, am, exec and plan");
    check(number(of_nodes), OF_NODES, "of exec and plan");
}

#[test]
fn a_name_is_found() {
    assert!(names_it("use pgrx::pg_sys;"));
    assert!(names_it("f(pg_sys::Oid::INVALID) // why"));
    assert!(!names_it("//! As pg_sys has it.\nfn f() {} // pg_sys"));
}
