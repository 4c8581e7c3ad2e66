//! A file that is open, and its fields in a response.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::MetadataExt,
    },
};

use evcore::clock::stamp;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{content_type::content_type, disk::ChunksInMemory};

const LAST_SECOND: i64 = 253_402_300_799;

/// An open regular file. Its length, tag and date are from the time when it was opened; its bytes
/// are from the time when they are sent.
#[derive(Debug)]
pub struct OpenFile {
    pub(super) file: File,
    pub(super) in_memory: ChunksInMemory,
    pub size: u64,
    /// The time of the last modification, in Unix seconds; `None` if it is before 1970, after the
    /// opening, or after the last date that HTTP can name.
    pub modified: Option<u64>,
    /// The entity tag with its quotes.
    pub etag: String,
    pub content_type: &'static str,
    /// The lines of a head that are the same in each response with this file. Each line begins with
    /// the CR LF that ends the line before.
    pub validators: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Found {
    size: u64,
    /// The time of the last modification, in Unix seconds and nanoseconds.
    seconds: i64,
    nanoseconds: i64,
}

impl Found {
    /// Returns the attributes of an open file; `None` if it is a directory.
    ///
    /// # Errors
    ///
    /// `NXIO` if it is neither a directory nor a regular file, or the error of `fstat`.
    pub fn of(file: &File) -> rustix::io::Result<Option<Self>> {
        let metadata = file.metadata().map_err(errno)?;
        if metadata.is_dir() {
            return Ok(None);
        }
        if !metadata.is_file() {
            return Err(Errno::NXIO);
        }
        Ok(Some(Self {
            size: metadata.len(),
            seconds: metadata.mtime(),
            nanoseconds: metadata.mtime_nsec(),
        }))
    }
}

impl OpenFile {
    /// Creates the value from a file that was opened by this name. `now` is in Unix seconds.
    pub fn new(file: File, found: Found, name: &[u8], now: i64) -> Self {
        let Found {
            size,
            seconds,
            nanoseconds,
        } = found;
        let modified = (0..=now.min(LAST_SECOND)).contains(&seconds);
        let modified = modified.then(|| seconds.unsigned_abs());
        let etag = etag(seconds, nanoseconds, size);
        Self {
            file,
            in_memory: ChunksInMemory::default(),
            size,
            modified,
            content_type: content_type(name),
            validators: validators(&etag, modified.map(|_| seconds)),
            etag,
        }
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Returns the entity tag, which is made of the time of the last modification and the size, as in
/// nginx. The nanoseconds distinguish two writes within a second.
fn etag(seconds: i64, nanoseconds: i64, size: u64) -> String {
    format!("\"{seconds:x}.{nanoseconds:x}-{size:x}\"")
}

/// Returns the [validators](OpenFile::validators). `modified` is not in the future, because RFC
/// 9110, section 8.8.2.1, forbids a date later than that of the response.
fn validators(etag: &str, modified: Option<i64>) -> String {
    // With `nosniff`, a browser takes the type of the content from `Content-Type` alone.
    let mut lines =
        format!("\r\nX-Content-Type-Options: nosniff\r\nAccept-Ranges: bytes\r\nETag: {etag}");
    if let Some(seconds) = modified {
        lines += "\r\nLast-Modified: ";
        lines += stamp::http_date(seconds).as_str();
    }
    lines
}

fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
