//! Supervisors, workers and signals as real processes.
//!
//! This program is both sides: without arguments it is the tests, which start it again with the
//! name of a scene, to be the server under test in a process of its own with a single thread.
//! The server and its workers print what they see, a line each; the tests wait for such lines, and
//! know that all processes are gone when the pipe ends.

mod scenes;
mod server;
mod tests;

use std::{env, panic, process::ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [flag, scene] = arguments.as_slice() {
        if flag == server::SCENE_FLAG {
            scenes::play(scene);
            return ExitCode::SUCCESS;
        }
    }
    // As with the usual harness: a word selects the tests that have it in their names.
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
    println!("{passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0 || passed == 0))
}
