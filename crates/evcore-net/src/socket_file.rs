//! The file of a Unix listener.
//!
//! The kernel makes the file when the socket is bound, and never removes it. So the file outlives
//! its server, and the path stays taken. Only connecting shows whether a server still listens.

use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, connect};

use crate::sys;

/// The file of a Unix [`Listener`](crate::Listener). Its method [`remove`](Self::remove) does
/// nothing if another file has replaced this one.
///
/// Closing a listener leaves its file, because other processes may share the listener. The last
/// process that serves it removes the file, such as a master that outlives its workers and has not
/// handed the listener to a new binary. If no process removes it, the next listener at that path
/// finds the file stale and replaces it.
///
/// # Examples
///
/// ```
/// use evcore_net::{Address, Listener};
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
    /// Absolute, because the server may change its directory.
    path: PathBuf,
    identity: Identity,
}

impl SocketFile {
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

    /// The absolute path of the file, which may have been removed meanwhile.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file, unless it is gone or another file has replaced it. Returns whether it
    /// removed the file.
    ///
    /// So an old server that ends late does not remove the socket of its successor at the same
    /// path. A successor that binds between the check and the removal loses its file, because no
    /// system call does both. The successor's listener stays open, but no client can find it any
    /// more.
    ///
    /// # Errors
    ///
    /// The error of the file system, for example if this process may not write to the directory.
    pub fn remove(&self) -> io::Result<bool> {
        let found = match fs::symlink_metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        if Identity::of(&found) != self.identity {
            return Ok(false);
        }
        fs::remove_file(&self.path)?;
        Ok(true)
    }
}

/// Distinguishes a file from a later one at the same path.
///
/// The inode number alone is not enough, because file systems reuse it.
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

/// Returns whether no server listens on the socket at `name`. If so, connecting to it is refused.
///
/// A server that listens sees a client that connects and leaves. On some systems other than Linux,
/// a server with a full backlog refuses too, and counts as stale.
pub(crate) fn is_stale(name: &SocketAddrUnix) -> Result<bool, Errno> {
    match connect(sys::unix_socket()?, name) {
        Err(Errno::CONNREFUSED) => Ok(true),
        // The backlog is full, or the socket has another type, or belongs to another user.
        Err(Errno::AGAIN | Errno::INPROGRESS | Errno::PROTOTYPE | Errno::ACCESS) | Ok(()) => {
            Ok(false)
        }
        Err(errno) => Err(errno),
    }
}

#[derive(Debug)]
pub(crate) enum AtPath {
    Socket(SocketFile),
    Other(&'static str),
}

pub(crate) fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

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
