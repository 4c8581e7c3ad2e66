//! A harness for a test program that starts itself again as a server, or forks. Such a program must
//! have a single thread, so it cannot use the standard harness.

use std::panic;
use std::process::ExitCode;

/// A test and its name.
pub type NamedTest = (&'static str, fn());

/// Lists functions as [`NamedTest`]s, under their own names.
#[macro_export]
macro_rules! named_tests {
    ($($(#[$cfg:meta])* $name:ident)*) => {
        &[$($(#[$cfg])* (stringify!($name), $name as fn()),)*]
    };
}

/// Runs the tests one after another, and prints their results as the standard harness does. If an
/// argument does not begin with `-`, only tests whose names contain the first such argument run.
/// Fails if a test fails, or if none runs.
pub fn run_named_tests(
    tests: impl IntoIterator<Item = NamedTest>,
    arguments: &[String],
) -> ExitCode {
    let word = arguments.iter().find(|argument| !argument.starts_with('-'));
    let word = word.map_or("", String::as_str);
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in tests.into_iter().filter(|(name, _)| name.contains(word)) {
        match panic::catch_unwind(test) {
            Ok(()) => {
                println!("test {name} ... ok");
                passed += 1;
            }
            Err(_) => {
                println!("test {name} ... FAILED");
                failed += 1;
            }
        }
    }
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {result}. {passed} passed; {failed} failed");
    ExitCode::from(u8::from(failed > 0 || passed == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes() {}

    fn fails() {
        panic!("this test fails on purpose");
    }

    #[test]
    fn a_run_fails_if_a_test_fails_or_none_runs() {
        let all: &[NamedTest] = named_tests![passes fails];
        for (word, code) in [("passes", 0), ("fails", 1), ("s", 1), ("nothing", 1)] {
            let arguments = ["--quiet".to_owned(), word.to_owned()];
            let ended = run_named_tests(all.iter().copied(), &arguments);
            assert_eq!(ended, ExitCode::from(code), "{word}");
        }
    }
}
