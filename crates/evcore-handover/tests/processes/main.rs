//! Senders and receivers as processes that are killed, at each step and at random moments.
//!
//! This program is all sides. Without arguments it runs the tests, and is the clients. It starts itself
//! as a sender, whose standard input is the sending end of a mailbox, and as a receiver, whose standard
//! input is the mailbox. Both print a line for each step.

#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod roles;
#[cfg(target_os = "linux")]
mod tests;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, role, words @ ..] = arguments.as_slice() {
        if flag == child::ROLE_FLAG {
            roles::run(role, words);
            return ExitCode::SUCCESS;
        }
    }
    evcore_testing::run_named_tests(tests::ALL.iter().copied(), &arguments)
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    println!("not run: connections are handed over on Linux only");
    ExitCode::SUCCESS
}
