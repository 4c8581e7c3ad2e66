//! Tests of supervisors and their workers in real processes, with real signals.
//!
//! This program runs the tests, or the child main that its arguments name. A child main is a server
//! under test, defined in `child_mains`. To run one, a test starts this program again. The server
//! and its workers print a line for each event into a pipe, and the tests wait for these lines. The
//! pipe ends when all processes are gone.

mod child_mains;
mod server_process;
mod tests;

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [flag, name] = arguments.as_slice() {
        if flag == server_process::MAIN_FLAG {
            child_mains::run_main(name);
            return ExitCode::SUCCESS;
        }
    }
    let all = tests::ALL.iter().copied().flatten();
    evcore_testing::run_named_tests(all.copied(), &arguments)
}
