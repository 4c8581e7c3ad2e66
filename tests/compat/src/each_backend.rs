//! A test that runs itself again for each backend.

use std::{
    env,
    process::{Command, Output},
};

use evcore_poller::BackendKind;
use polling::under_test;

use crate::time_limit;

/// Makes a `#[test]` for each program (a function without arguments). The test runs the program on
/// each backend.
#[macro_export]
macro_rules! on_each_backend {
    ($($program:ident),+ $(,)?) => {
        mod on_each_backend {
            $(
                #[test]
                fn $program() {
                    let name = concat!(module_path!(), "::", stringify!($program));
                    $crate::run_on_each_backend(name, super::$program);
                }
            )+
        }
    };
}

/// Runs `program` on each backend of this system, each time in a process of its own. `name` is the
/// name of the test, with its crate. If the environment names a backend, runs `program` in this
/// process, on that backend.
///
/// # Panics
///
/// If the program fails on a backend, waits on another backend or on none, or does not run.
pub fn run_on_each_backend(name: &str, program: fn()) {
    match env::var(under_test::BACKEND) {
        Ok(backend) => run_here(name, &backend, program),
        Err(_) => BackendKind::usable()
            .iter()
            .for_each(|kind| run_elsewhere(name, *kind)),
    }
}

fn run_here(name: &str, backend: &str, program: fn()) {
    time_limit::watch(name, program);
    let waits = under_test::waits();
    let names: Vec<_> = waits.keys().copied().collect();
    assert_eq!(names, [backend], "the backends that were waited for");
    println!("{}", receipt(name, backend));
}

fn run_elsewhere(name: &str, kind: BackendKind) {
    let (_, test) = name.split_once("::").expect("a crate and a test");
    let this = env::current_exe().expect("this program has a path");
    let mut command = Command::new(this);
    command.args([test, "--exact", "--nocapture"]);
    command.env(under_test::BACKEND, kind.to_string());
    let output = command.output().expect("this program starts");
    assert!(output.status.success(), "on {kind}: {}", describe(&output));
    // The status is not enough, because a child that does not find the test succeeds too.
    let receipt = receipt(name, &kind.to_string());
    let ran = describe(&output).contains(&receipt);
    assert!(ran, "on {kind}, no {receipt:?}: {}", describe(&output));
}

/// The line that a process prints when it has run a program to its end.
fn receipt(name: &str, backend: &str) -> String {
    format!("[{name} ran on {backend}]")
}

fn describe(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{}\n{out}{err}", output.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits_for_nothing() {}

    #[test]
    fn a_program_that_never_waited_proves_nothing() {
        let ran = std::panic::catch_unwind(|| run_here("crate::test", "epoll", waits_for_nothing));
        assert!(ran.is_err());
    }

    #[test]
    fn a_test_that_does_not_exist_is_not_taken_for_a_success() {
        let kind = BackendKind::available()[0];
        let ran = std::panic::catch_unwind(|| run_elsewhere("crate::no_such_test", kind));
        assert!(ran.is_err());
    }
}
