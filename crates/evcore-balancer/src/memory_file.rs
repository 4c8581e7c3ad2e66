//! A file that is in memory only, and goes with its last descriptor: for what is to outlive `exec`.

use std::{io, os::fd::OwnedFd};

use crate::header::{HEADER_BYTES, Header, Kind, unfit};

/// A new file: the header, and zeros behind it. Its size cannot change any more.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(crate) fn create(header: Header) -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("evcore", flags)?;
    ftruncate(&file, header.file_bytes() as u64)?;
    // Who maps a file that shrinks afterwards is killed when it looks.
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    rustix::io::pwrite(&file, &header.to_bytes(), 0)?;
    Ok(file)
}

/// There is no such file here.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(crate) fn create(_header: Header) -> io::Result<OwnedFd> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "this system has no files in memory, so nothing can be inherited across exec; \
         use what is shared across fork",
    ))
}

/// What the header of a file says, if the file is what is wanted.
pub(crate) fn check(file: &OwnedFd, kind: Kind, item_bytes: usize) -> io::Result<Header> {
    let size = rustix::fs::fstat(file)?.st_size;
    let mut bytes = [0; HEADER_BYTES];
    let read = rustix::io::pread(file, &mut bytes, 0)?;
    if read < HEADER_BYTES {
        let why = format!("it has {size} bytes, too few for a header");
        return Err(unfit("shared memory", why));
    }
    let size = u64::try_from(size).unwrap_or_default();
    Header::read(&bytes, size, kind, item_bytes)
}
