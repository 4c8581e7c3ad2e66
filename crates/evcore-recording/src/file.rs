//! Creates the file of a recording, and maps it into memory.
#![allow(
    unsafe_code,
    reason = "a map of a file is memory that others could change"
)]

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use memmap2::MmapMut;

const WRITE_BYTES: usize = 1 << 20;

/// Creates a file of this size that only its owner may read, and maps it.
///
/// Bytes that are written into the map are in the file, even if the process is killed.
pub(crate) fn create(path: &Path, bytes: usize) -> io::Result<MmapMut> {
    // Another process may still have mapped an older file at this path, so the new file replaces
    // that file instead of truncating it. The older file stays if the disk has no room for the new
    // one.
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = Path::new(&new);
    let file = zeros(new, bytes).and_then(|file| std::fs::rename(new, path).map(|()| file));
    let file = file.inspect_err(|_| _ = std::fs::remove_file(new))?;
    // SAFETY: the file is new and its mode is 0600, so no other user can change it, and this
    // process has no other map of it. The recorder only writes plain bytes into the map.
    unsafe { MmapMut::map_mut(&file) }
}

/// A new file of zeros. Its blocks are allocated now, because otherwise a full disk would later end
/// the process by SIGBUS.
fn zeros(path: &Path, bytes: usize) -> io::Result<File> {
    if let Err(error) = std::fs::remove_file(path) {
        if error.kind() != io::ErrorKind::NotFound {
            return Err(error);
        }
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let mut file = options.open(path)?;
    let zeros = vec![0; bytes.min(WRITE_BYTES)];
    for written in (0..bytes).step_by(WRITE_BYTES) {
        file.write_all(&zeros[..zeros.len().min(bytes - written)])?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use evcore_testing::Scratch;

    use super::*;

    #[test]
    fn a_new_file_replaces_an_old_one_and_a_failure_keeps_the_old_one() {
        let directory = Scratch::new("recording-file");
        let path = directory.file("recording");
        std::fs::write(&path, "old").unwrap();
        // A directory where the new file should be.
        let new = directory.file("recording.new");
        std::fs::create_dir(&new).unwrap();
        assert!(create(&path, 100).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        std::fs::remove_dir(&new).unwrap();
        create(&path, 3_000_000).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), vec![0; 3_000_000]);
        assert!(!new.exists());
    }
}
