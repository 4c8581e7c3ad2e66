//! Non-blocking writes to pipes, so that a hanging reader of a log does not block the server.

use std::{
    fs::{self, File, Metadata},
    io::{self, Write},
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::FileTypeExt,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags},
    io::{Errno, retry_on_intr},
};

/// The size of the largest atomic write to a pipe; BSD promises 512. Lines of several writers do not
/// mix if no line is longer.
pub const PIPE_BUF: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

/// Returns whether the file is a pipe, named or anonymous.
pub fn is_pipe(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.file_type().is_fifo())
}

/// A file to which a log is written. A write to a full pipe fails with `WouldBlock`. (A pipe that
/// cannot be opened in non-blocking mode, and has other writers, may still block.)
#[derive(Debug)]
pub struct LogFile {
    file: File,
    /// True for a pipe in blocking mode, which is asked for room before each write.
    is_blocking_pipe: bool,
}

impl LogFile {
    /// Uses an inherited descriptor. A pipe is opened a second time, in non-blocking mode. (Setting
    /// the mode of the inherited descriptor would set it for all processes that share it.) If that
    /// fails, for example because another user made the pipe, the descriptor itself is used.
    pub fn inherited(inherited: &(impl AsFd + AsRawFd)) -> io::Result<Self> {
        let file = File::from(inherited.as_fd().try_clone_to_owned()?);
        if !is_pipe(&file)? {
            return Ok(Self::from(file));
        }
        let path = PathBuf::from(format!("/proc/self/fd/{}", inherited.as_raw_fd()));
        // Usually, no later reader opens an anonymous pipe.
        let is_anonymous =
            fs::read_link(&path).is_ok_and(|link| link.to_string_lossy().starts_with("pipe:["));
        let opened = match is_anonymous {
            true => open(&path, OFlags::empty()),
            false => open_as_writer(&path, OFlags::empty()),
        };
        // A shortage passes, so the caller may try again.
        if let Some(error @ (Errno::MFILE | Errno::NFILE)) = errno(&opened) {
            return Err(error.into());
        }
        let is_blocking_pipe = opened.is_err();
        Ok(Self {
            file: opened.unwrap_or(file),
            is_blocking_pipe,
        })
    }

    pub fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// Waits until the file is writable. Returns `false` at the timeout or on an error.
    pub fn is_writable_within(&self, timeout: Duration) -> bool {
        let timeout = Timespec::try_from(timeout).expect("a short time");
        let mut fds = [PollFd::new(&self.file, PollFlags::OUT)];
        poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }
}

impl From<File> for LogFile {
    fn from(file: File) -> Self {
        Self {
            file,
            is_blocking_pipe: false,
        }
    }
}

impl Write for &LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_blocking_pipe {
            return (&self.file).write(bytes);
        }
        // A writable pipe has room for this many bytes, unless another process is faster.
        match self.is_writable_within(Duration::ZERO) {
            true => (&self.file).write(&bytes[..bytes.len().min(PIPE_BUF)]),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opens a file for appending, and creates it if it does not exist. A named pipe without a reader
/// is an error.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    open(path, OFlags::APPEND | OFlags::CREATE)
}

/// Like [`open_to_append`], but a named pipe needs no reader. The bytes that are written wait in
/// the pipe.
pub fn open_to_append_unread(path: &Path) -> io::Result<File> {
    open_as_writer(path, OFlags::APPEND | OFlags::CREATE)
}

/// Opens a file for writing, or for both if it is a named pipe without a reader.
fn open_as_writer(path: &Path, flags: OFlags) -> io::Result<File> {
    match open(path, flags) {
        // With a descriptor that may also read, this process is a reader itself.
        opened if errno(&opened) == Some(Errno::NXIO) => open_as(path, OFlags::RDWR),
        opened => opened,
    }
}

fn errno(opened: &io::Result<File>) -> Option<Errno> {
    opened.as_ref().err().and_then(Errno::from_io_error)
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
