//! Rules about Rust files: their shape, and where `unsafe` may be.

use regex_lite::Regex;

use crate::diagnostic::Diagnostic;
use crate::source_tree::{File, Tree};
use crate::workspace::Workspace;

const LINES_MAX: usize = 600;

/// Names that say where something did not fit, not what it is.
const EMPTY_NAMES: &[&str] = &[
    "common", "helper", "helpers", "misc", "types", "util", "utils",
];

/// Where `unsafe` may be: the crates that call the OS, and tests.
const PLACES: &[&str] = &[
    "crates/evcore-clock/",
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
    "crates/evcore-bench/src/timers/foreign.rs",
];

/// A file without its comments, if it is Rust.
pub(super) fn without_comments(file: &File) -> File {
    let code = |(_, line): (usize, &str)| {
        let begins = |at: usize| at == 0 || line.as_bytes()[at - 1].is_ascii_whitespace();
        let mut comments = line.match_indices("//").filter(|(at, _)| begins(*at));
        let end = comments.next().map_or(line.len(), |(at, _)| at);
        line[..if file.is_rust() { end } else { line.len() }].to_owned()
    };
    let lines: Vec<String> = file.lines().map(code).collect();
    File::new(&file.path, lines.join("\n"))
}

/// Past 600 lines a file has more than one idea; it is named after the one that it has.
pub(super) fn a_file_is_short_and_named_after_its_idea(
    tree: &Tree,
    _: &Workspace,
) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let lines = file.text.lines().count();
        if lines > LINES_MAX {
            let what = format!("{lines} lines, of {LINES_MAX} at most; split it by idea");
            diagnostics.push(Diagnostic::of(&file.path, what));
        }
        let names = file.path.split('/').map(|it| it.trim_end_matches(".rs"));
        for name in names.filter(|name| EMPTY_NAMES.contains(name)) {
            let what = format!("`{name}` names no idea; say what it is");
            diagnostics.push(Diagnostic::of(&file.path, what));
        }
    }
    diagnostics
}

/// A file with `unsafe` is in one of the places, and allows it by name with a reason.
pub(super) fn unsafe_is_in_files_that_say_so(tree: &Tree, _: &Workspace) -> Vec<Diagnostic> {
    let attribute = r"(?m)^\s*#!\[allow\(\s*unsafe_code,\s*reason =";
    let attribute = Regex::new(attribute).expect("a pattern");
    let mut diagnostics = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let says_so = file.text.contains("unsafe_code") && attribute.is_match(&file.text);
        let mut report = |what| diagnostics.push(Diagnostic::of(&file.path, what));
        match (has_unsafe(file), says_so) {
            (true, false) => {
                report("say `#![allow(unsafe_code, reason = \"...\")]` at the top of the file");
            }
            (false, true) => report("nothing here is unsafe: deny it again"),
            _ => {}
        }
        if has_unsafe(file) && !may_have_unsafe(&file.path) {
            report("no unsafe here: only clock, poller, balancer, accept and prefork meet the OS");
        }
    }
    diagnostics
}

/// What `lib.rs` forbids cannot be allowed again in a module.
pub(super) fn unsafe_is_forbidden_in_other_crates(tree: &Tree, _: &Workspace) -> Vec<Diagnostic> {
    let has_no_place = |file: &&File| {
        // A lib.rs that forbade it would forbid it in the one file that may have it, too.
        let dir = file.path.trim_end_matches("lib.rs");
        !may_have_unsafe(&file.path) && !PLACES.iter().any(|place| place.starts_with(dir))
    };
    let libs = tree
        .files
        .iter()
        .filter(|file| file.path.starts_with("crates/") && file.path.ends_with("/src/lib.rs"));
    let libs = libs.filter(has_no_place);
    libs.filter(|file| !file.text.contains("\n#![forbid(unsafe_code)]"))
        .map(|file| Diagnostic::of(&file.path, "say `#![forbid(unsafe_code)]`"))
        .collect()
}

fn has_unsafe(file: &File) -> bool {
    if !file.text.contains("unsafe ") {
        return false;
    }
    let code = without_comments(file);
    let text = Regex::new(r#""(?:[^"\\\n]|\\.)*""#).expect("a pattern");
    let word = Regex::new(r"\bunsafe (?:\{|fn|impl|extern|trait)").expect("a pattern");
    word.is_match(&text.replace_all(&code.text, ""))
}

/// Integration tests of any crate count as tests: they are crates of their own.
fn may_have_unsafe(path: &str) -> bool {
    let in_crate = path
        .strip_prefix("crates/")
        .and_then(|it| it.split_once('/'));
    let is_test = in_crate.is_some_and(|(_, path)| path.starts_with("tests/"));
    is_test || PLACES.iter().any(|place| path.starts_with(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rule = fn(&Tree, &Workspace) -> Vec<Diagnostic>;

    fn reported(rule: Rule, path: &str, text: &str) -> usize {
        rule(&Tree::fake(&[(path, text)]), &Workspace::fake(Vec::new())).len()
    }

    #[test]
    fn long_files_and_empty_names_are_reported() {
        let rule = a_file_is_short_and_named_after_its_idea;
        assert_eq!(reported(rule, "src/a.rs", &"x\n".repeat(LINES_MAX)), 0);
        assert_eq!(reported(rule, "src/a.rs", &"x\n".repeat(LINES_MAX + 1)), 1);
        assert_eq!(reported(rule, "src/utils/a.rs", ""), 1);
    }

    #[test]
    fn unsafe_needs_a_place_and_a_reason() {
        let rule = unsafe_is_in_files_that_say_so;
        let allow = "//! Calls C.\n#![allow(unsafe_code, reason = \"it calls C\")]\n";
        let code = concat!("uns", "afe { x() }");
        let both = format!("{allow}{code}");
        assert_eq!(reported(rule, "crates/evcore-poller/src/a.rs", &both), 0);
        assert_eq!(reported(rule, "crates/evcore-poller/src/a.rs", code), 1);
        assert_eq!(reported(rule, "crates/evcore-poller/src/a.rs", allow), 1);
        assert_eq!(reported(rule, "crates/evcore-token/src/a.rs", &both), 1);
        assert_eq!(reported(rule, "crates/evcore-token/tests/a.rs", &both), 0);
        let mentioned = format!("// {code}\nlet a = \"{code}\";");
        assert_eq!(
            reported(rule, "crates/evcore-token/src/a.rs", &mentioned),
            0
        );
    }

    #[test]
    fn a_crate_without_unsafe_forbids_it() {
        let rule = unsafe_is_forbidden_in_other_crates;
        let lib = "crates/evcore-token/src/lib.rs";
        assert_eq!(reported(rule, lib, "//! A crate.\n"), 1);
        assert_eq!(
            reported(rule, lib, "//! A crate.\n#![forbid(unsafe_code)]\n"),
            0
        );
        assert_eq!(reported(rule, "crates/evcore-poller/src/lib.rs", ""), 0);
        assert_eq!(reported(rule, "crates/evcore-testing/src/lib.rs", ""), 0);
    }
}
