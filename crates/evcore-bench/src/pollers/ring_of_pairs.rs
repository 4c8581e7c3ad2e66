//! libevent's benchmark: bytes that go round a ring of pairs.
//!
//! Each event is one byte, which is read and, as long as there are writes left, passed on to the
//! next pair. All peers (the libraries that are compared) call the C library's `read` and `write`
//! for this, so the instructions of both are in the count of each peer. Peers in C use the function
//! `serve` of `c/loop.h`.

#![allow(unsafe_code, reason = "it calls the C library, as the peers in C do")]

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Pairs of non-blocking sockets. A byte written to a far end can be read from the near end of the
/// same index. The near ends are watched.
#[derive(Debug)]
pub(crate) struct Pairs {
    pub(crate) near: Vec<OwnedFd>,
    pub(crate) far: Vec<OwnedFd>,
}

impl Pairs {
    pub(super) fn open(n: usize) -> Pairs {
        let open_one = |_| {
            let (near, far) = UnixStream::pair().expect("descriptors are left");
            for end in [&near, &far] {
                end.set_nonblocking(true).expect("a socket can be that");
            }
            (near.into(), far.into())
        };
        let (near, far) = (0..n).map(open_one).unzip();
        Pairs { near, far }
    }
}

#[derive(Debug)]
pub(crate) struct Ring<'a> {
    pub(crate) pairs: &'a Pairs,
    /// Number of bytes that will still be passed on.
    pub(crate) writes: usize,
    /// Number of events that will still come.
    pub(crate) left: usize,
}

impl<'a> Ring<'a> {
    /// Writes the first bytes to `active` pairs at equal distances. The run has `events` events, at
    /// least one for each of these pairs.
    pub(super) fn start(pairs: &'a Pairs, active: usize, events: usize) -> Ring<'a> {
        let distance = pairs.far.len() / active.max(1);
        for far in pairs.far.iter().step_by(distance).take(active) {
            write_byte(far);
        }
        Ring {
            pairs,
            writes: events - active,
            left: events,
        }
    }

    pub(super) fn idle(pairs: &'a Pairs) -> Ring<'a> {
        Ring::start(pairs, 0, 0)
    }

    /// Reads the byte of a pair, and passes a byte on to the next pair.
    ///
    /// This method is always inlined, as in a Rust program that handles each event in the body of
    /// its own loop. In C, the equivalent function is inlined into the callback.
    #[inline(always)]
    pub(super) fn serve(&mut self, index: usize) {
        let next = if index + 1 == self.pairs.near.len() {
            0
        } else {
            index + 1
        };
        self.left -= 1;
        read_byte(&self.pairs.near[index]);
        if self.writes > 0 {
            self.writes -= 1;
            write_byte(&self.pairs.far[next]);
        }
    }

    /// The time until a timer's deadline: 10 to 11 seconds.
    #[inline]
    pub(super) fn delay(&self) -> Duration {
        let ms = 10_000 + self.left * 7_919 % 1_000;
        Duration::from_millis(ms as u64)
    }

    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }
}

#[inline]
fn read_byte(fd: &OwnedFd) {
    let mut byte = 0u8;
    let place = std::ptr::from_mut(&mut byte).cast();
    // SAFETY: there is a place for one byte.
    let read = unsafe { libc::read(fd.as_raw_fd(), place, 1) };
    assert_eq!(read, 1, "the pair has no byte");
}

#[inline]
fn write_byte(fd: &OwnedFd) {
    // SAFETY: there is one byte.
    let written = unsafe { libc::write(fd.as_raw_fd(), [0u8].as_ptr().cast(), 1) };
    assert_eq!(written, 1, "a byte fits");
}
