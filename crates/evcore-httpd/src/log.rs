//! The log: standard error.

use std::{
    fmt,
    fs::File,
    io::{self, ErrorKind, Write},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::pipe;

/// Lines that were not taken, since the last that was.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Writes one line. Where nobody reads it any more it is lost: `eprintln!` would panic, and a
/// server is not to end because its log's reader has. Nor is it to wait for a reader that hangs:
/// then too the line is lost, and counted.
pub fn log(line: impl fmt::Display) {
    let lost = LOST.swap(0, Ordering::Relaxed);
    let mut text = String::new();
    if lost > 0 {
        text = format!("httpd: {lost} lines of this log are lost: its reader did not take them\n");
    }
    text += &format!("{line}\n");
    if matches!(write(text.as_bytes()), Err(error) if error.kind() == ErrorKind::WouldBlock) {
        LOST.fetch_add(lost + 1, Ordering::Relaxed);
    }
}

fn write(text: &[u8]) -> io::Result<()> {
    static PIPE: OnceLock<Option<File>> = OnceLock::new();
    match PIPE.get_or_init(|| pipe::open_again(&io::stderr())) {
        Some(pipe) => (&*pipe).write_all(text),
        None => io::stderr().write_all(text),
    }
}
