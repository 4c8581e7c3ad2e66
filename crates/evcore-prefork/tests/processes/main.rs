//! Supervisors, workers and signals as real processes.
//!
//! This program runs the tests, unless its arguments name a child main, an arm of a `match` in
//! `child_mains`. A test starts the program again with the name of a child main, which then is the
//! server under test. The server and its workers print a line for each event into a pipe, and the
//! tests wait for these lines. The pipe ends when all processes are gone.

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
