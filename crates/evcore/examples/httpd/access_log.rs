//! The access log: a line for each answer, in the common log format.
//!
//! Each worker opens the file for itself and appends to it whole lines, so that lines of several
//! workers do not mix: a write to a file that is open for appending is one piece, and so is one to
//! a pipe up to `PIPE_BUF`. Lines are kept until there are many of them or until somebody calls for
//! a flush. Nothing is allocated once the log is open.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    net::IpAddr,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use crate::log::log;

/// How much of a request line is logged. With every byte escaped, it still fits a line.
pub const MOST_REQUEST_LINE: usize = 960;

/// The longest line: no longer than what a pipe takes in one piece, on Linux.
const MOST_LINE_BYTES: usize = 4096;

/// What is kept for a file.
const FILE_BUFFER_BYTES: usize = 64 * 1024;

/// A log that is open.
#[derive(Debug)]
pub struct AccessLog {
    /// `-`: standard output.
    path: PathBuf,
    out: File,
    /// Whole lines, not yet written. Never grows.
    lines: Vec<u8>,
    /// The last write failed: this was said, and is not said again.
    fails: bool,
}

/// What a line tells.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// `None`: a client of a Unix socket.
    pub peer: Option<IpAddr>,
    /// `28/Sep/1970:12:00:00 +0600`
    pub time: &'a [u8],
    /// As it came, up to [`MOST_REQUEST_LINE`] bytes; empty where none has come.
    pub request_line: &'a [u8],
    /// Three digits.
    pub status: &'a str,
    pub body_bytes: u64,
}

impl AccessLog {
    /// Opens the file at `path` for appending, and makes it if it is not there; `-` is standard
    /// output.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (out, capacity) = open(path).map_err(|error| {
            let path = path.display();
            let message = format!("cannot open the access log {path}: {error}");
            io::Error::new(error.kind(), message)
        })?;
        Ok(Self {
            path: path.to_owned(),
            out,
            lines: Vec::with_capacity(capacity),
            fails: false,
        })
    }

    /// Opens the file again, which somebody has renamed to begin another. What was to be written
    /// goes to the old one; so does everything else if the new one cannot be opened.
    pub fn reopen(&mut self) {
        self.flush();
        match Self::open(&self.path) {
            Ok(new) => *self = new,
            Err(error) => log(format_args!("httpd: {error}")),
        }
    }

    /// Takes a line, and writes those before it if there is no room.
    pub fn add(&mut self, entry: &Entry<'_>) {
        if self.lines.capacity() - self.lines.len() < MOST_LINE_BYTES {
            self.flush();
        }
        entry.write(&mut self.lines);
    }

    /// Whether there are lines to be flushed.
    pub fn is_waiting(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Writes what there is. Where that fails it is lost: a full disk is no reason not to serve.
    pub fn flush(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let written = self.out.write_all(&self.lines);
        self.lines.clear();
        match written {
            Ok(()) => self.fails = false,
            Err(error) if !self.fails => {
                self.fails = true;
                let path = self.path.display();
                log(format_args!("httpd: lines of {path} are lost: {error}"));
            }
            Err(_) => {}
        }
    }
}

/// However the worker ends, but by KILL.
impl Drop for AccessLog {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Entry<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        // Writing to a vector cannot fail.
        let _ = match self.peer {
            Some(peer) => write!(out, "{peer}"),
            // As nginx has it.
            None => write!(out, "unix:"),
        };
        out.extend_from_slice(b" - - [");
        out.extend_from_slice(self.time);
        out.extend_from_slice(b"] \"");
        match self.request_line {
            [] => out.push(b'-'),
            line => escape(out, &line[..line.len().min(MOST_REQUEST_LINE)]),
        }
        let _ = writeln!(out, "\" {} {}", self.status, self.body_bytes);
    }
}

