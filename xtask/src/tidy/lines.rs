//! Rules about single lines: a pattern that certain files must not have.

use regex_lite::Regex;

use crate::source_tree::{File, Tree};
use crate::workspace::Workspace;

/// The files of a rule, a pattern, and what to do about it.
type Rule = (fn(&File) -> bool, &'static str, &'static str);

const RULES: &[Rule] = &[
    (
        // Where people and build machines keep their checkouts.
        |_| true,
        r"(?:^|[^\w.}-])/(?:root|work|home|Users)/",
        "a path of one machine; make it relative",
    ),
    (
        File::is_markdown,
        r"\s$",
        "remove the white space at the end",
    ),
    (
        // It came with Rust 1.88; `clippy::incompatible_msrv` checks only the library.
        File::is_rust,
        r"(?:^|\s)&& let ",
        "a let chain is younger than `rust-version`; nest the `if`s",
    ),
    (
        // Past 65535 it is not a port, as in a test of that.
        |file| file.is_rust() && file.path.split('/').any(|name| name == "tests"),
        concat!(
            r"(?:127\.0\.0\.1:|0\.0\.0\.0:|localhost:|\[::1?\]:|LOCALHOST, |UNSPECIFIED, )",
            r"(?:[1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2})(?:\D|$)",
        ),
        "bind to port 0, and read which it is",
    ),
    (
        // Documentation, `mod` and `pub use`; an assertion at compile time does not run.
        |file| file.path.ends_with("src/lib.rs"),
        r"^\s*(?:pub(?:\(\w+\))? )?(?:fn|impl|unsafe|async)\b",
        "move the logic to a module of its own",
    ),
];

pub(super) fn no_line_has_a_forbidden_pattern(tree: &Tree, _: &Workspace) -> Vec<String> {
    let mut faults = Vec::new();
    for (applies, pattern, what) in RULES {
        let pattern = Regex::new(pattern).expect("a pattern");
        for file in tree.files.iter().filter(|file| applies(file)) {
            let lines = file
                .lines()
                .map(|(number, line)| (number, code(file, line)));
            let found = lines.filter(|(_, line)| pattern.is_match(line));
            faults.extend(found.map(|(number, _)| format!("{}:{number}: {what}", file.path)));
        }
    }
    faults
}

/// A line without its comment, if it is Rust.
pub(super) fn code<'a>(file: &File, line: &'a str) -> &'a str {
    let begins = |at: usize| at == 0 || line.as_bytes()[at - 1].is_ascii_whitespace();
    let mut comments = line.match_indices("//").filter(|(at, _)| begins(*at));
    match comments.next() {
        Some((at, _)) if file.is_rust() => &line[..at],
        _ => line,
    }
}
