//! `unsafe` is only in files that call the operating system, and that allow it by name.

use super::source;
use crate::diagnostic::Diagnostic;
use crate::tree::File;

/// Where `unsafe` may be: the crates that call the OS, and tests (see [`may_hold_unsafe`]).
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

/// A file with `unsafe` allows it by name, for the file as a whole, with a reason.
pub(super) fn is_in_files_that_say_so(file: &File) -> Vec<Diagnostic> {
    let code = source::code(&file.text);
    let compact: String = code.split_whitespace().collect();
    let says_so = compact.contains("#![allow(unsafe_code,reason=");
    let what = "say `#![allow(unsafe_code, reason = \"...\")]` at the top of the file";
    match first_line_with_unsafe(&code) {
        Some(line) if !says_so => vec![Diagnostic::at(&file.path, line, what)],
        None if says_so => vec![Diagnostic::of(
            &file.path,
            "nothing here is unsafe: deny it again",
        )],
        _ => Vec::new(),
    }
}

/// The pure crates have none at all.
pub(super) fn is_in_crates_that_meet_the_os(file: &File) -> Vec<Diagnostic> {
    if may_hold_unsafe(&file.path) {
        return Vec::new();
    }
    let what = "no unsafe here: only clock, poller, balancer, accept and prefork meet the OS";
    first_line_with_unsafe(&source::code(&file.text))
        .map(|line| Diagnostic::at(&file.path, line, what))
        .into_iter()
        .collect()
}

/// What is forbidden in `lib.rs` cannot be allowed again in a module.
pub(super) fn is_forbidden_in_all_other_crates(file: &File) -> Vec<Diagnostic> {
    let is_lib = file.path.starts_with("crates/") && file.path.ends_with("/src/lib.rs");
    let forbids = source::code(&file.text).contains("#![forbid(unsafe_code)]");
    // A lib.rs that forbade it would forbid it in the one file that may have it, too.
    let dir = file.path.trim_end_matches("lib.rs");
    let has_place =
        may_hold_unsafe(&file.path) || PLACES.iter().any(|place| place.starts_with(dir));
    if !is_lib || has_place || forbids {
        return Vec::new();
    }
    vec![Diagnostic::of(&file.path, "say `#![forbid(unsafe_code)]`")]
}

/// Integration tests of any crate count as tests: they are crates of their own,
/// and may need an allocator that counts.
fn may_hold_unsafe(path: &str) -> bool {
    let in_crate = path.strip_prefix("crates/").and_then(|p| p.split_once('/'));
    let is_test = in_crate.is_some_and(|(_, path)| path.starts_with("tests/"));
    is_test || PLACES.iter().any(|place| path.starts_with(place))
}

fn first_line_with_unsafe(code: &str) -> Option<usize> {
    (1..)
        .zip(code.lines())
        .find(|(_, line)| source::has_word(line, "unsafe"))
        .map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNSAFE: &str = "\nunsafe { f() }";
    const SAYS_SO: &str = "#![allow(\n    unsafe_code,\n    reason = \"it calls the OS\"\n)]\n";
    const PURE: &str = "crates/evcore-timer/src/wheel.rs";
    const OS: &str = "crates/evcore-poller/src/sys/epoll.rs";

    fn diagnostics(rule: fn(&File) -> Vec<Diagnostic>, path: &str, text: &str) -> Vec<String> {
        let diagnostics = rule(&File::new(path, text));
        diagnostics.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_with_unsafe_must_say_so() {
        let silent = diagnostics(is_in_files_that_say_so, OS, UNSAFE);
        assert!(silent[0].starts_with("crates/evcore-poller/src/sys/epoll.rs:2: "));
        let by_item = format!("#[allow(unsafe_code, reason = \"x\")]{UNSAFE}");
        assert_eq!(diagnostics(is_in_files_that_say_so, OS, &by_item).len(), 1);
        let says_so = format!("{SAYS_SO}{UNSAFE}");
        assert!(diagnostics(is_in_files_that_say_so, OS, &says_so).is_empty());
    }

    #[test]
    fn a_file_without_unsafe_must_not_allow_it() {
        assert_eq!(diagnostics(is_in_files_that_say_so, OS, SAYS_SO).len(), 1);
        assert!(
            diagnostics(
                is_in_files_that_say_so,
                OS,
                "// unsafe\nlet a = \"unsafe\";"
            )
            .is_empty()
        );
    }

    #[test]
    fn a_pure_crate_holds_none() {
        assert_eq!(
            diagnostics(is_in_crates_that_meet_the_os, PURE, UNSAFE).len(),
            1
        );
        assert!(diagnostics(is_in_crates_that_meet_the_os, OS, UNSAFE).is_empty());
    }

    #[test]
    fn tests_may_hold_it_wherever_they_are() {
        for path in [
            "tests/diagnostics/a.rs",
            "crates/evcore-timer/tests/memory.rs",
        ] {
            assert!(diagnostics(is_in_crates_that_meet_the_os, path, UNSAFE).is_empty());
        }
        let inside = "crates/evcore-timer/src/tests/a.rs";
        assert_eq!(
            diagnostics(is_in_crates_that_meet_the_os, inside, UNSAFE).len(),
            1
        );
    }

    #[test]
    fn a_pure_crate_forbids_it() {
        let rule = is_forbidden_in_all_other_crates;
        assert_eq!(
            diagnostics(rule, "crates/evcore-timer/src/lib.rs", "mod a;").len(),
            1
        );
        let forbids = "#![forbid(unsafe_code)]";
        assert!(diagnostics(rule, "crates/evcore-timer/src/lib.rs", forbids).is_empty());
        assert!(diagnostics(rule, "crates/evcore-poller/src/lib.rs", "mod a;").is_empty());
        assert!(diagnostics(rule, PURE, "").is_empty());
    }
}
