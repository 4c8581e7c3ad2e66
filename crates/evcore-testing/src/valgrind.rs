//! A test that runs itself under valgrind.

use std::env;
use std::process::Command;
use std::thread;

use crate::not_run;

/// Set in the process that valgrind runs.
const INSIDE: &str = "EVCORE_INSIDE_VALGRIND";

/// Runs `work` in a process under valgrind: the calling test is started again there, alone.
///
/// On a machine without valgrind, the test is reported as not run.
///
/// # Panics
///
/// If the process fails. Also if it is called outside a test, because it takes the test's name from
/// its thread.
pub fn under_valgrind(work: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        return work();
    }
    let thread = thread::current();
    let test = thread.name().expect("the name of a test");
    let program = env::current_exe().expect("the path of the test program");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=none", "--quiet"]).arg(program);
    // With one test thread, the test still runs on a thread with its name.
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
