//! An unsafe function says in its doc comment, under "# Safety", what its caller sees to; a comment at an unsafe block that refers to a
//! contract is in such a function. What PostgreSQL calls is exempt: it keeps what its own documentation says.

mod sources;

/// A function's first line, as far as it matters here.
struct Signature<'t> {
    name: &'t str,
    is_unsafe: bool,
    /// PostgreSQL, or the language, calls it.
    is_callback: bool,
}

/// The function that a line begins.
fn signature(line: &str) -> Option<Signature<'_>> {
    let (before, after) = line.trim_start().split_once("fn ")?;
    let words = before.trim_end();
    let is_known = words
        .split_whitespace()
        .all(|word| word.starts_with("pub") || word.starts_with('"') || KNOWN.contains(&word));
    let name = after
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()?;
    (is_known && !name.is_empty()).then_some(Signature {
        name,
        is_unsafe: words.split_whitespace().any(|word| word == "unsafe"),
        is_callback: words.contains("extern"),
    })
}

const KNOWN: [&str; 4] = ["const", "unsafe", "extern", "super)"];

/// Has the function at a line a section of its doc comment that states its contract?
fn states_contract(lines: &[&str], at: usize) -> bool {
    let above = lines[..at].iter().rev().map(|line| line.trim_start());
    above
        .take_while(|line| line.starts_with("///") || line.starts_with("#["))
        .any(|line| line.contains("# Safety"))
}

/// Does a comment rest on what a caller has promised, without saying of which function?
fn refers_to_contract(line: &str) -> bool {
    let comment = line.split_once("// ").map_or("", |(_, comment)| comment);
    [
        "by contract",
        "caller's contract",
        "callers' contract",
        "caller's promise",
    ]
    .iter()
    .any(|words| comment.to_lowercase().contains(words))
        && !comment.contains("contract of `")
}

/// What is amiss in a text, by line.
fn faults(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let (mut found, mut states) = (Vec::new(), false);
    for (at, line) in lines.iter().enumerate() {
        if let Some(function) = signature(line) {
            states = states_contract(&lines, at);
            if function.is_unsafe && !function.is_callback && !states {
                found.push(format!("{}: {} states no contract", at + 1, function.name));
            }
        } else if refers_to_contract(line) && !states {
            found.push(format!("{}: of which contract?", at + 1));
        }
    }
    found
}

#[test]
fn contracts_are_stated() {
    let mut all = Vec::new();
    for file in sources::but_for(&["columns"]) {
        let found = faults(&file.text).into_iter();
        all.extend(found.map(|fault| format!("src/{}:{fault}", file.path.display())));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn a_contract_that_is_not_stated_is_found() {
    let text = "\
/// # Safety
/// `a` must be valid.
#[inline]
pub(super) unsafe fn stated(a: *mut u8) {
    // SAFETY: by contract.
    unsafe { *a = 1 }
}

unsafe fn bare(a: *mut u8) {
    // SAFETY: the caller's contract.
    unsafe { *a = 1 }
}

unsafe extern \"C-unwind\" fn called(a: *mut u8) {
    // SAFETY: by contract of `Trait::f`.
    unsafe { *a = 1 }
}
";
    let expected = ["9: bare states no contract", "10: of which contract?"];
    assert_eq!(faults(text), expected);
}
