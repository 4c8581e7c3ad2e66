//! Non-blocking writes to pipes, so that a hanging reader of a log does not block the server.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::FileTypeExt,
    },
    path::Path,
};

use rustix::{
    fs::{Mode, OFlags},
    io::{Errno, retry_on_intr},
};

/// The size of the largest atomic write to a pipe on Linux. Lines of several writers do not mix if
/// no line is longer.
pub const PIPE_BUF: usize = 4096;

/// Returns whether the file is a pipe, named or anonymous.
pub fn is_pipe(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.file_type().is_fifo())
}

/// Opens an inherited pipe a second time, in non-blocking mode. (Setting the mode of the inherited
/// descriptor would set it for all processes that share it.)
///
/// Returns `None` if the descriptor is not a pipe, or if the pipe cannot be opened again, for
/// example because it has no reader or the system has no `/proc`.
pub fn reopen_nonblocking(inherited: &(impl AsFd + AsRawFd)) -> Option<File> {
    let file = File::from(inherited.as_fd().try_clone_to_owned().ok()?);
    if !is_pipe(&file).ok()? {
        return None;
    }
    let path = format!("/proc/self/fd/{}", inherited.as_raw_fd());
    open(path.as_ref(), OFlags::empty()).ok()
}

/// Opens a file for appending, and creates it if it does not exist. A named pipe without a reader
/// is an error.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    open(path, OFlags::APPEND | OFlags::CREATE)
}

/// Like [`open_to_append`], but a named pipe needs no reader. The bytes that are written wait in
/// the pipe.
pub fn open_to_append_unread(path: &Path) -> io::Result<File> {
    match open_to_append(path) {
        // With a descriptor that may also read, this process is a reader itself.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => {
            open_as(path, OFlags::RDWR)
        }
        opened => opened,
    }
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    open_as(path, flags | OFlags::WRONLY)
}

fn open_as(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC;
    // The umask reduces this mode, as in the standard library.
    let mode = Mode::from_raw_mode(0o666);
    let opened = retry_on_intr(|| rustix::fs::open(path, flags, mode));
    Ok(File::from(opened?))
}
