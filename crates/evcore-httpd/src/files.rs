//! `/files/...`: the files beneath `--root`, sent without a copy in user mode.
//!
//! The answers:
//!
//! | the target names | answer |
//! |---|---|
//! | a regular file | `200`, or `206`, `304`, `412`, `416` as RFC 9110 has it |
//! | a directory, with `/` at the end | the file `--index` in it; `404` without `--index` |
//! | a directory, without `/` at the end | `301` to the name with `/`; `404` without `--index` |
//! | nothing, a FIFO, a device, a socket | `404` |
//! | something outside of the root, by `..` or by a symbolic link | `404` |
//! | a file that may not be read | `403` |
//! | a file, while descriptors or memory have run out | `503`, and the connection stays open |
//! | a file that cannot be opened for another reason, such as a broken disk | `500` |
//!
//! `path` has the answers for names that are encoded in an odd way.
//!
//! A response continues with the open file even if the file is removed or replaced. If the file
//! ends before its announced length, or cannot be read, the connection ends.

mod cache;
pub(crate) mod condition;
mod content_type;
mod disk;
pub(crate) mod fields;
mod head;
mod open_file;
pub(crate) mod path;
pub(crate) mod range;
mod root;
#[cfg(test)]
pub(crate) mod tests;
mod walk;

use std::{
    ffi::OsStr, fs::File, io, os::unix::ffi::OsStrExt, path::Path, sync::Arc, time::Duration,
};

use evcore::clock::Clock;
use evcore_recording::Outside;
use rustix::io::Errno;

use crate::{
    options::Options,
    request::Request,
    response::{StartOfHead, Status},
    route::path_of,
    version::Version,
};

use cache::OpenFiles;
use condition::{Verdict, evaluate, range_applies};
use disk::DiskReads;
pub use disk::{DiskRead, THREADS as DISK_THREADS, left_in_chunk};
use fields::Fields;
use open_file::Found;
pub use open_file::OpenFile;
use range::Selection;
use root::Root;

const PREFIX: &str = "/files/";

#[derive(Debug)]
pub struct Files {
    root: Root,
    /// The name of the index of a directory.
    index: Option<Vec<u8>>,
    open: OpenFiles,
    pub(crate) reads: DiskReads,
    /// The source of what the server learns about files, such as their sizes. If it records, a
    /// replay gets the same answers from the recording, and needs none of the files.
    pub(crate) outside: Outside,
    name: Vec<u8>,
    start: StartOfHead,
}

/// A response about a file. Its head is already written.
#[derive(Debug)]
pub struct Answer {
    pub status: Status,
    /// The part of a file to send; `None` if the response has no body.
    pub body: Option<Part>,
}

#[derive(Debug)]
pub struct Part {
    pub file: Arc<OpenFile>,
    pub end: u64,
    pub length: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum Miss {
    Status(Status),
    /// The name is the name of a directory, and has no `/` at its end.
    Directory,
}

/// The values that determine the end of a head: the version of HTTP, and whether the connection is
/// kept alive.
pub type HeadEnd = (Version, bool);

impl Files {
    /// Opens the root of the options. Returns `None` if they have none.
    ///
    /// # Errors
    ///
    /// If the root cannot be opened, or is not a directory.
    pub fn open(options: &Options) -> io::Result<Option<Self>> {
        let Some(path) = &options.root else {
            return Ok(None);
        };
        Ok(Some(Self {
            root: open_root(path)?,
            index: options
                .index
                .as_deref()
                .map(|name| OsStr::as_bytes(name).to_owned()),
            open: OpenFiles::new(options.open_files),
            reads: DiskReads::default(),
            outside: Outside::Direct,
            name: Vec::new(),
            start: StartOfHead::default(),
        }))
    }

    /// Answers a request: writes the head of the response to `out`.
    ///
    /// # Errors
    ///
    /// The status of an error response. Nothing is written then.
    pub fn answer(
        &mut self,
        request: &Request,
        head: &[u8],
        end: HeadEnd,
        clock: &Clock,
        out: &mut Vec<u8>,
    ) -> Result<Answer, Status> {
        let fields = Fields::parse(head).ok_or(Status::BadRequest)?;
        let file = match self.find(fields.target, clock) {
            Ok(file) => file,
            Err(Miss::Directory) => {
                head::write_redirect(out, fields.target, end, clock);
                return Ok(Answer {
                    status: Status::MovedPermanently,
                    body: None,
                });
            }
            Err(Miss::Status(status)) => return Err(status),
        };
        let verdict = evaluate(&fields, &file.etag, file.modified);
        if verdict == Verdict::Failed {
            return Err(Status::PreconditionFailed);
        }
        let (status, selection) = match verdict {
            Verdict::NotModified => (Status::NotModified, Selection::Whole),
            _ => select(request, &fields, &file),
        };
        let length = self.write_head(out, status, &file, &selection, end, clock);
        let is_empty = request.head_only || length == 0;
        let end = match &selection {
            Selection::Part(part) => part.end,
            _ => file.size,
        };
        let body = (!is_empty).then_some(Part { file, end, length });
        Ok(Answer { status, body })
    }

