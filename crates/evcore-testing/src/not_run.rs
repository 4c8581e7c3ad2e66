//! Reports of tests that could not run on this machine, and of attempts that took too long to
//! count.

use std::{
    io::{self, Write},
    thread,
};

/// Reports that the calling test cannot run here, or that one of its attempts took too long to
/// count (see `in_time`).
///
/// `cargo xtask test` lists these reports at the end of its output. Call this on the test's own
/// thread, because the report takes the test's name from the thread.
pub fn not_run(reason: &str) {
    let thread = thread::current();
    let name = thread.name().unwrap_or("a test");
    let line = format!("not run: {name}: {reason}\n");
    // Not `eprintln!`, because the harness captures its output, and drops it if the test passes.
    let _ = io::stderr().write_all(line.as_bytes());
}
