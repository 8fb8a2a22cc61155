//! What is compiled into varve and its test programs: crates of crates.io alone, under licences that ask for no more than to be named.

use serde_json::Value;
use spdx::{Expression, LicenseReq};
use std::process::Command;

/// Licences that let a binary be given away under Apache-2.0.
const ALLOWED: [&str; 8] = [
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// What `cargo metadata` tells of all packages that the lock file names.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    match metadata["packages"].take() {
        Value::Array(packages) => packages,
        other => panic!("packages are no array: {other}"),
    }
}

fn is_allowed(licence: &LicenseReq) -> bool {
    let id = licence.license.id();
    id.is_some_and(|id| ALLOWED.contains(&id.name))
}

/// What speaks against a package, if anything does.
fn fault(package: &Value) -> Option<String> {
    let name = package["name"].as_str()?;
    // Packages of this repository have no source.
    if let Some(source) = package["source"].as_str() {
        if source != CRATES_IO {
            return Some(format!("{name} comes from {source}"));
        }
    }
    let Some(licence) = package["license"].as_str() else {
        return Some(format!("{name} names no licence"));
    };
    // "MIT/Apache-2.0", as old packages write it.
    match Expression::parse(&licence.replace('/', " OR ")) {
        Ok(expression) if expression.evaluate(is_allowed) => None,
        Ok(_) => Some(format!("{name} is licensed under {licence}")),
        Err(error) => Some(format!("the licence of {name} is no expression: {error}")),
    }
}

#[test]
fn dependencies_are_of_crates_io_and_permissive() {
    let packages = packages();
    assert!(packages.len() > 100, "{} packages", packages.len());
    let faults: Vec<_> = packages.iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn other_licences_and_sources_are_faults() {
    let package = |licence: &str, source: &str| serde_json::json!({ "name": "a", "license": licence, "source": source });
    assert_eq!(fault(&package("GPL-3.0-only OR MIT", CRATES_IO)), None);
    assert!(fault(&package("GPL-3.0-only", CRATES_IO)).is_some());
    assert!(fault(&package("MIT AND GPL-3.0-only", CRATES_IO)).is_some());
    assert!(fault(&package("MIT", "git+https://example.org/a")).is_some());
    assert!(fault(&serde_json::json!({ "name": "a", "source": CRATES_IO })).is_some());
}
