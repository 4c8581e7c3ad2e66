//! Writes the lines of the server's log to standard error.

use std::{
    fmt,
    io::{self, ErrorKind, IsTerminal, Write},
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crate::pipe::LogFile;

/// The number of lines that were lost since the last one was written.
static LOST: AtomicU64 = AtomicU64::new(0);

static QUIET: AtomicBool = AtomicBool::new(false);

/// Sets whether [`notice`] logs nothing (`--quiet`).
pub fn set_quiet(is_quiet: bool) {
    QUIET.store(is_quiet, Ordering::Relaxed);
}

/// Logs an event that an operator may want to see and need not act on.
pub fn notice(line: impl fmt::Display) {
    if !QUIET.load(Ordering::Relaxed) {
        log(line);
    }
}

/// Writes one line to standard error.
///
/// If standard error is closed, the line is lost (`eprintln!` would panic). If it is a full pipe,
/// the line is lost and counted, because the server does not wait for a hanging reader (but see
/// [`LogFile`]).
pub fn log(line: impl fmt::Display) {
    let lost = LOST.swap(0, Ordering::Relaxed);
    let mut text = String::new();
    if lost > 0 {
        text = format!("httpd: {lost} lines of this log are lost, because its pipe was full\n");
    }
    text += &format!("{}{line}\n", clear_line());
    if matches!(write(text.as_bytes()), Err(error) if error.kind() == ErrorKind::WouldBlock) {
        LOST.fetch_add(lost + 1, Ordering::Relaxed);
    }
}

/// Shows `line` as the last line of the terminal, until the next line of the log.
pub fn draw(line: &str) {
    let _ = write(format!("{}{line}", clear_line()).as_bytes());
}

/// The sequence that clears the [live line](crate::live_line) of a terminal. Each process of the
/// server needs it, because it may log while the master shows a live line.
fn clear_line() -> &'static str {
    static IS_TERMINAL: OnceLock<bool> = OnceLock::new();
    match IS_TERMINAL.get_or_init(|| io::stderr().is_terminal()) {
        true => "\r\x1b[K",
        false => "",
    }
}

fn write(text: &[u8]) -> io::Result<()> {
    static FILE: OnceLock<LogFile> = OnceLock::new();
    if FILE.get().is_none() {
        // Without a free descriptor, the next line tries again.
        match LogFile::inherited(&io::stderr()) {
            Ok(file) => _ = FILE.set(file),
            Err(_) => return io::stderr().write_all(text),
        }
    }
    let mut file = FILE.get().expect("it is set");
    file.write_all(text)
}
