//! Supervisors, workers and signals as real processes.
//!
//! This program plays both sides. Without arguments it runs the tests. They start it again with the
//! name of a child main, as the server under test, in a process with a single thread. The server
//! and its workers print a line for each event. The tests wait for such lines; the pipe ends when
//! all processes are gone.

mod child_mains;
mod server_process;
mod tests;

use std::{env, panic, process::ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [flag, name] = arguments.as_slice() {
        if flag == server_process::MAIN_FLAG {
            child_mains::run_main(name);
            return ExitCode::SUCCESS;
        }
    }
    // As in the usual harness, a word selects the tests whose names contain it.
    let word = arguments.iter().find(|argument| !argument.starts_with('-'));
    run_tests(word.map_or("", String::as_str))
}

fn run_tests(word: &str) -> ExitCode {
    let (mut passed, mut failed) = (0, 0);
    let all = tests::ALL.iter().copied().flatten();
    for (name, test) in all.filter(|(name, _)| name.contains(word)) {
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
