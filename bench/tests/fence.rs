//! The fence around PostgreSQL's C: `src/pg` and the callbacks in `src/am` name its functions and pointers. Above them a file that
//! names `pg_sys` is one that has still to be brought behind the fence, and no new one may come.

mod sources;

/// How many files do. To be lowered with each that no longer does.
const OUTSIDE: usize = 6;

/// Does a text name `pg_sys` outside its comments?
fn names_it(text: &str) -> bool {
    let code = text.lines().map(|line| line.split("//").next());
    code.flatten().any(|line| line.contains("pg_sys"))
}

#[test]
fn no_more_files_name_c() {
    let files = sources::but_for(&["pg", "am", "columns"]).into_iter();
    let naming: Vec<String> = files
        .filter(|file| names_it(&file.text))
        .map(|file| file.path.display().to_string())
        .collect();
    let found = naming.len();
    assert!(
        found <= OUTSIDE,
        "{found} files name pg_sys, {OUTSIDE} did; what PostgreSQL offers is wrapped in src/pg:\n{}",
        naming.join("\n")
    );
    assert!(
        found == OUTSIDE,
        "{found} files name pg_sys, {OUTSIDE} did: lower the number in bench/tests/fence.rs"
    );
}

#[test]
fn a_name_is_found() {
    assert!(names_it("use pgrx::pg_sys;"));
    assert!(names_it("f(pg_sys::Oid::INVALID) // why"));
    assert!(!names_it("//! As pg_sys has it.\nfn f() {} // pg_sys"));
}
