//! No code sleeps to wait for something.
//!
//! A sleep is too short on one machine and too long on all others: wait for
//! the condition, with a deadline.

use super::source;
use crate::diagnostic::Diagnostic;
use crate::tree::File;

/// Where one sleep is what the program is about: a place, and why.
const ALLOWED: &[(&str, &str)] = &[
    (
        "crates/evcore-accept/src/options.rs",
        "an address in use is tried again after a documented pause",
    ),
    (
        "crates/evcore-httpd/src/",
        "`/block` blocks its worker, to show how others take over",
    ),
    (
        "crates/evcore-bench/src/accept/pace.rs",
        "a measurement has a duration, and a bare worker blocks on request",
    ),
    ("xtask/src/measure/", "a measurement has a duration"),
];

/// The calls that put a thread to sleep.
const CALLS: &[&str] = &["thread::sleep", "nanosleep", "usleep"];

/// Only the allowed places sleep, each file once.
pub(super) fn nothing_sleeps_to_wait(file: &File) -> Vec<Diagnostic> {
    let code = File::new(&file.path, source::code(&file.text));
    let sleeping = code.lines().filter(|(_, line)| sleeps(line));
    sleeping
        .skip(usize::from(is_allowed(&file.path)))
        .map(|(number, _)| {
            let what = "wait for the condition with a deadline; do not sleep";
            Diagnostic::at(&file.path, number, what)
        })
        .collect()
}

fn sleeps(line: &str) -> bool {
    let imported = source::has_word(line, "use") && source::has_word(line, "sleep");
    imported || CALLS.iter().any(|call| source::has_word(line, call))
}

fn is_allowed(path: &str) -> bool {
    ALLOWED.iter().any(|(place, _)| path.starts_with(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostics(path: &str, text: &str) -> usize {
        nothing_sleeps_to_wait(&File::new(path, text)).len()
    }

    #[test]
    fn a_sleep_is_reported_however_it_is_spelt() {
        for text in [
            "std::thread::sleep(d);",
            "use std::thread::{sleep, spawn};",
            "libc::usleep(5);",
        ] {
            assert_eq!(diagnostics("tests/a.rs", text), 1, "{text}");
        }
        assert_eq!(
            diagnostics("tests/a.rs", "// thread::sleep\nfn sleep_route() {}"),
            0
        );
    }

    #[test]
    fn an_allowed_place_sleeps_once() {
        let once = "thread::sleep(pause);\n";
        assert_eq!(diagnostics("crates/evcore-accept/src/options.rs", once), 0);
        assert_eq!(
            diagnostics("crates/evcore-accept/src/options.rs", &once.repeat(2)),
            1
        );
    }
}
