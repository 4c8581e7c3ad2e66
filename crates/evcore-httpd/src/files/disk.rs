//! Files that are not in memory are read by a thread before the loop sends them, so that a slow
//! disk does not block the loop.
//!
//! Before a chunk of a file is sent, its first and its last byte are read without waiting
//! (`preadv2` with `RWF_NOWAIT`). If the kernel would have to wait for the disk, a thread of a pool
//! reads the chunk, so that the kernel keeps it in memory. Chunks that were found in memory are
//! remembered while the file is open, so that the checks cost little.
//!
//! The loop may still wait for the disk. If memory is short, the kernel may drop a chunk, or its
//! middle, between the check and the sending. The loop itself opens files, and reads their
//! directories. Some file systems cannot read without waiting, and systems other than Linux have no
//! such call.

use std::{
    collections::VecDeque,
    io,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use evcore::{Acceptor, EventLoop, Token};
use evcore_recording::{Outside, RecordedPool};

use super::OpenFile;
use crate::headroom::Headroom;

/// The size of a chunk, which is the unit of checking, reading and sending.
pub const CHUNK_BYTES: u64 = 1024 * 1024;

/// Number of threads. A disk serves a few reads at a time better than one read at a time.
pub const THREADS: usize = 4;

/// The bytes that a thread takes of a limit on the memory of the process: its stack, and the heap
/// that glibc reserves for it.
const THREAD_BYTES: usize = (2 + 64) * 1024 * 1024;

/// The time until the next attempt to start threads that could not start, in milliseconds.
const RETRY_AFTER_MS: u64 = 1_000;

const BUFFER_BYTES: usize = 64 * 1024;

/// The maximum number of chunks in the pool, including those whose results the loop has not taken.
/// This many chunks keep the threads busy until the loop takes the results. Further connections
/// wait.
const MAX_READS: usize = 64;

/// The bit of the chunk at `offset` in `ChunksInMemory`; `None` for a chunk that is not among the
/// first 64.
fn bit_of(offset: u64) -> Option<u64> {
    1_u64.checked_shl(u32::try_from(offset / CHUNK_BYTES).ok()?)
}

pub fn left_in_chunk(offset: u64) -> u64 {
    CHUNK_BYTES - offset % CHUNK_BYTES
}

/// Returns whether these bytes of a file are a whole chunk, or the whole last chunk, which may be
/// shorter. A check of fewer bytes shows nothing about the rest of the chunk.
fn covers_chunk(offset: u64, count: u64, size: u64) -> bool {
    let end = offset + count;
    offset % CHUNK_BYTES == 0 && (end % CHUNK_BYTES == 0 || end == size)
}

/// The chunks that were found in memory, among the first 64 of a file.
#[derive(Debug, Default)]
pub struct ChunksInMemory(AtomicU64);

impl OpenFile {
    /// Returns whether these bytes of one chunk can probably be sent without waiting for the disk.
    pub fn is_in_memory(&self, outside: &Outside, offset: u64, count: u64) -> bool {
        let (known, bit) = (&self.in_memory.0, bit_of(offset).unwrap_or(0));
        if known.load(Relaxed) & bit != 0 {
            return true;
        }
        let is_in_memory = outside.value("in memory", || {
            can_read_now(self, offset) && can_read_now(self, offset + count - 1)
        });
        if is_in_memory && covers_chunk(offset, count, self.size) {
            known.fetch_or(bit, Relaxed);
        }
        is_in_memory
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskRead {
    #[default]
    None,
    Waiting,
    Running,
    Done,
}

#[derive(Debug)]
struct Piece {
    file: Arc<OpenFile>,
    offset: u64,
    count: u64,
}

impl Piece {
    /// Reads the bytes, and waits for the disk. An error is ignored, because the call that sends
    /// the bytes returns it, too.
    fn read(&self) {
        self.read_by(|buffer, offset| self.file.file.read_at(buffer, offset));
    }

    fn read_by(&self, read_at: impl Fn(&mut [u8], u64) -> io::Result<usize>) {
        let (mut offset, end) = (self.offset, self.offset + self.count);
        let mut buffer = vec![0; BUFFER_BYTES];
        while offset < end {
            match read_at(&mut buffer, offset) {
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
    // After any other error the answer is not known, or the file cannot be read.
    read != Err(Errno::AGAIN)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn can_read_now(_file: &OpenFile, _offset: u64) -> bool {
    true
}

/// The threads of a worker that read from the disk. They start when they are first needed.
#[derive(Debug, Default)]
pub struct DiskReads {
    pool: Option<RecordedPool<Token, ()>>,
    /// The time from which threads may be started, in milliseconds of the loop's clock.
    starts_at_ms: u64,
    /// The connections whose piece is in the pool. A job does not own its piece: if the piece is no
    /// longer here, the job does nothing, and no file stays open for it.
    submitted: Vec<(Token, Arc<Piece>)>,
    /// The connections for which the pool had no room, in order of arrival.
    // Invariant: if connections wait, the pool is full, and its next result makes room.
    waiting: VecDeque<Token>,
}

impl DiskReads {
    /// Lets a thread read a piece for a connection, or adds the connection to those that wait.
    /// Returns [`DiskRead::None`] if there are no threads, because there is no memory for them or
    /// the system starts none.
    pub fn submit<L: Acceptor>(
        &mut self,
        ev: &EventLoop<L>,
        (headroom, outside): (&mut Headroom, &Outside),
        token: Token,
        file: &Arc<OpenFile>,
        (offset, count): (u64, u64),
    ) -> DiskRead {
        if self.pool.is_none() {
            let handle = outside.handle(ev.handle());
            let start = || outside.pool(THREADS, MAX_READS, handle).ok();
            self.start(ev.clock().monotonic_ms(), headroom, start);
        }
        let Some(pool) = &mut self.pool else {
            // Without threads, the loop itself reads the bytes when it sends them.
            return DiskRead::None;
        };
        let piece = Arc::new(Piece {
            file: Arc::clone(file),
            offset,
            count,
        });
        let submitted = Arc::downgrade(&piece);
        let job = move || {
            if let Some(piece) = submitted.upgrade() {
                piece.read();
            }
        };
        if pool.submit(token, job).is_err() {
            self.waiting.push_back(token);
            return DiskRead::Waiting;
        }
        self.submitted.push((token, piece));
        DiskRead::Running
    }

    /// Starts the threads if there is memory for them and the last failure is not too recent.
    fn start(
        &mut self,
        now_ms: u64,
        headroom: &mut Headroom,
        start: impl FnOnce() -> Option<RecordedPool<Token, ()>>,
    ) {
        if now_ms < self.starts_at_ms {
            return;
        }
        if headroom.allows_uncounted(THREADS * THREAD_BYTES) {
            self.pool = start();
        }
        self.starts_at_ms = now_ms + RETRY_AFTER_MS;
    }

    /// Returns a connection whose piece was read. Call it until it returns `None`, and then
    /// [`next_waiting`](Self::next_waiting).
    pub fn next_done(&mut self) -> Option<Token> {
        loop {
            let (token, _) = self.pool.as_mut()?.next_result()?;
            // A connection that is closed was removed from the list.
            let is_open = |(submitted, _): &(Token, _)| *submitted == token;
            if let Some(position) = self.submitted.iter().position(is_open) {
                self.submitted.swap_remove(position);
                return Some(token);
            }
        }
    }

    /// Returns a connection that waits, if the pool has room, and removes it. Call it until it
    /// returns `None`.
    pub fn next_waiting(&mut self) -> Option<Token> {
        let has_room = self.pool.as_ref()?.len() < MAX_READS;
        has_room.then(|| self.waiting.pop_front())?
    }

    /// Removes a connection that is closed. O(n) in the number of waiting connections.
    pub fn cancel(&mut self, token: Token) {
        self.submitted.retain(|(submitted, _)| *submitted != token);
        self.waiting.retain(|waiting| *waiting != token);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        sync::{Mutex, PoisonError},
    };

    use evcore::pool::Pool;

    use super::*;
    use crate::files::tests::open_file;

    type Jobs = Arc<Mutex<VecDeque<Box<dyn FnOnce() + Send>>>>;

    /// A pool without threads, and its queue.
    fn reads() -> (DiskReads, Jobs) {
        let jobs = Jobs::default();
        let queue = Arc::clone(&jobs);
        let pool = Pool::simulated(
            MAX_READS,
            || {},
            move |job| {
                let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                queue.push_back(Box::new(|| job(None)));
            },
        );
        let reads = DiskReads {
            pool: Some(pool.into()),
            ..DiskReads::default()
        };
        (reads, jobs)
    }

    fn run_next(jobs: &Jobs) {
        let mut jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.pop_front().expect("a job")();
    }

    #[test]
    fn a_connection_waits_while_the_queue_is_full() {
        let mut ev = EventLoop::builder().build().expect("a poller");
        let (mut reads, jobs) = reads();
        let mut headroom = Headroom::new(Outside::Direct);
        let file = open_file();
        let mut token = || ev.add_unwatched().expect("a token");
        let first = token();
        let others: Vec<_> = (1..MAX_READS).map(|_| token()).collect();
        let late = [token(), token(), token()];
        for token in [&[first], &others[..]].concat() {
            assert_eq!(
                reads.submit(&ev, (&mut headroom, &Outside::Direct), token, &file, (0, 1)),
                DiskRead::Running
            );
        }
        for token in late {
            assert_eq!(
                reads.submit(&ev, (&mut headroom, &Outside::Direct), token, &file, (0, 1)),
                DiskRead::Waiting
            );
        }
        assert_eq!(reads.next_waiting(), None);
        reads.cancel(late[0]);
        run_next(&jobs);
        assert_eq!(reads.next_waiting(), None, "the result is not taken");
        assert_eq!(reads.next_done(), Some(first));
        assert_eq!(reads.next_done(), None);
        // `late[1]` does not submit its chunk again, as if the chunk were in memory by now. So
        // `late[2]` gets the free place in the pool.
        assert_eq!(reads.next_waiting(), Some(late[1]));
        assert_eq!(reads.next_waiting(), Some(late[2]));
        assert_eq!(
            reads.submit(
                &ev,
                (&mut headroom, &Outside::Direct),
                late[2],
                &file,
                (0, 1)
            ),
            DiskRead::Running
        );
        assert_eq!(
            reads.submit(
                &ev,
                (&mut headroom, &Outside::Direct),
                late[1],
                &file,
                (0, 1)
            ),
            DiskRead::Waiting
        );
        assert_eq!(reads.next_waiting(), None);
    }

    #[test]
    fn a_read_for_a_closed_connection_is_left_out() {
        let mut ev = EventLoop::builder().build().expect("a poller");
        let (mut reads, jobs) = reads();
        let mut headroom = Headroom::new(Outside::Direct);
        let file = open_file();
        let tokens = [(); 2].map(|()| ev.add_unwatched().expect("a token"));
        for token in tokens {
            assert_eq!(
                reads.submit(&ev, (&mut headroom, &Outside::Direct), token, &file, (0, 1)),
                DiskRead::Running
            );
        }
        assert_eq!(Arc::strong_count(&file), 3);
        reads.cancel(tokens[0]);
        assert!(ev.remove(tokens[0]));
        assert_eq!(
            Arc::strong_count(&file),
            2,
            "a queued job keeps no file open"
        );
        run_next(&jobs);
        run_next(&jobs);
        assert_eq!(reads.next_done(), Some(tokens[1]));
        assert_eq!(reads.next_done(), None);
        assert_eq!(Arc::strong_count(&file), 1);
        assert!(reads.submitted.is_empty() && reads.waiting.is_empty());
    }

    #[test]
    fn threads_that_cannot_start_are_tried_after_a_second() {
        let mut reads = DiskReads::default();
        let mut trials = 0;
        for now_ms in [5, 6, 1_004, 1_005, 1_006] {
            let start = || {
                trials += 1;
                None
            };
            reads.start(now_ms, &mut Headroom::new(Outside::Direct), start);
        }
        assert_eq!(trials, 2);
        assert!(reads.pool.is_none());
    }

    #[test]
    fn threads_start_only_if_there_is_memory_for_them() {
        let mut headroom = Headroom::without_any();
        let start = || unreachable!("there is no memory");
        DiskReads::default().start(0, &mut headroom, start);
        assert_eq!(headroom.refused, 0, "no client is refused");
    }

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
        let file = open_file();
        let (offset, count) = (0, file.size);
        let piece = Piece {
            file: Arc::clone(&file),
            offset,
            count,
        };
        piece.read();
        assert!(file.is_in_memory(&Outside::Direct, 0, 2));
        assert_eq!(file.in_memory.0.load(Relaxed), 0);
        assert!(file.is_in_memory(&Outside::Direct, 0, file.size));
        assert_eq!(file.in_memory.0.load(Relaxed), 1);
    }

    #[test]
    fn a_thread_reads_the_whole_piece() {
        let piece = Piece {
            file: open_file(),
            offset: 3 * CHUNK_BYTES + 7,
            count: CHUNK_BYTES - 7,
        };
        // The longest and shorter reads, and a file that ends early.
        for (most, length) in [
            (usize::MAX, piece.count),
            (10_000, piece.count),
            (usize::MAX, 3 * BUFFER_BYTES as u64 + 5),
        ] {
            let end = piece.offset + length;
            let next = Cell::new(piece.offset);
            piece.read_by(|buffer, offset| {
                assert_eq!(offset, next.get(), "nothing is left out");
                let left = usize::try_from(end.saturating_sub(offset)).expect("a piece");
                let read = left.min(buffer.len()).min(most);
                next.set(offset + read as u64);
                Ok(read)
            });
            assert_eq!(next.get(), end);
        }
        let tries = Cell::new(0);
        piece.read_by(|_, _| {
            tries.set(tries.get() + 1);
            Err(io::ErrorKind::Other.into())
        });
        assert_eq!(tries.get(), 1, "the call that sends meets the error");
    }

    #[test]
    fn a_piece_ends_with_its_chunk() {
        assert_eq!(left_in_chunk(0), CHUNK_BYTES);
        assert_eq!(left_in_chunk(CHUNK_BYTES - 1), 1);
        assert_eq!(left_in_chunk(CHUNK_BYTES + 1), CHUNK_BYTES - 1);
    }
}
