//! The log: standard error.

use std::{
    fmt,
    io::{self, Write},
};

/// Writes one line. Where nobody reads it any more it is lost: `eprintln!` would panic, and a
/// server is not to end because its log's reader has.
pub fn log(line: impl fmt::Display) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
