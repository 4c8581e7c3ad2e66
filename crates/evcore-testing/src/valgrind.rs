//! A test that runs itself under valgrind.

use std::env;
use std::process::Command;
use std::thread;

use crate::not_run;

/// The environment variable that marks the process that valgrind runs.
const INSIDE: &str = "EVCORE_INSIDE_VALGRIND";

/// Runs `work` under valgrind, in a process that runs only the calling test.
///
/// If valgrind cannot be started, the test is reported as not run.
///
/// # Panics
///
/// If the process fails, or if the calling thread does not have the name of a test.
pub fn under_valgrind(work: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        return work();
    }
    let thread = thread::current();
    let test = thread.name().expect("the name of a test");
    let program = env::current_exe().expect("the path of the test program");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=none", "--quiet"]).arg(program);
    // With one thread, the harness may run the test on the main thread, which does not have the
    // test's name.
    valgrind.args(["--exact", test, "--test-threads=2"]);
    match valgrind.env(INSIDE, "1").output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            let has_run = said.contains("1 passed");
            assert!(output.status.success() && has_run, "{output:?}");
        }
        Err(error) => not_run(&format!("valgrind: {error}")),
    }
}
