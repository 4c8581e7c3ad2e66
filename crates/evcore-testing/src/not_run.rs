//! Reports of tests, or of attempts, that could not run on this machine.

use std::{
    io::{self, Write},
    thread,
};

/// Reports that the calling test cannot run here, or that something in it did not count.
///
/// `cargo xtask test` lists these reports at its end.
///
/// Call it on the thread of the test, whose name the harness has given it.
pub fn not_run(reason: &str) {
    let thread = thread::current();
    let name = thread.name().unwrap_or("a test");
    let line = format!("not run: {name}: {reason}\n");
    // The harness captures `eprintln!`, and shows nothing of a test that passes.
    let _ = io::stderr().write_all(line.as_bytes());
}
