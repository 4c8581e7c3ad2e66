//! Marks that show another process which connections are idle: one byte for each descriptor, in
//! shared memory.
//!
//! This process may die at any instruction. A descriptor store, which is a process that keeps the
//! idle connections of a dead worker, then reads the marks. So each change is one store
//! instruction. A mark becomes busy before the program gets a step of the connection, and 0 before
//! the descriptor can be closed.

use std::{
    fmt,
    os::fd::{AsRawFd, RawFd},
    sync::atomic::{AtomicU8, Ordering::Release},
};

use evcore_poller::Target;

pub(crate) struct IdleMarks {
    marks: &'static [AtomicU8],
    /// The descriptor of the connection of each index.
    descriptors: Vec<RawFd>,
    /// The indices of the connections with a step in this iteration of the loop.
    touched: Vec<u32>,
}

impl IdleMarks {
    pub(crate) fn new(marks: &'static [AtomicU8]) -> Self {
        Self {
            marks,
            descriptors: Vec::new(),
            touched: Vec::new(),
        }
    }

    pub(crate) fn begin(&mut self, index: u32, target: Target<'_>) {
        let index = index as usize;
        if self.descriptors.len() <= index {
            self.descriptors.resize(index + 1, NO_DESCRIPTOR);
        }
        self.descriptors[index] = number(target);
        self.store(index, BUSY);
    }

    /// Removes the mark of a connection whose descriptor may be closed next.
    pub(crate) fn end(&mut self, index: u32) {
        self.store(index as usize, NO_CONNECTION);
        if let Some(descriptor) = self.descriptors.get_mut(index as usize) {
            *descriptor = NO_DESCRIPTOR;
        }
    }

    pub(crate) fn set_idle(&self, index: u32) {
        self.store(index as usize, IDLE);
    }

    pub(crate) fn set_busy(&self, index: u32) {
        self.store(index as usize, BUSY);
    }

    /// Marks a connection as busy, because a step of it is about to be yielded.
    pub(crate) fn touch(&mut self, index: u32) {
        self.set_busy(index);
        self.touched.push(index);
    }

    pub(crate) fn end_turn(&mut self, is_idle: impl Fn(u32) -> bool) {
        while let Some(index) = self.touched.pop() {
            if is_idle(index) {
                self.set_idle(index);
            }
        }
    }

    #[inline]
    fn store(&self, index: usize, mark: u8) {
        let descriptor = self.descriptors.get(index).copied();
        let number = descriptor.and_then(|number| usize::try_from(number).ok());
        if let Some(place) = number.and_then(|number| self.marks.get(number)) {
            place.store(mark, Release);
        }
    }
}

const NO_CONNECTION: u8 = 0;
const IDLE: u8 = 1;
const BUSY: u8 = 2;

const NO_DESCRIPTOR: RawFd = -1;

fn number(target: Target<'_>) -> RawFd {
    match target {
        Target::Descriptor(fd) => fd.as_raw_fd(),
        Target::Simulated(number) => RawFd::try_from(number).unwrap_or(NO_DESCRIPTOR),
    }
}

impl fmt::Debug for IdleMarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdleMarks").finish_non_exhaustive()
    }
}
