//! The file that a Unix listener leaves in the file system.
//!
//! The kernel makes it when the socket is bound, and never removes it: so it outlives its server,
//! and its name is taken. Whether anybody listens behind it can only be found out by connecting.

use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, connect};

use crate::sys;

/// The file of a Unix [`Listener`](crate::Listener), known well enough to remove it and no other
/// that takes its place later.
///
/// Closing a listener leaves its file: the process that closes it may be one of several that share
/// it. Whoever is the last to serve removes it: a master that outlives its workers, say, unless it
/// has handed the listener to a new binary. Where nobody does, the next listener at that path finds
/// that the file is stale, and replaces it.
///
/// # Examples
///
/// ```
/// use evcore_accept::{Address, Listener};
///
/// let path = std::env::temp_dir().join(format!("socket-file-{}", std::process::id()));
/// let listener = Listener::bind(Address::Unix(path.clone()))?;
/// let file = listener.file().cloned().expect("a Unix listener has a file");
///
/// drop(listener);
/// assert!(path.exists());
/// assert!(file.remove()?, "it was still the file of that listener");
/// assert!(!path.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketFile {
    /// Absolute, since a server may go to another directory.
    path: PathBuf,
    identity: Identity,
}

impl SocketFile {
    /// What is at `path` now.
    pub(crate) fn at(path: &Path) -> Result<AtPath, Errno> {
        let found = fs::symlink_metadata(path).map_err(|error| errno_of(&error))?;
        let kind = found.file_type();
        if !kind.is_socket() {
            return Ok(AtPath::Other(name_of(kind)));
        }
        Ok(AtPath::Socket(Self {
            path: std::path::absolute(path).map_err(|error| errno_of(&error))?,
            identity: Identity::of(&found),
        }))
    }

    /// Where the file is, or was: an absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file, unless it is gone or another has taken its place; returns whether it did.
    ///
    /// So an old server that ends late does not take away the socket of the one that has replaced
    /// it at the same path. (One that does so in the very moment between the look and the removal
    /// is beyond what the system offers.) Listeners stay open, and nobody finds them any more.
    ///
    /// # Errors
    ///
    /// The file system's: the directory may not be this process's to write to.
    pub fn remove(&self) -> io::Result<bool> {
        let there = match fs::symlink_metadata(&self.path) {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if Identity::of(&there) != self.identity {
            return Ok(false);
        }
        fs::remove_file(&self.path)?;
        Ok(true)
    }
}

/// What tells a file from another that has come to be at its path.
///
/// The number alone does not: file systems give it to the next file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    modified: (i64, i64),
}

impl Identity {
    fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            modified: (file.mtime(), file.mtime_nsec()),
        }
    }
}

/// Whether nobody listens at `name`, although there is a socket: connecting to it is refused.
///
/// A server that does listen sees a client that comes and goes. On systems descended from BSD one
/// whose backlog is full refuses as well.
pub(crate) fn is_stale(name: &SocketAddrUnix) -> Result<bool, Errno> {
    match connect(sys::unix_socket()?, name) {
        Err(Errno::CONNREFUSED) => Ok(true),
        // Its backlog is full, it is a socket of another type, or of another user.
        Err(Errno::AGAIN | Errno::INPROGRESS | Errno::PROTOTYPE | Errno::ACCESS) | Ok(()) => {
            Ok(false)
        }
        Err(errno) => Err(errno),
    }
}

/// What is at a path.
#[derive(Debug)]
pub(crate) enum AtPath {
    Socket(SocketFile),
    /// Something else, by its name.
    Other(&'static str),
}

/// The system's number of an error that came through the standard library.
pub(crate) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// What to call a file that is no socket.
fn name_of(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "a directory"
    } else if kind.is_file() {
        "a regular file"
    } else if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_fifo() {
        "a named pipe"
    } else {
        "a device"
    }
}
