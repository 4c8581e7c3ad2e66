//! Files that are not in memory: a thread reads them first, so that a slow disk does not hold the loop.
//!
//! Before a chunk of a file is sent, the first and the last byte of the chunk are read without waiting
//! (`preadv2` with `RWF_NOWAIT`). If the kernel would have to wait for the disk, a thread of a pool
//! reads the chunk, so that the kernel keeps it in memory, and the chunk is sent after that. Which
//! chunks were found in memory is remembered while the file is open, at most a second for a file that
//! is kept for later requests; so the look costs little. A look at a part of a chunk, as a range needs
//! it, is not remembered, because it shows nothing of the rest.
//!
//! It remains possible that the loop waits for the disk: if memory is so short that the kernel drops a
//! chunk between the look and the sending, or the middle of a chunk alone; for the directories of a
//! name that is opened, which are small and stay in memory; on file systems that cannot read without
//! waiting, and on systems other than Linux.

use std::{
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use evcore::{Acceptor, EventLoop, ThreadPool, Token};

use super::OpenFile;

/// The unit of looking, reading and sending.
pub const CHUNK_BYTES: u64 = 1024 * 1024;

/// A disk serves a few reads at a time better than one.
const THREADS: usize = 4;

/// The most chunks that are read, or wait for a thread. More are sent without a look.
const MAX_READS: usize = 1024;

/// A chunk's bit; `None` beyond those that are remembered.
fn bit_of(offset: u64) -> Option<u64> {
    1_u64.checked_shl(u32::try_from(offset / CHUNK_BYTES).ok()?)
}

/// The bytes from `offset` to the end of its chunk.
pub fn left_in_chunk(offset: u64) -> u64 {
    CHUNK_BYTES - offset % CHUNK_BYTES
}

/// Whether these bytes of a file are a whole chunk, or the whole of what the file has of its last one.
fn covers_chunk(offset: u64, count: u64, size: u64) -> bool {
    let end = offset + count;
    offset % CHUNK_BYTES == 0 && (end % CHUNK_BYTES == 0 || end == size)
}

/// The chunks of a file that were found in memory, of the first 64.
#[derive(Debug, Default)]
pub struct ChunksInMemory(AtomicU64);

impl OpenFile {
    /// Whether these bytes of one chunk can be sent without waiting for the disk, as far as that is
    /// known.
    pub fn is_in_memory(&self, offset: u64, count: u64) -> bool {
        let (known, bit) = (&self.in_memory.0, bit_of(offset).unwrap_or(0));
        if known.load(Relaxed) & bit != 0 {
            return true;
        }
        let is_in_memory = can_read_now(self, offset) && can_read_now(self, offset + count - 1);
        if is_in_memory && covers_chunk(offset, count, self.size) {
            known.fetch_or(bit, Relaxed);
        }
        is_in_memory
    }

    /// Reads these bytes, and waits for the disk. Errors are left to the call that sends them.
    fn read(&self, mut offset: u64, count: u64) {
        let end = offset + count;
        let mut buffer = vec![0; 64 * 1024];
        while offset < end {
            match self.file.read_at(&mut buffer, offset) {
                Ok(n) if n > 0 => offset += n as u64,
                _ => return,
            }
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn can_read_now(file: &OpenFile, offset: u64) -> bool {
    use std::io::IoSliceMut;

    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    let mut byte = [0];
    let mut buffers = [IoSliceMut::new(&mut byte)];
    let read = preadv2(&file.file, &mut buffers, offset, ReadWriteFlags::NOWAIT);
    // Any other error: it is not known, or the file cannot be read.
    read != Err(Errno::AGAIN)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn can_read_now(_file: &OpenFile, _offset: u64) -> bool {
    true
}

/// The threads of a worker that read from the disk. They start when they are first needed.
#[derive(Debug, Default)]
pub struct DiskReads {
    pool: Option<ThreadPool<()>>,
}

impl DiskReads {
    /// Lets a thread read a chunk for a connection. Returns false if none can.
    pub fn submit<L: Acceptor>(
        &mut self,
        ev: &EventLoop<L>,
        token: Token,
        file: &Arc<OpenFile>,
        (offset, count): (u64, u64),
    ) -> bool {
        if self.pool.is_none() {
            // Without threads, the loop reads by sending.
            self.pool = ThreadPool::new(ev.handle(), THREADS, MAX_READS).ok();
        }
        let file = Arc::clone(file);
        self.pool
            .as_mut()
            .is_some_and(|pool| pool.submit(token, move || file.read(offset, count)).is_ok())
    }

    /// Returns a connection whose chunk was read. Call it until it returns `None`.
    pub fn next_done<L: Acceptor>(&mut self, ev: &mut EventLoop<L>) -> Option<Token> {
        let (token, _) = self.pool.as_mut()?.next_result(ev)?;
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn the_first_64_chunks_have_a_bit_each() {
        assert_eq!(bit_of(0), Some(1));
        assert_eq!(bit_of(CHUNK_BYTES - 1), Some(1));
        assert_eq!(bit_of(CHUNK_BYTES), Some(2));
        assert_eq!(bit_of(63 * CHUNK_BYTES), Some(1 << 63));
        assert_eq!(bit_of(64 * CHUNK_BYTES), None);
        assert_eq!(bit_of(u64::MAX), None);
    }

    #[test]
    fn a_part_of_a_chunk_shows_nothing_of_the_rest() {
        const SIZE: u64 = 2 * CHUNK_BYTES + 10;
        for (offset, count, expected) in [
            (0, CHUNK_BYTES, true),
            (CHUNK_BYTES, CHUNK_BYTES, true),
            (2 * CHUNK_BYTES, 10, true),
            (0, 2, false),
            (0, CHUNK_BYTES - 1, false),
            (1, CHUNK_BYTES - 1, false),
            (CHUNK_BYTES + 1, CHUNK_BYTES - 1, false),
            (2 * CHUNK_BYTES, 9, false),
            (2 * CHUNK_BYTES + 1, 9, false),
        ] {
            assert_eq!(
                covers_chunk(offset, count, SIZE),
                expected,
                "{offset}, {count}"
            );
        }
        assert!(covers_chunk(0, 5, 5));
    }

    #[test]
    fn a_look_at_a_part_of_a_chunk_is_not_remembered() {
        let file = File::open("Cargo.toml").expect("cargo runs the tests beside it");
        let file = OpenFile::new(file.into(), b"a", i64::MAX).expect("it can be looked at");
        let file = file.expect("it is not a directory");
        // The page is in memory from here on.
        file.read(0, file.size);
        assert!(file.is_in_memory(0, 2));
        assert_eq!(file.in_memory.0.load(Relaxed), 0);
        assert!(file.is_in_memory(0, file.size));
        assert_eq!(file.in_memory.0.load(Relaxed), 1);
    }

    #[test]
    fn a_piece_ends_with_its_chunk() {
        assert_eq!(left_in_chunk(0), CHUNK_BYTES);
        assert_eq!(left_in_chunk(CHUNK_BYTES - 1), 1);
        assert_eq!(left_in_chunk(CHUNK_BYTES + 1), CHUNK_BYTES - 1);
    }
}
