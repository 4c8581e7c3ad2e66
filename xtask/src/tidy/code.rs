//! Rules about Rust files: their size, their names, and where `unsafe` may be.

use regex_lite::Regex;

use super::documents::{PROGRAM, README};
use crate::source_tree::{File, Tree};
use crate::workspace::{Workspace, dir, published};

/// Names that say where something did not fit, not what it is.
const EMPTY_NAMES: &[&str] = &[
    "common", "helper", "helpers", "misc", "types", "util", "utils",
];

/// Where `unsafe` may be: the crates that call the OS, and tests.
const PLACES: &[&str] = &[
    "crates/evcore-poller/",
    "crates/evcore-balancer/",
    "crates/evcore-accept/",
    "crates/evcore-prefork/",
    // An allocator that counts, for tests.
    "crates/evcore-testing/src/counting.rs",
    "tests/",
    // The peers in C, and calls of the C library.
    "crates/evcore-bench/src/memory.rs",
    "crates/evcore-bench/src/pollers/",
    "crates/evcore-bench/src/foreign.rs",
];

/// Past 600 lines a file has more than one idea; it is named after the one that it has. The README
/// of a published crate, and the program on the front page, can be read in two minutes.
pub(super) fn a_file_is_short_and_named_after_its_idea(tree: &Tree, ws: &Workspace) -> Vec<String> {
    let readmes = published(ws).map(|it| format!("{}/{README}", dir(it, ws)));
    let readmes: Vec<String> = readmes.collect();
    let mut faults = Vec::new();
    for File { path, text } in &tree.files {
        let most = match path.as_str() {
            PROGRAM => 60,
            path if readmes.iter().any(|it| it == path) => 60,
            path if path.ends_with(".rs") => 600,
            _ => continue,
        };
        let lines = text.lines().count();
        if lines > most {
            faults.push(format!("{path}: {lines} lines, of {most} at most"));
        }
        let mut names = path.split('/').map(|it| it.trim_end_matches(".rs"));
        if let Some(name) = names.find(|name| EMPTY_NAMES.contains(name)) {
            faults.push(format!("{path}: `{name}` names no idea"));
        }
    }
    faults
}

/// A file that allows `unsafe`, which the workspace denies, is in one of the places, does so at its
/// top with a reason, and has some.
pub(super) fn unsafe_is_in_files_that_say_so(tree: &Tree, _: &Workspace) -> Vec<String> {
    let pattern = |text: &str| Regex::new(text).expect("a pattern");
    let allows = pattern(r"\b(?:allow|expect|warn)\([\w\s,:]*\bunsafe_code\b");
    let allows_well = pattern(r"(?m)^\s*#!\[allow\(\s*unsafe_code,\s*reason =");
    let mut faults = Vec::new();
    for File { path, text } in tree.files.iter().filter(|file| file.is_rust()) {
        if !text.contains("unsafe_code") || !allows.is_match(text) {
            continue;
        }
        let mut has_some = ["{", "fn ", "impl ", "extern "].iter();
        let has_some = has_some.any(|it| text.contains(&format!("unsafe {it}")));
        let is_test = path.starts_with("crates/") && path.split('/').nth(2) == Some("tests");
        let is_place = is_test || PLACES.iter().any(|place| path.starts_with(place));
        let is_at_top = allows_well.is_match(text);
        let wrong = [
            (is_at_top, "allow unsafe code at the top, with a reason"),
            (has_some, "nothing here is unsafe: deny it again"),
            (is_place, "unsafe code is for the crates that call the OS"),
        ];
        let wrong = wrong.iter().filter(|(is_right, _)| !is_right);
        faults.extend(wrong.map(|(_, what)| format!("{path}: {what}")));
    }
    faults
}

/// What denies `unsafe` to all other files: the manifests of workspaces whose members may have it,
/// and the crates that have no place for it. A file cannot allow what its crate forbids.
pub(super) fn unsafe_is_denied_elsewhere(tree: &Tree, _: &Workspace) -> Vec<String> {
    let mut faults = Vec::new();
    let mut need = |path: &str, line: &str| {
        if !tree.text(path).lines().any(|it| it == line) {
            faults.push(format!("{path}: it needs `{line}`"));
        }
    };
    for manifest in ["Cargo.toml", "tests/compat/Cargo.toml"] {
        need(manifest, "unsafe_code = \"deny\"");
    }
    let libs = tree.files.iter().filter_map(|file| {
        let dir = file.path.strip_suffix("src/lib.rs")?;
        let has_place = PLACES
            .iter()
            .any(|it| it.starts_with(dir) || dir.starts_with(it));
        (dir.starts_with("crates/") && !has_place).then_some(file.path.as_str())
    });
    for lib in libs {
        need(lib, "#![forbid(unsafe_code)]");
    }
    faults
}
