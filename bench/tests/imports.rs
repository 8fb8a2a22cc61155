//! Layers: `src/lib.rs` lists the folders of the extension from the lowest to the highest. A file may import from its own folder and
//! from those below. Files that import each other in a circle are read together, so a circle has three files at most.
//!
//! Functions of the server are declared in `pg`.
//!
//! What a file imports is what its `use` declarations and its paths name that begin with `crate`, `super` or `self`.

#[path = "imports/source.rs"]
mod source;

use source::{Source, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Files that may import each other.
const LARGEST_CIRCLE: usize = 3;

type Edges = BTreeMap<String, BTreeSet<String>>;

/// The layers that the head of `src/lib.rs` lists, as "//! 3. `catalog`: …", lowest first.
fn layers(head: &str) -> Vec<String> {
    let listed = head.lines().filter_map(|line| {
        let (number, rest) = line.strip_prefix("//! ")?.split_once(". `")?;
        number.parse::<usize>().ok()?;
        Some(rest.split_once('`')?.0.to_owned())
    });
    listed.collect()
}

/// Which files each file imports.
fn edges(tree: &Tree) -> Edges {
    let mut edges = Edges::new();
    for source in &tree.sources {
        let found = source.paths().into_iter().map(|path| tree.file_of(&path));
        let others = found.filter(|file| *file != source.name);
        edges.insert(source.name.clone(), others.collect());
    }
    edges
}

/// Imports that point up, and folders that no layer is.
fn faults(edges: &Edges, layers: &[String]) -> Vec<String> {
    let height = |file: &str| {
        let folder = file.split("::").next().unwrap_or_default();
        layers.iter().position(|layer| layer == folder)
    };
    let mut faults = Vec::new();
    for (file, imports) in edges.iter().filter(|(file, _)| !file.is_empty()) {
        let Some(from) = height(file) else {
            faults.push(format!("{file} is in no layer that src/lib.rs lists"));
            continue;
        };
        for import in imports {
            if height(import).is_none_or(|to| to > from) {
                let import = if import.is_empty() { "lib.rs" } else { import };
                faults.push(format!("{file} imports {import}, which is above it"));
            }
        }
    }
    faults
}

/// Sets of more than `LARGEST_CIRCLE` files each of which imports each other, in some steps.
fn circles(edges: &Edges) -> Vec<Vec<String>> {
    let reach = |from: &String| {
        let mut seen = BTreeSet::new();
        let mut next = vec![from];
        while let Some(file) = next.pop() {
            for import in edges.get(file).into_iter().flatten() {
                if seen.insert(import.clone()) {
                    next.push(import);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<_, _> = edges.keys().map(|file| (file, reach(file))).collect();
    let circle = |file: &String| -> Vec<String> {
        let others = reached[file].iter();
        others
            .filter(|other| reached.get(other).is_some_and(|back| back.contains(file)))
            .cloned()
            .collect()
    };
    let all: BTreeSet<Vec<String>> = edges.keys().map(circle).collect();
    all.into_iter()
        .filter(|circle| circle.len() > LARGEST_CIRCLE)
        .collect()
}

fn tree(files: &[(&str, &str)]) -> Tree {
    let sources = files
        .iter()
        .map(|(name, text)| Source::new(name, (*text).to_owned()));
    Tree {
        sources: sources.collect(),
    }
}

#[test]
fn imports_point_down() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let tree = Tree::read(&root);
    let head = std::fs::read_to_string(root.join("lib.rs")).expect("src/lib.rs can be read");
    let layers = layers(&head);
    assert!(layers.len() > 3, "src/lib.rs lists its layers");
    let edges = edges(&tree);
    assert!(edges.values().map(BTreeSet::len).sum::<usize>() > 100);
    let faults = faults(&edges, &layers);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let circles = circles(&edges);
    assert!(circles.is_empty(), "{circles:#?}");
}

#[test]
fn foreign_functions_are_declared_in_pg() {
    let has_some = |source: &&Source| source.has_foreign_functions();
    let tree = Tree::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../src"));
    let declaring: Vec<_> = tree.sources.iter().filter(has_some).collect();
    assert!(!declaring.is_empty(), "pg declares some");
    for source in declaring {
        let name = &source.name;
        assert!(
            name.starts_with("pg::"),
            "{name} declares functions of the server"
        );
    }
    let found = |text: &str| Source::new("am::a", text.to_owned()).has_foreign_functions();
    assert!(found("unsafe extern \"C-unwind\" {\n fn f(); }"));
    assert!(!found("unsafe extern \"C-unwind\" fn f() {}"));
    assert!(!found("// unsafe extern \"C-unwind\" {\n"));
}

#[test]
fn an_upward_import_is_found() {
    let layers = ["low".to_owned(), "high".to_owned()];
    let paths = [
        "use crate::high::b;",
        "use crate::{low::c, high::b as x};",
        "fn f() { crate::high::b::g() }",
        "use super::super::high::b::{self, T};",
        "use crate::low::c;\npub(crate) use crate::high;",
        "mod tests { use super::super::super::high::b; }",
    ];
    for text in paths {
        let tree = tree(&[
            ("low::a", text),
            ("low::c", ""),
            ("high", ""),
            ("high::b", ""),
        ]);
        assert_eq!(faults(&edges(&tree), &layers).len(), 1, "{text}");
    }
    let harmless = [
        "// use crate::high::b;",
        "const S: &str = \"crate::high::b\";",
        "/* crate::high::b */ use super::c;",
        "mod tests { use super::*; }",
        "use std::high::b;",
    ];
    for text in harmless {
        let tree = tree(&[("low::a", text), ("low::c", ""), ("high::b", "")]);
        assert!(faults(&edges(&tree), &layers).is_empty(), "{text}");
    }
    let tree = tree(&[("new::a", "")]);
    assert_eq!(faults(&edges(&tree), &layers).len(), 1);
}

#[test]
fn a_large_circle_is_found() {
    let texts = ["a", "b", "c", "d"].map(|next| format!("use super::{next};"));
    let small = [("l::a", 1), ("l::b", 2), ("l::c", 0)].map(|(name, at)| (name, &*texts[at]));
    assert!(circles(&edges(&tree(&small))).is_empty());
    let large =
        [("l::a", 1), ("l::b", 2), ("l::c", 3), ("l::d", 0)].map(|(name, at)| (name, &*texts[at]));
    assert_eq!(circles(&edges(&tree(&large))).len(), 1);
}

#[test]
fn layers_are_read_in_order() {
    let head = "//! Text.\n//! 1. `low`: first\n//! 2. `high`: second\n\nmod low;\n";
    assert_eq!(layers(head), ["low", "high"]);
}
