//! Rules that no compiler checks: forbidden patterns, the sizes of files, and the places of
//! `unsafe`.
//!
//! `documents.rs` has the rules about documents.

use std::collections::BTreeMap;
use std::fs;

use regex_lite::Regex;

use crate::Result;
use crate::documents;
use crate::modules;
use crate::workspace::{Workspace, files};

pub(crate) type Tree = BTreeMap<String, String>;

/// The files to which a rule applies, a pattern that they must not contain, and the advice.
type Rule = (fn(&str) -> bool, &'static str, &'static str);

const RULES: &[Rule] = &[
    (
        // The places where people and build machines keep their checkouts.
        |_| true,
        r"(?:^|[^\w.}-])/(?:root|work|home|Users)/",
        "a path of one machine; make it relative",
    ),
    (
        // `clippy::incompatible_msrv` checks only the standard library, and let chains came with
        // Rust 1.88.
        |path| path.ends_with(".rs"),
        r"(?:^|\s)&& let |\blet [^;{}=]*= [^;{}]*\n\s*&& [^;]*\{$",
        "a let chain is younger than `rust-version`; nest the `if`s",
    ),
    (
        // Numbers from 60000 on are for other things than ports.
        |path| path.ends_with(".rs") && path.split('/').any(|name| name == "tests"),
        r"(?:127\.0\.0\.1:|0\.0\.0\.0:|localhost:|\[::1?\]:|LOCALHOST, |UNSPECIFIED, )(?:[1-9]\d{0,3}|[1-5]\d{4})\b",
        "bind to port 0, and read which it is",
    ),
    (
        // `lib.rs` has documentation, `mod` and `pub use`. Assertions at compile time are allowed.
        |path| path.ends_with("src/lib.rs"),
        r"^\s*(?:pub(?:\(\w+\))? )?(?:fn|impl|unsafe|async)\b",
        "move the logic to a module of its own",
    ),
    (
        |path| path.ends_with(".rs") && !may_be_unsafe(path),
        r"\b(?:allow|expect|warn)\([\w\s,:]*\bunsafe_code\b",
        "unsafe code is for the crates that call the OS",
    ),
    (
        |path| path.ends_with("README.md"),
        r"^# (?:Ok|fn|let|use)\b",
        "rustdoc hides this line, and a README shows it; write the whole program",
    ),
    (
        |path| path.ends_with("/Cargo.toml") && !OTHERS.iter().any(|other| path.starts_with(other)),
        r#"^(?:[\w-]+ = "[\d=<>^~*]|.*\b(?:version|git) = ")"#,
        "set it in the root's manifest, and inherit it: `NAME.workspace = true`",
    ),
];

const OTHERS: &[&str] = &[
    "crates/evcore-bench/peers/",
    "crates/evcore-bench/user/",
    "tests/compat/",
    "tests/fuzz/",
];

/// The places where `unsafe` is allowed: crates and files that call the OS or C, and tests.
pub(crate) const UNSAFE_PLACES: &[&str] = &[
    "crates/evcore-poller/",
    "crates/evcore-balancer/",
    "crates/evcore-net/",
    "crates/evcore-prefork/",
    // Maps a file into memory.
    "crates/evcore-recording/src/file.rs",
    // An allocator that counts, for tests.
    "crates/evcore-testing/src/counting.rs",
    // A seccomp filter, for tests.
    "crates/evcore-testing/src/syscall_filter.rs",
    "tests/",
    // The peers in C, and calls of the C library.
    "crates/evcore-bench/src/memory.rs",
    "crates/evcore-bench/src/pollers/",
    "crates/evcore-bench/src/foreign.rs",
    "crates/evcore-bench/user/",
];

fn may_be_unsafe(path: &str) -> bool {
    let is_test = path.starts_with("crates/") && path.split('/').nth(2) == Some("tests");
    is_test || UNSAFE_PLACES.iter().any(|place| path.starts_with(place))
}

/// Names of files that do not describe their content.
const EMPTY_NAMES: &str = r"(?:^|/)(?:common|helpers?|misc|types|utils?)(?:/|\.rs$)";

pub(crate) fn check(workspace: &Workspace) -> Result {
    let mut tree = Tree::new();
    for path in files()? {
        // A bitmap is not text, so it counts as an empty file.
        let text = String::from_utf8(fs::read(&path)?).unwrap_or_default();
        tree.insert(path, text);
    }
    let faults = [
        in_files(&tree),
        modules::faults(&tree, workspace),
        documents::faults(&tree, workspace),
    ];
    error_of(&faults.concat())
}