    /// Empties the cache, which closes the files that no connection sends.
    pub fn close_cached(&mut self) {
        self.open.clear();
    }

    /// Removes files that were not used for `time` from the cache. A file that no connection sends
    /// is closed.
    pub fn close_unused(&mut self, clock: &Clock, time: Duration) {
        let now_ms = clock.monotonic_ms();
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.open.close_unused(now_ms.saturating_sub(time_ms));
    }

    pub fn has_cached(&self) -> bool {
        !self.open.is_empty()
    }

    /// Finds the file that a target names, in the cache or by opening it.
    fn find(&mut self, target: &str, clock: &Clock) -> Result<Arc<OpenFile>, Miss> {
        let encoded = path_of(target).strip_prefix(PREFIX);
        let encoded = encoded.ok_or(Miss::Status(Status::NotFound))?;
        if !path::decode(encoded.as_bytes(), &mut self.name) {
            return Err(Miss::Status(Status::NotFound));
        }
        let is_index = self.name.is_empty() || self.name.ends_with(b"/");
        if is_index {
            let index = self.index.as_ref();
            self.name
                .extend_from_slice(index.ok_or(Miss::Status(Status::NotFound))?);
        }
        let now_ms = clock.monotonic_ms();
        if let Some(file) = self.open.get(&self.name, now_ms) {
            return Ok(file);
        }
        let file = self.open_named(clock);
        match &file {
            Ok(file) => self.open.insert(&self.name, file, now_ms),
            Err(_) => self.open.remove(&self.name),
        }
        match file {
            // A redirect would lead to a target with `//`, which is not a name.
            Err(Miss::Directory) if is_index => Err(Miss::Status(Status::NotFound)),
            file => file,
        }
    }

    fn open_named(&mut self, clock: &Clock) -> Result<Arc<OpenFile>, Miss> {
        let now = clock.unix_seconds();
        let opened = match self.open_once(now) {
            // Clearing the cache frees descriptors for a second attempt.
            Err(Errno::MFILE | Errno::NFILE) if self.open.clear() => self.open_once(now),
            opened => opened,
        };
        match opened {
            Ok(Some(file)) => Ok(Arc::new(file)),
            Ok(None) if self.index.is_some() => Err(Miss::Directory),
            Ok(None) => Err(Miss::Status(Status::NotFound)),
            Err(error) => Err(Miss::Status(status_of(error))),
        }
    }

    /// Opens the file of the current name. `now` is in Unix seconds. Returns `None` if it is a
    /// directory.
    fn open_once(&self, now: i64) -> rustix::io::Result<Option<OpenFile>> {
        let mut file = None;
        let found = self.outside.value("file", || {
            let fd = self.root.open_file(&self.name);
            let found = fd.and_then(|fd| Found::of(file.insert(File::from(fd))));
            found.map_err(Errno::raw_os_error)
        });
        let Some(found) = found.map_err(Errno::from_raw_os_error)? else {
            return Ok(None);
        };
        let file = match file {
            Some(file) => file,
            // A replay sends no bytes of the file.
            None => File::open("/dev/null")
                .expect("a replay opens as many files as the recorded worker: raise ulimit -n"),
        };
        Ok(Some(OpenFile::new(file, found, &self.name, now)))
    }
}

/// Opens the directory of `--root`.
///
/// # Errors
///
/// One line that names the option.
fn open_root(path: &Path) -> io::Result<Root> {
    Root::open(path).map_err(|error| {
        let error = io::Error::from(error);
        let message = format!("--root {}: {error}", path.display());
        io::Error::new(error.kind(), message)
    })
}

fn select(request: &Request, fields: &Fields<'_>, file: &OpenFile) -> (Status, Selection) {
    // Ranges are only for GET (RFC 9110, section 14.2).
    if request.head_only || !range_applies(fields, &file.etag, file.modified) {
        return (Status::Ok, Selection::Whole);
    }
    let selection = range::select(fields.range(), file.size);
    let status = match selection {
        Selection::Whole => Status::Ok,
        Selection::Part(_) => Status::PartialContent,
        Selection::Unsatisfiable => Status::RangeNotSatisfiable,
    };
    (status, selection)
}

fn status_of(error: Errno) -> Status {
    match error {
        // No file has the name, or the file is outside of the root, or not regular. A symbolic link
        // is LOOP or MLINK if links are not followed.
        Errno::NOENT
        | Errno::NOTDIR
        | Errno::XDEV
        | Errno::LOOP
        | Errno::MLINK
        | Errno::NAMETOOLONG
        | Errno::NXIO
        | Errno::NODEV
        | Errno::ILSEQ
        | Errno::INVAL
        | Errno::STALE => Status::NotFound,
        // A mode or an ACL (ACCESS), or a policy such as SELinux or a sandbox (PERM).
        Errno::ACCESS | Errno::PERM => Status::Forbidden,
        // Descriptors or memory have run out. AGAIN: a rename, perhaps of another file, disturbed
        // each of the attempts that `root` makes to open a file.
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => Status::ServiceUnavailable,
        _ => Status::InternalServerError,
    }
}
