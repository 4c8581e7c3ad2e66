//! Pipes whose writers do not wait for their readers.
//!
//! A process that reads a log may hang; the server that writes it is to serve on.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::FileTypeExt,
    },
    path::Path,
};

use rustix::fs::{Mode, OFlags};

/// What a pipe takes whole or not at all, on Linux, so that lines of several writers do not mix.
pub const MOST_AT_ONCE: usize = 4096;

/// Whether it is a pipe, with a name or without one.
pub fn is_pipe(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.file_type().is_fifo())
}

/// Opens a pipe that was inherited once more, so that writing to it does not wait. (To change the
/// descriptor that is there would change it for all processes that have it.) `None`: it is no pipe,
/// nobody reads it, or the system has no `/proc`.
pub fn open_again(inherited: &(impl AsFd + AsRawFd)) -> Option<File> {
    let file = File::from(inherited.as_fd().try_clone_to_owned().ok()?);
    if !is_pipe(&file).ok()? {
        return None;
    }
    let path = format!("/proc/self/fd/{}", inherited.as_raw_fd());
    open(path.as_ref(), OFlags::empty()).ok()
}

/// Opens a file for appending, and makes it if it is not there. A named pipe that nobody reads is an
/// error.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    open(path, OFlags::APPEND | OFlags::CREATE)
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    // What the file mode creation mask leaves of it, as the standard library has it.
    let mode = Mode::from_raw_mode(0o666);
    Ok(File::from(rustix::fs::open(path, flags, mode)?))
}
