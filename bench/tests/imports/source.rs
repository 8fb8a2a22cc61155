//! Rust files as far as imports go: their paths, without comments and strings.

use std::path::Path;

/// The files of a crate.
pub struct Tree {
    pub sources: Vec<Source>,
}

/// A file, by the path of its module: "table::locks", the crate's own being "".
pub struct Source {
    pub name: String,
    code: String,
}

impl Tree {
    /// All files of the extension; the pure crate beside it imports nothing of it.
    pub fn read(root: &Path) -> Tree {
        let mut sources = Vec::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("src can be read") {
                let path = entry.expect("src can be read").path();
                if path.is_dir() {
                    if path != root.join("columns") {
                        folders.push(path);
                    }
                } else if path.extension().is_some_and(|kind| kind == "rs") {
                    let text = std::fs::read_to_string(&path).expect("a source can be read");
                    sources.push(Source::new(&module(root, &path), text));
                }
            }
        }
        Tree { sources }
    }

    /// The file that a path leads to: that of the longest module it begins with.
    pub fn file_of(&self, path: &[String]) -> String {
        (0..=path.len())
            .rev()
            .map(|count| path[..count].join("::"))
            .find(|name| self.sources.iter().any(|source| source.name == *name))
            .unwrap_or_default()
    }
}

fn module(root: &Path, file: &Path) -> String {
    let inside = file.strip_prefix(root).expect("a file below src");
    let mut parts: Vec<_> = inside
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib")) {
        parts.pop();
    }
    parts.join("::")
}

impl Source {
    pub fn new(name: &str, text: String) -> Source {
        Source {
            name: name.to_owned(),
            code: code_of(&text),
        }
    }

    /// Does it declare functions of the server's?
    pub fn has_foreign_functions(&self) -> bool {
        let words: Vec<&str> = self.code.split_whitespace().collect();
        words.windows(2).any(|words| words == ["extern", "{"])
    }

    /// The modules that the file's paths lead through, from the crate on.
    pub fn paths(&self) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        let mut modules: Vec<(String, usize)> = Vec::new();
        let tokens = tokens(&self.code);
        let (mut depth, mut at) = (0, 0);
        while at < tokens.len() {
            match tokens[at] {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    modules.retain(|(_, opened)| *opened <= depth);
                }
                "mod" if tokens.get(at + 2) == Some(&"{") => {
                    modules.push((tokens[at + 1].to_owned(), depth + 1));
                }
                // Of other crates and of what is imported by name nothing is found: these lead to the file itself.
                name if is_name(name) && tokens.get(at + 1) == Some(&"::") => {
                    let here = self.here(&modules);
                    at = read_path(&tokens, at, &here, &mut found);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        found
    }

    fn here(&self, modules: &[(String, usize)]) -> Vec<String> {
        let own = self.name.split("::").filter(|part| !part.is_empty());
        let inner = modules.iter().map(|(name, _)| name.as_str());
        own.chain(inner).map(str::to_owned).collect()
    }
}

/// Reads a path, or a tree of paths as `use` has them; returns where it ends.
fn read_path(
    tokens: &[&str],
    mut at: usize,
    base: &[String],
    found: &mut Vec<Vec<String>>,
) -> usize {
    let mut path = base.to_vec();
    loop {
        match tokens.get(at) {
            Some(&"crate") => path.clear(),
            Some(&"super") => drop(path.pop()),
            Some(&"self") => {}
            Some(&"{") => {
                at += 1;
                while tokens.get(at).is_some_and(|token| *token != "}") {
                    at = read_path(tokens, at, &path, found);
                    while matches!(tokens.get(at), Some(&"as" | &"_" | &","))
                        || at > 0 && tokens[at - 1] == "as"
                    {
                        at += 1;
                    }
                }
                return at + 1;
            }
            Some(name) if is_name(name) => path.push((*name).to_owned()),
            _ => {
                found.push(path);
                return at + 1;
            }
        }
        at += 1;
        if tokens.get(at) != Some(&"::") {
            found.push(path);
            return at;
        }
        at += 1;
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Names, "::", and single characters.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

/// The text without comments, strings and characters.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = skipped(rest, code.chars().last());
        if skipped > 0 {
            code.push(' ');
            rest = &rest[skipped..];
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    code
}

/// How many bytes of a comment, string or character the text begins with.
fn skipped(text: &str, before: Option<char>) -> usize {
    let end = |from: usize, mark: &str| match text[from..].find(mark) {
        Some(at) => from + at + mark.len(),
        None => text.len(),
    };
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return end(2, "*/");
    }
    let starts_word = !before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let raw = text.trim_start_matches(['b', 'c']);
    if starts_word && text.len() - raw.len() <= 1 && raw.starts_with("r") {
        let hashes = raw[1..].len() - raw[1..].trim_start_matches('#').len();
        if raw[1 + hashes..].starts_with('"') {
            let from = text.len() - raw.len() + hashes + 2;
            return end(from, &format!("\"{}", "#".repeat(hashes)));
        }
    }
    if text.starts_with('"') {
        return quoted(text, '"');
    }
    // A lifetime has no second quote.
    let mut next = text.chars().skip(1);
    match (text.starts_with('\''), next.next(), next.next()) {
        (true, Some('\\'), _) => quoted(text, '\''),
        (true, Some(one), Some('\'')) => 2 + one.len_utf8(),
        _ => 0,
    }
}

/// The length of a text in quotes.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if !escaped && c == quote {
            return at + 1;
        }
        escaped = !escaped && c == '\\';
    }
    text.len()
}
