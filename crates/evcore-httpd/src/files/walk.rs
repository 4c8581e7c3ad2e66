//! Opens a name beneath a directory, one component after another.
//!
//! Each component is opened in the directory before it, and a symbolic link is refused. So a name
//! without `..` cannot leave the directory, whatever is renamed meanwhile.

use std::os::fd::{AsFd, OwnedFd};

use rustix::{
    fs::{Mode, OFlags, openat},
    io::{self, Errno, retry_on_intr},
};

/// The flags to open a directory whose entries are opened next. On Linux, this needs no permission
/// to list the directory.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub const DIRECTORY_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Opens the file of this name, with these flags. Holds at most one other descriptor meanwhile.
pub fn open_beneath(dir: &OwnedFd, name: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    let mut components = name.split(|byte| *byte == b'/').peekable();
    let mut at: Option<OwnedFd> = None;
    while let Some(component) = components.next() {
        // The callers' names have no such component, but this function does not rely on that.
        if matches!(component, b"" | b"." | b"..") {
            return Err(Errno::NOENT);
        }
        let flags = if components.peek().is_some() {
            DIRECTORY_FLAGS
        } else {
            flags
        };
        let dir = at.as_ref().unwrap_or(dir).as_fd();
        let flags = flags.union(OFlags::NOFOLLOW);
        at = Some(retry_on_intr(|| {
            openat(dir, component, flags, Mode::empty())
        })?);
    }
    at.ok_or(Errno::NOENT)
}
