//! The directory beneath which files are opened.
//!
//! On Linux, since 5.6, the kernel resolves a name beneath the directory in one call (`openat2`
//! with `RESOLVE_BENEATH`). It follows symbolic links that are relative and do not leave the
//! directory, and no rename during the call leads outside. On other systems, and where the kernel
//! or a sandbox refuses `openat2`, `walk` opens one component after another, and follows no
//! symbolic link at all.
//!
//! A FIFO or a device is opened for a moment, without waiting, because only an open file can be
//! examined without a race.

use std::{os::fd::OwnedFd, path::Path};

use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::{self, Errno, retry_on_intr},
};

use super::walk::{self, DIRECTORY_FLAGS};

/// The flags to open a file. The open does not wait for a FIFO's writer, and a terminal does not
/// become the controlling terminal of the server.
pub const FILE_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    is_resolved_by_kernel: bool,
}

impl Root {
    /// Opens a directory, whose path may have symbolic links.
    ///
    /// # Errors
    ///
    /// The errors of `openat`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let dir = retry_on_intr(|| openat(CWD, path, DIRECTORY_FLAGS, Mode::empty()))?;
        Ok(Self {
            is_resolved_by_kernel: kernel::is_available(&dir),
            dir,
        })
    }

    #[cfg(test)]
    pub fn walked(mut self) -> Self {
        self.is_resolved_by_kernel = false;
        self
    }

    /// Opens the file of this name for reading. The file may be of any kind. A directory is opened
    /// even if it cannot be read.
    ///
    /// # Errors
    ///
    /// The errors of `openat2` or `openat`.
    pub fn open_file(&self, name: &[u8]) -> io::Result<OwnedFd> {
        match self.open_with(name, FILE_FLAGS) {
            // A directory that may be searched but not listed can still have files to serve.
            Err(Errno::ACCESS) => self
                .open_with(name, DIRECTORY_FLAGS)
                .map_err(|_| Errno::ACCESS),
            opened => opened,
        }
    }

    fn open_with(&self, name: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        if self.is_resolved_by_kernel {
            kernel::open_beneath(&self.dir, name, flags)
        } else {
            walk::open_beneath(&self.dir, name, flags)
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod kernel {
    use std::os::fd::OwnedFd;

    use rustix::{
        fs::{Mode, OFlags, ResolveFlags, openat2},
        io::{self, Errno},
    };

    use super::DIRECTORY_FLAGS;

    /// The number of attempts to resolve a name. A rename meanwhile may make an attempt fail.
    const ATTEMPTS: u32 = 8;

    /// A magic link, which a mount of `/proc` beneath the root would have, is refused, because it
    /// can lead anywhere.
    const RESOLVE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

    /// Returns whether `openat2` works here. A sandbox may refuse it by EPERM or ENOSYS.
    pub fn is_available(dir: &OwnedFd) -> bool {
        open(dir, b".", DIRECTORY_FLAGS).is_ok()
    }

    pub fn open_beneath(dir: &OwnedFd, name: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        for _ in 1..ATTEMPTS {
            match open(dir, name, flags) {
                // The kernel could not rule out that a rename has led outside.
                Err(Errno::AGAIN) => {}
                opened => return opened,
            }
        }
        open(dir, name, flags)
    }

    fn open(dir: &OwnedFd, name: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        rustix::io::retry_on_intr(|| openat2(dir, name, flags, Mode::empty(), RESOLVE))
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod kernel {
    use std::os::fd::OwnedFd;

    use rustix::{
        fs::OFlags,
        io::{self, Errno},
    };

    pub fn is_available(_dir: &OwnedFd) -> bool {
        false
    }

    pub fn open_beneath(_dir: &OwnedFd, _name: &[u8], _flags: OFlags) -> io::Result<OwnedFd> {
        Err(Errno::NOSYS)
    }
}
