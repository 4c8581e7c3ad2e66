//! The file of a recording, as memory.
#![allow(
    unsafe_code,
    reason = "a map of a file is memory that others could change"
)]

use std::{
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use memmap2::MmapMut;

/// The size of a write.
const WRITE_BYTES: usize = 1 << 20;

/// Creates a file of this size that only its owner may read, and maps it.
///
/// Bytes that are written into the map are in the file, even if the process is killed.
pub(crate) fn create(path: &Path, bytes: usize) -> io::Result<MmapMut> {
    let mut options = OpenOptions::new();
    // Another process may still have mapped an older file at this path, so that file is unlinked and not
    // truncated.
    if let Err(error) = std::fs::remove_file(path) {
        if error.kind() != io::ErrorKind::NotFound {
            return Err(error);
        }
    }
    let mut file = options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    // The blocks are allocated now, because otherwise a full disk would later end the process by SIGBUS.
    let zeros = vec![0; bytes.min(WRITE_BYTES)];
    for written in (0..bytes).step_by(WRITE_BYTES) {
        file.write_all(&zeros[..zeros.len().min(bytes - written)])?;
    }
    // SAFETY: the file is new and its mode is 0600, so no other user can change it, and this process
    // has no other map of it. The recorder only writes plain bytes into the map.
    unsafe { MmapMut::map_mut(&file) }
}
