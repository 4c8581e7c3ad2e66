//! A file that is in memory only, and goes with its last descriptor: for what is to outlive `exec`.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::{
    header::{HEADER_BYTES, Header, Kind, unfit},
    refusal::refused,
};

/// A new file: the header, and zeros behind it. Its size cannot change any more.
pub(crate) fn create(header: Header) -> io::Result<OwnedFd> {
    let size = header.file_bytes() as u64;
    let doing = format_args!("making a file of {size} bytes in memory (memfd_create)");
    imp::create(&header.to_bytes(), size).map_err(refused(doing))
}

/// What the header of a file says, if the file is what is wanted.
pub(crate) fn check(file: &OwnedFd, kind: Kind, item_bytes: usize) -> io::Result<Header> {
    let refuse = |why: &str| Err(unfit(kind.name(), why.to_owned()));
    // Before the size is read: what is sealed by now has that size for good.
    let is_sealed = imp::cannot_shrink(file.as_fd())?;
    let found = fstat(file)?;
    if let Some(name) = name_of_no_file(FileType::from_raw_mode(found.st_mode)) {
        return refuse(&format!("it is {name}, and no file in memory"));
    }
    if !is_open_for_both(file.as_fd())? {
        return refuse("it is not open for reading and writing");
    }
    if !is_sealed {
        return refuse("it could still be shrunk by another process, which kills who looks at it");
    }
    // It came through an exec; what this process starts is not to get it unasked.
    fcntl_setfd(file, FdFlags::CLOEXEC)?;
    let mut bytes = [0; HEADER_BYTES];
    let read = rustix::io::pread(file, &mut bytes, 0)?;
    let size = u64::try_from(found.st_size).unwrap_or_default();
    if read < HEADER_BYTES {
        return refuse(&format!("it has {size} bytes, too few for a header"));
    }
    Header::read(&bytes, size, kind, item_bytes)
}

/// What to call a descriptor that is of no file; `None` for one of a file.
fn name_of_no_file(found: FileType) -> Option<&'static str> {
    match found {
        FileType::RegularFile => None,
        FileType::Directory => Some("a directory"),
        FileType::Fifo => Some("a pipe"),
        FileType::Socket => Some("a socket"),
        FileType::CharacterDevice | FileType::BlockDevice => Some("a device"),
        // What has no place in a file system: an eventfd, an epoll.
        _ => Some("a descriptor of another kind"),
    }
}

fn is_open_for_both(file: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(fcntl_getfl(file)? & OFlags::RWMODE == OFlags::RDWR)
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
mod imp {
    use std::{
        io,
        os::fd::{BorrowedFd, OwnedFd},
    };

    use rustix::{
        fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create},
        io::Errno,
    };

    pub(super) fn create(beginning: &[u8], size: u64) -> io::Result<OwnedFd> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("evcore", flags)?;
        ftruncate(&file, size)?;
        // Who maps a file that shrinks afterwards is killed when it looks.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        rustix::io::pwrite(&file, beginning, 0)?;
        Ok(file)
    }

    pub(super) fn cannot_shrink(file: BorrowedFd<'_>) -> io::Result<bool> {
        match fcntl_get_seals(file) {
            Ok(seals) => Ok(seals.contains(SealFlags::SHRINK)),
            // Only files in memory have seals.
            Err(Errno::INVAL | Errno::BADF) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
mod imp {
    use std::{
        io,
        os::fd::{BorrowedFd, OwnedFd},
    };

    pub(super) fn create(_beginning: &[u8], _size: u64) -> io::Result<OwnedFd> {
        Err(unsupported())
    }

    pub(super) fn cannot_shrink(_file: BorrowedFd<'_>) -> io::Result<bool> {
        Err(unsupported())
    }

    fn unsupported() -> io::Error {
        io::Error::new(
            io::ErrorKind::Unsupported,
            "this system has no files in memory whose size can be sealed, so nothing can be \
             inherited across exec; use what is shared across fork",
        )
    }
}
