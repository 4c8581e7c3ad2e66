//! Keeps some memory free below a limit on the memory of the process (`ulimit -v`, `ulimit -d`).
//!
//! In Rust, a small allocation that fails ends the process with all its connections. So memory for
//! clients is allocated only if enough stays free for allocations that cannot be refused, such as
//! the tables of the event loop. From time to time a trial finds out whether enough is free: it
//! allocates the memory, and frees it at once. In a process without a limit, there are no trials.

use std::hint::black_box;

use evcore_recording::Outside;
use rustix::process::{Resource, getrlimit};

/// The bytes that must stay free in addition to the memory for the tables.
const SPARE_BYTES: usize = 2 * 1024 * 1024;

/// The memory that the largest table takes for a connection when the table grows, in bytes.
const TABLE_PER_CONNECTION: usize = 256;

/// The memory that may be allocated between two trials, in bytes.
const PER_TRIAL: usize = 256 * 1024;

/// The memory that a new connection may allocate before it sends a body, in bytes.
const PER_CONNECTION: usize = 2 * 1024;

/// A trial allocates its memory in this many pieces, because fragmented memory may have no large
/// block.
const PIECES: usize = 64;

const LIMITS: &[Resource] = &[
    // OpenBSD has no limit on the address space.
    #[cfg(not(target_os = "openbsd"))]
    Resource::As,
    Resource::Data,
];

/// The headroom of one worker.
#[derive(Debug)]
pub struct Headroom {
    is_limited: bool,
    spare: usize,
    /// The memory that may be allocated before the next trial, in bytes.
    left: usize,
    /// The number of connections for which there was memory for the tables.
    connections: usize,
    /// Number of times that memory was refused.
    pub refused: u64,
    outside: Outside,
}

impl Headroom {
    /// Creates the headroom for the memory limits of this process.
    pub fn new(outside: Outside) -> Self {
        let is_limited = |&limit: &Resource| getrlimit(limit).current.is_some();
        Self {
            is_limited: outside.value("memory limit", || LIMITS.iter().any(is_limited)),
            spare: SPARE_BYTES,
            left: 0,
            connections: 0,
            refused: 0,
            outside,
        }
    }

    /// The headroom of a process whose limit leaves nothing.
    #[cfg(test)]
    pub fn without_any() -> Self {
        Self {
            is_limited: true,
            spare: usize::MAX / 4,
            ..Self::new(Outside::Direct)
        }
    }

    #[inline]
    pub fn allows(&mut self, bytes: usize) -> bool {
        !self.is_limited || self.try_out(bytes, 0)
    }

    #[inline]
    pub fn allows_connection(&mut self, open: usize) -> bool {
        !self.is_limited || self.try_out_connection(open)
    }

    /// Returns whether this many bytes may be allocated for a purpose other than a client. A
    /// refusal is not counted.
    pub fn allows_uncounted(&mut self, bytes: usize) -> bool {
        // The allocation may use up the memory that the last trial has found.
        self.left = 0;
        !self.is_limited || self.is_available(bytes + self.spare, 0)
    }

    #[cold]
    fn try_out_connection(&mut self, open: usize) -> bool {
        if open < self.connections {
            return self.try_out(PER_CONNECTION, 0);
        }
        let connections = open + open / 8 + 16;
        self.left = 0;
        let is_allowed = self.try_out(PER_CONNECTION, connections * TABLE_PER_CONNECTION);
        if is_allowed {
            self.connections = connections;
        }
        is_allowed
    }

    #[cold]
    fn try_out(&mut self, bytes: usize, table: usize) -> bool {
        if bytes > self.left {
            if !self.is_available(bytes + PER_TRIAL + self.spare, table) {
                self.left = 0;
                self.refused += 1;
                return false;
            }
            self.left = bytes + PER_TRIAL;
        }
        self.left -= bytes;
        true
    }

    fn is_available(&self, bytes: usize, table: usize) -> bool {
        self.outside.value("memory", || is_available(bytes, table))
    }
}

/// Returns whether this much memory is available in pieces, together with a table in one piece.
fn is_available(bytes: usize, table: usize) -> bool {
    let mut trial = [const { Vec::<u8>::new() }; PIECES + 1];
    let sizes = std::iter::once(table).chain([bytes / PIECES; PIECES]);
    let mut pieces = trial.iter_mut().zip(sizes);
    let is_available = pieces.all(|(piece, size)| piece.try_reserve_exact(size).is_ok());
    // Without this, the compiler may remove the allocations, which are not used.
    black_box(&trial);
    is_available
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_allowed() {
        let mut headroom = Headroom {
            is_limited: true,
            spare: 1024,
            ..Headroom::new(Outside::Direct)
        };
        assert!((0..10).all(|_| headroom.allows(PER_TRIAL)));
        assert!((0..1000).all(|open| headroom.allows_connection(open)));
        assert_eq!(headroom.refused, 0);
    }

    #[test]
    fn nothing_is_allowed_if_the_spare_is_not_available() {
        let mut headroom = Headroom::without_any();
        assert!(!headroom.allows(1));
        assert!(!headroom.allows_connection(0));
        assert_eq!(headroom.refused, 2);
        assert!(!headroom.allows_uncounted(1));
        assert_eq!(headroom.refused, 2);
    }
}