/// Keeps the request line that `head` begins with, instead of what was kept before.
pub fn keep_request_line(kept: &mut Vec<u8>, head: &[u8]) {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    // Empty lines before a request are skipped (RFC 9112, section 2.2).
    let start = head.iter().position(|byte| !is_end(byte));
    let line = &head[start.unwrap_or(head.len())..];
    let length = line.iter().position(is_end).unwrap_or(line.len());
    kept.clear();
    kept.extend_from_slice(&line[..length.min(MOST_REQUEST_LINE)]);
}

/// What could end the field or the line, or upset a terminal, as nginx escapes it: `\x22`.
fn escape(out: &mut Vec<u8>, line: &[u8]) {
    for &byte in line {
        match byte {
            b'"' | b'\\' | 0..=31 | 127..=255 => {
                let _ = write!(out, "\\x{byte:02X}");
            }
            _ => out.push(byte),
        }
    }
}

/// The file, and how much to keep for it.
fn open(path: &Path) -> io::Result<(File, usize)> {
    let out = if path == Path::new("-") {
        File::from(io::stdout().as_fd().try_clone_to_owned()?)
    } else {
        OpenOptions::new().append(true).create(true).open(path)?
    };
    // Of anything but a file, more than that may be written in pieces.
    let is_file = out.metadata()?.is_file();
    Ok((
        out,
        if is_file {
            FILE_BUFFER_BYTES
        } else {
            MOST_LINE_BYTES
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(entry: Entry<'_>) -> String {
        let mut out = Vec::new();
        entry.write(&mut out);
        String::from_utf8(out).expect("what is not ASCII is escaped")
    }

    const ENTRY: Entry<'_> = Entry {
        peer: None,
        time: b"28/Sep/1970:12:00:00 +0600",
        request_line: b"GET / HTTP/1.1",
        status: "200",
        body_bytes: 13,
    };

    #[test]
    fn a_line_is_in_the_common_log_format() {
        let peer = Some("192.0.2.1".parse().expect("an address"));
        assert_eq!(
            line(Entry { peer, ..ENTRY }),
            "192.0.2.1 - - [28/Sep/1970:12:00:00 +0600] \"GET / HTTP/1.1\" 200 13\n"
        );
        let nothing = Entry {
            request_line: b"",
            status: "408",
            ..ENTRY
        };
        assert_eq!(
            line(nothing),
            "unix: - - [28/Sep/1970:12:00:00 +0600] \"-\" 408 13\n"
        );
    }

    #[test]
    fn no_client_can_forge_a_line() {
        let request_line = b"GET /\"\\\n\x7f\xff HTTP/1.1";
        let written = line(Entry {
            request_line,
            ..ENTRY
        });
        assert!(
            written.contains(r#""GET /\x22\x5C\x0A\x7F\xFF HTTP/1.1" 200"#),
            "{written}"
        );
        assert_eq!(written.lines().count(), 1);
    }

    #[test]
    fn the_longest_line_fits() {
        let written = line(Entry {
            peer: Some(std::net::Ipv6Addr::from([0xab; 16]).into()),
            request_line: &[0xff; 2 * MOST_REQUEST_LINE],
            body_bytes: u64::MAX,
            ..ENTRY
        });
        assert!(written.len() <= MOST_LINE_BYTES, "{}", written.len());
    }

    #[test]
    fn the_request_line_is_the_first_that_is_not_empty() {
        let mut kept = b"before".to_vec();
        for (head, expected) in [
            (&b"GET / HTTP/1.1\r\nHost: t\r\n\r\n"[..], "GET / HTTP/1.1"),
            (b"\r\n\nPOST /echo HTTP/1.0\n\n", "POST /echo HTTP/1.0"),
            (b"garbage", "garbage"),
            (b"\r\n", ""),
            (b"", ""),
        ] {
            keep_request_line(&mut kept, head);
            assert_eq!(kept, expected.as_bytes());
        }
        keep_request_line(&mut kept, &[b'x'; 5000]);
        assert_eq!(kept.len(), MOST_REQUEST_LINE);
    }
}
