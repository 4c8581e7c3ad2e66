//! The access log: a line for each answer, in the common log format.
//!
//! Each worker opens the file for itself and appends to it whole lines, so that lines of several
//! workers do not mix: a write to a file that is open for appending is one piece, and so is one to
//! a pipe up to `PIPE_BUF`. Lines are kept until there are many of them or until somebody calls for
//! a flush. Nothing is allocated once the log is open.
//!
//! No worker waits for the reader of a pipe. What the pipe does not take is kept as long as there
//! is room, and further lines are lost. So are those that a full disk does not take. The first loss
//! is told of at once, and how many lines it came to when the log takes lines again.

use std::{
    fmt::Display,
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Write},
    net::IpAddr,
    os::fd::AsFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::ioctl_fionbio,
};

use crate::{log::log, pipe};

/// How much of a request line is logged. With every byte escaped, it still fits a line.
pub const MOST_REQUEST_LINE: usize = 960;

/// The longest line: no longer than what a pipe takes in one piece.
const MOST_LINE_BYTES: usize = pipe::MOST_AT_ONCE;

/// What is kept.
const BUFFER_BYTES: usize = 64 * 1024;

/// How long a worker that ends waits for the reader of a pipe: its master has no patience at a fast
/// stop.
const LAST_WAIT: Duration = Duration::from_millis(200);

/// A log that is open.
#[derive(Debug)]
pub struct AccessLog {
    /// `-`: standard output.
    path: PathBuf,
    out: Out,
    /// Whole lines, not yet written. Never grows.
    lines: Vec<u8>,
    /// Lines since the last one that was taken: the first of them was told of.
    lost: u64,
}

/// Where the lines go.
#[derive(Debug)]
struct Out {
    file: File,
    /// What is written at once: of anything but a file, more may be written in pieces.
    most_at_once: usize,
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
    /// output. Waits for the reader of a named pipe.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            out: Out::open(path).map_err(|error| cannot_open(path, &error))?,
            lines: Vec::with_capacity(BUFFER_BYTES),
            lost: 0,
        })
    }

    /// Opens the file again, which somebody has renamed to begin another. What was to be written
    /// goes to the old one; so does everything else if the new one cannot be opened, or is a pipe
    /// that nobody reads.
    pub fn reopen(&mut self) {
        self.flush();
        match Out::open_again(&self.path) {
            Ok(out) => self.out = out,
            Err(error) => {
                let error = cannot_open(&self.path, &error);
                log(format_args!("httpd: {error}"));
            }
        }
    }

    /// Takes a line, and writes those before it if there is no room.
    pub fn add(&mut self, entry: &Entry<'_>) {
        if !self.has_room() {
            self.write();
        }
        if self.has_room() {
            entry.write(&mut self.lines);
        } else {
            self.lose(1, &"the reader of the pipe does not take them");
        }
    }

    /// Whether there are lines to be flushed.
    pub fn is_waiting(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Writes what there is, as far as it is taken; and how many lines were lost before, if so.
    pub fn flush(&mut self) {
        let is_taken = self.write();
        if is_taken && self.lost > 0 {
            self.tell_lost();
        }
    }

    fn has_room(&self) -> bool {
        BUFFER_BYTES - self.lines.len() >= MOST_LINE_BYTES
    }

    /// Writes what there is, as far as it is taken; whether any of it was, and the rest not refused.
    /// Where that fails it is lost: a full disk is no reason not to serve.
    fn write(&mut self) -> bool {
        let (written, result) = self.out.write(&self.lines);
        self.lines.drain(..written);
        if let Err(error) = &result {
            self.lose_all(error);
        }
        written > 0 && result.is_ok()
    }

    fn lose_all(&mut self, why: &dyn Display) {
        let ends = self.lines.iter().filter(|byte| **byte == b'\n');
        let count = ends.count() as u64;
        self.lines.clear();
        self.lose(count, why);
    }

    fn lose(&mut self, count: u64, why: &dyn Display) {
        if self.lost == 0 && count > 0 {
            let path = self.path.display();
            log(format_args!("httpd: lines of {path} are lost: {why}"));
        }
        self.lost += count;
    }

    fn tell_lost(&mut self) {
        let (lost, path) = (self.lost, self.path.display());
        log(format_args!("httpd: {lost} lines of {path} were lost"));
        self.lost = 0;
    }
}

/// However the worker ends, but by KILL.
impl Drop for AccessLog {
    fn drop(&mut self) {
        let deadline = Instant::now() + LAST_WAIT;
        self.flush();
        while self.is_waiting() && self.out.is_writable_by(deadline) {
            self.flush();
        }
        self.lose_all(&"the reader of the pipe does not take them");
        if self.lost > 0 {
            self.tell_lost();
        }
    }
}

impl Out {
    fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Self::standard_output();
        }
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        if pipe::is_pipe(&file)? {
            ioctl_fionbio(&file, true)?;
        }
        Self::new(file)
    }

    /// As `open`, but waits for no reader.
    fn open_again(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Self::standard_output();
        }
        Self::new(pipe::open_to_append(path)?)
    }

    fn standard_output() -> io::Result<Self> {
        let stdout = io::stdout();
        match pipe::open_again(&stdout) {
            Some(pipe) => Self::new(pipe),
            None => Self::new(File::from(stdout.as_fd().try_clone_to_owned()?)),
        }
    }

    fn new(file: File) -> io::Result<Self> {
        let most_at_once = if file.metadata()?.is_file() {
            BUFFER_BYTES
        } else {
            pipe::MOST_AT_ONCE
        };
        Ok(Self { file, most_at_once })
    }

    /// Writes lines in pieces, until they are written, the pipe is full, or it fails; how many
    /// bytes that came to.
    fn write(&mut self, lines: &[u8]) -> (usize, io::Result<()>) {
        let mut written = 0;
        while written < lines.len() {
            match self.file.write(self.piece(&lines[written..])) {
                Ok(n) => written += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }

    /// As many of the first lines as are written at once.
    fn piece<'a>(&self, lines: &'a [u8]) -> &'a [u8] {
        if lines.len() <= self.most_at_once {
            return lines;
        }
        let piece = &lines[..self.most_at_once];
        let last_end = piece.iter().rposition(|byte| *byte == b'\n');
        last_end.map_or(piece, |end| &piece[..=end])
    }

    /// Waits until it takes something; `false`: until the deadline, it does not.
    fn is_writable_by(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).expect("a short time");
        let mut fds = [PollFd::new(&self.file, PollFlags::OUT)];
        poll(&mut fds, Some(&left)).is_ok_and(|ready| ready > 0)
    }
}

fn cannot_open(path: &Path, error: &io::Error) -> io::Error {
    let path = path.display();
    let message = format!("cannot open the access log {path}: {error}");
    io::Error::new(error.kind(), message)
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
