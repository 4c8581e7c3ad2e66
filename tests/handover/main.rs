//! Connections that move to the successor of a worker, with `evcore-serve` in real processes.
//!
//! Without arguments this program runs the tests. They start it again as the server, because the
//! process of a server must have a single thread when it starts its workers.

#[cfg(target_os = "linux")]
mod lines;
#[cfg(target_os = "linux")]
mod tests;

use std::process::ExitCode;

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    evcore_tests::not_run("connections move on Linux only");
    ExitCode::SUCCESS
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((flag, arguments)) = arguments.split_first() {
        if flag == lines::FLAG {
            lines::serve(arguments).expect("it serves");
            return ExitCode::SUCCESS;
        }
    }
    evcore_tests::run_named_tests(tests::ALL.iter().copied(), &arguments)
}