pub(crate) fn error_of(faults: &[String]) -> Result {
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults.join("\n").into()),
    }
}

fn in_files(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    let comment = pattern(r"(?m)(?:^|[ \t])//.*$");
    let empty_name = pattern(EMPTY_NAMES);
    let rules = RULES.iter().map(|(applies, forbidden, what)| {
        let forbidden = pattern(&format!("(?m){forbidden}"));
        (applies, forbidden, what)
    });
    let rules: Vec<_> = rules.collect();
    for (path, text) in tree {
        let code = comment.replace_all(text, "");
        for (_, forbidden, what) in rules.iter().filter(|(applies, ..)| applies(path)) {
            for found in forbidden.find_iter(&code) {
                let line = code[..found.end()].matches('\n').count() + 1;
                faults.push(format!("{path}:{line}: {what}"));
            }
        }
        for line in headless(path, text) {
            faults.push(format!(
                "{path}:{line}: begin with the thing, or with a verb"
            ));
        }
        let (lines, most) = (text.lines().count(), most_lines(path));
        if lines > most {
            faults.push(format!("{path}: {lines} lines, of {most} at most"));
        }
        if empty_name.is_match(path) {
            faults.push(format!("{path}: name the file after its idea"));
        }
    }
    faults
}

/// The lines of a file at which a documentation comment begins without its subject.
fn headless(path: &str, text: &str) -> Vec<usize> {
    if !path.ends_with(".rs") {
        return Vec::new();
    }
    let comment = pattern(r"^\s*//[/!]");
    let begins = pattern(r"^\s*//[/!] (?:What|Whether|How|Which|Who|That of|Those of) ");
    let lines: Vec<_> = text.lines().collect();
    let is_first = |at: usize| at == 0 || !comment.is_match(lines[at - 1]);
    let found = (0..lines.len()).filter(|at| begins.is_match(lines[*at]) && is_first(*at));
    found.map(|at| at + 1).collect()
}

/// Maximum number of lines of a file, because a longer file has more than one idea. A crate's
/// README and the program on the front page should be read in two minutes.
fn most_lines(path: &str) -> usize {
    let is_readme = path.starts_with("crates/") && path.ends_with("/README.md");
    match path {
        documents::PROGRAM => 60,
        _ if is_readme && !path.contains("evcore-bench") => 85,
        _ if path.ends_with(".rs") => 600,
        _ => usize::MAX,
    }
}

pub(crate) fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_finds_its_fault() {
        let home = concat!("cd /", "home/me/");
        let chain = concat!("    &", "& let x");
        let allow = "#![allow(\n    unsafe_code,\n";
        let long = "\n".repeat(601);
        for (path, text, faults) in [
            (".ci/run", home, 1),
            ("a.rs", chain, 1),
            ("a.rs", "    // unsafe_code", 0),
            ("tests/b.rs", "\"127.0.0.1:0\" \"[::1]:65536\"", 0),
            ("tests/b.rs", "bind(\"127.0.0.1:80\")", 1),
            ("a/tests/b.rs", "(Ipv4Addr::LOCALHOST, 8080)", 1),
            ("src/lib.rs", "//! fn\nmod b;\n = { const fn d() {} };", 0),
            ("a/src/lib.rs", "mod b;\npub fn c() {}", 1),
            ("crates/evcore/src/b.rs", allow, 1),
            ("crates/evcore-poller/src/b.rs", allow, 0),
            ("a/Cargo.toml", "a = { path = \"../a\" }", 0),
            ("a/Cargo.toml", "edition = \"2024\"", 1),
            ("a/Cargo.toml", "libc = { version = \"0.2\" }", 1),
            ("a/utils.rs", "", 1),
            ("a/README.md", "# Ok::<(), ()>(())\n", 1),
            ("a.rs", "    /// Whether it is.\n", 1),
            ("a.rs", "/// Returns\n/// Which of them.\n", 0),
            ("a.rs", &long, 1),
        ] {
            let found = in_files(&[(path.to_owned(), text.to_owned())].into());
            assert_eq!(found.len(), faults, "{path}: {text}: {found:?}");
        }
    }
}
