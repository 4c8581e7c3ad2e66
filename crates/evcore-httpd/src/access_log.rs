//! The access log: a line for each response.
//!
//! Each worker opens the file itself. Lines of several workers do not mix, because a write to a
//! file opened for appending is atomic, and so is a write of up to `PIPE_BUF` bytes to a pipe.
//!
//! While a worker serves clients, it does not wait for the reader of a pipe. Lines that do not fit
//! into the pipe stay in the buffer; when that is full, further lines are lost. Lines that a full
//! disk refuses are lost too. The first loss is logged at once. The number of lost lines is logged
//! when the log accepts lines again.

use std::{
    fmt::Display,
    fs::OpenOptions,
    io::{self, ErrorKind, Write},
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::io::ioctl_fionbio;

use crate::{
    log::log,
    log_entry::{Entry, LogFormat, MAX_LINE_BYTES, MAX_REQUEST_LINE},
    pipe::{self, LogFile},
};

const BUFFER_BYTES: usize = 64 * 1024;

/// The time for which a worker that exits waits for the reader of a pipe. It is short, because in a
/// fast stop the master soon kills the workers.
const FINAL_FLUSH_TIMEOUT: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub struct AccessLog {
    /// The path of the log; `-` is standard output.
    path: PathBuf,
    out: Out,
    format: LogFormat,
    /// Whole lines that are not written yet. The buffer never grows.
    lines: Vec<u8>,
    /// The number of lost lines that is not logged yet. The first loss was logged without a number.
    lost: u64,
    /// True if the file ends with a part of a line, because the rest could not be written.
    is_cut: bool,
}

#[derive(Debug)]
struct Out {
    file: LogFile,
    /// The maximum size of a write. A file that is not regular may accept only a part of a larger
    /// write.
    max_write_bytes: usize,
}

impl AccessLog {
    /// Opens the file at `path` for appending, and creates it if it does not exist; `-` is standard
    /// output. Blocks until a named pipe has a reader.
    pub fn open(path: &Path, format: LogFormat) -> io::Result<Self> {
        Self::with(path, format, Out::open(path))
    }

    /// Like [`open`](Self::open), but does not wait for the reader of a named pipe, so that a
    /// worker that replaces another one serves at once.
    pub fn open_unread(path: &Path, format: LogFormat) -> io::Result<Self> {
        let out = Out::open_unread(path);
        Self::with(path, format, out)
    }

    fn with(path: &Path, format: LogFormat, out: io::Result<Out>) -> io::Result<Self> {
        Ok(Self {
            format,
            path: path.to_owned(),
            out: out.map_err(|error| cannot_open(path, &error))?,
            lines: Vec::with_capacity(BUFFER_BYTES),
            lost: 0,
            is_cut: false,
        })
    }

    pub fn is_pipe(&self) -> bool {
        let file = self.out.file.metadata();
        file.is_ok_and(|file| file.file_type().is_fifo())
    }

    pub fn format(&self) -> LogFormat {
        self.format
    }

    /// Opens the path again, for log rotation. Buffered lines go to the old file. If the new one
    /// cannot be opened, or is a pipe without a reader, further lines go to the old file too.
    pub fn reopen(&mut self) {
        self.flush();
        match Out::open_again(&self.path) {
            Ok(out) => {
                self.is_cut &= out.is_same_file(&self.out);
                self.out = out;
            }
            Err(error) => {
                let error = cannot_open(&self.path, &error);
                log(format_args!("httpd: {error}"));
            }
        }
    }

    /// Adds a line. Writes the buffered lines first if they leave too little room.
    pub fn add(&mut self, entry: &Entry<'_>) {
        if !self.has_room() {
            self.write();
        }
        if self.has_room() {
            entry.write(self.format, &mut self.lines);
        } else {
            self.lose(1, &"the reader of the pipe is too slow");
        }
    }

    pub fn has_buffered(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Writes the buffered lines, as far as the file accepts them. If that succeeds, logs how many
    /// lines were lost before.
    pub fn flush(&mut self) {
        let is_written = self.write();
        if is_written && self.lost > 0 {
            self.log_lost();
        }
    }

    fn has_room(&self) -> bool {
        BUFFER_BYTES - self.lines.len() >= MAX_LINE_BYTES
    }

    /// Writes the buffered lines, as far as the file accepts them. Returns whether some were
    /// written without an error. After an error the other lines are lost, so that the server
    /// continues with a full disk.
    fn write(&mut self) -> bool {
        let (written, result) = match self.end_cut_line() {
            Ok(()) => self.out.write(&self.lines),
            Err(error) => (0, Err(error)),
        };
        if written > 0 && result.is_err() {
            self.is_cut = self.lines[written - 1] != b'\n';
        }
        self.lines.drain(..written);
        if let Err(error) = &result {
            self.lose_all(error);
        }
        written > 0 && result.is_ok()
    }

    /// Ends a line that was cut, so that the next one does not continue it.
    fn end_cut_line(&mut self) -> io::Result<()> {
        if !self.is_cut {
            return Ok(());
        }
        let (written, result) = self.out.write(b"\n");
        self.is_cut = written == 0;
        result
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

    fn log_lost(&mut self) {
        let (lost, path) = (self.lost, self.path.display());
        log(format_args!("httpd: {lost} lines of {path} were lost"));
        self.lost = 0;
    }
}

/// Flushes the log when the worker ends, unless it is killed.
impl Drop for AccessLog {
    fn drop(&mut self) {
        let deadline = Instant::now() + FINAL_FLUSH_TIMEOUT;
        self.flush();
        let left = || deadline.saturating_duration_since(Instant::now());
        while self.has_buffered() && self.out.file.is_writable_within(left()) {
            self.flush();
        }
        self.lose_all(&"the reader of the pipe is too slow");
        if self.lost > 0 {
            self.log_lost();
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
        Self::new(file.into())
    }

    /// Like `open`, but fails if a named pipe has no reader, instead of waiting for one.
    fn open_again(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Self::standard_output();
        }
        Self::new(pipe::open_to_append(path)?.into())
    }

    /// Like `open`, but a named pipe needs no reader.
    fn open_unread(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Self::standard_output();
        }
        Self::new(pipe::open_to_append_unread(path)?.into())
    }

    fn standard_output() -> io::Result<Self> {
        Self::new(LogFile::inherited(&io::stdout())?)
    }

    fn new(file: LogFile) -> io::Result<Self> {
        let max_write_bytes = if file.metadata()?.is_file() {
            BUFFER_BYTES
        } else {
            pipe::PIPE_BUF
        };
        Ok(Self {
            file,
            max_write_bytes,
        })
    }

    fn is_same_file(&self, other: &Self) -> bool {
        let of = |out: &Self| out.file.metadata().map(|file| (file.dev(), file.ino()));
        matches!((of(self), of(other)), (Ok(one), Ok(other)) if one == other)
    }

    /// Writes lines until all are written, the file takes no more, or a write fails. Returns the
    /// number of bytes written.
    fn write(&mut self, lines: &[u8]) -> (usize, io::Result<()>) {
        let mut written = 0;
        while written < lines.len() {
            match (&self.file).write(self.piece(&lines[written..])) {
                Ok(n) => written += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }

    /// The first lines that fit into one write, or a part of the first line if that line does not
    /// fit.
    fn piece<'a>(&self, lines: &'a [u8]) -> &'a [u8] {
        if lines.len() <= self.max_write_bytes {
            return lines;
        }
        let piece = &lines[..self.max_write_bytes];
        let last_end = piece.iter().rposition(|byte| *byte == b'\n');
        last_end.map_or(piece, |end| &piece[..=end])
    }
}

fn cannot_open(path: &Path, error: &io::Error) -> io::Error {
    let path = path.display();
    let message = format!("cannot open the access log {path}: {error}");
    io::Error::new(error.kind(), message)
}

/// Replaces the contents of `kept` with the request line of `head`.
pub fn copy_request_line(kept: &mut Vec<u8>, head: &[u8]) {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    // Empty lines before a request are skipped (RFC 9112, section 2.2).
    let start = head.iter().position(|byte| !is_end(byte));
    let line = &head[start.unwrap_or(head.len())..];
    let length = line.iter().position(is_end).unwrap_or(line.len());
    kept.clear();
    kept.extend_from_slice(&line[..length.min(MAX_REQUEST_LINE)]);
}

#[cfg(test)]
mod tests {
    use super::*;

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
            copy_request_line(&mut kept, head);
            assert_eq!(kept, expected.as_bytes());
        }
        copy_request_line(&mut kept, &[b'x'; 5000]);
        assert_eq!(kept.len(), MAX_REQUEST_LINE);
    }
}
