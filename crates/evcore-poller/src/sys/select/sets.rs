//! The three sets of `select`, and the call itself.

#![allow(unsafe_code, reason = "select takes descriptors by number")]

use std::{os::fd::RawFd, time::Duration};

use rustix::{
    event::{
        FdSetElement, FdSetIter, Timespec, fd_set_bound, fd_set_insert, fd_set_num_elements,
        fd_set_remove,
    },
    io::Errno,
};

use crate::{interest::Interest, ready::Ready};

/// The number of descriptors in a set, from 0 on: the `FD_SETSIZE` of nearly all systems (NetBSD's
/// is 256, but its kernel accepts more).
pub(super) const SIZE: usize = 1024;

const WORDS: usize = SIZE.div_ceil(8 * size_of::<FdSetElement>());

type Set = [FdSetElement; WORDS];

/// The readiness of each descriptor below [`SIZE`]: what to watch for or, after a call, what was
/// found.
#[derive(Clone)]
pub(super) struct Sets {
    read: Set,
    write: Set,
    priority: Set,
}

impl Sets {
    pub(super) fn new() -> Self {
        let empty = [FdSetElement::default(); WORDS];
        Self {
            read: empty,
            write: empty,
            priority: empty,
        }
    }

    /// Watches `fd` for `interest`, and for nothing else.
    pub(super) fn set(&mut self, fd: RawFd, interest: Interest) {
        let sides = [
            (&mut self.read, Interest::READ),
            (&mut self.write, Interest::WRITE),
            (&mut self.priority, Interest::PRIORITY),
        ];
        for (set, side) in sides {
            if interest.contains(side) {
                fd_set_insert(set, fd);
            } else {
                fd_set_remove(set, fd);
            }
        }
    }

    /// One more than the highest descriptor.
    pub(super) fn bound(&self) -> RawFd {
        let sets = [&self.read, &self.write, &self.priority];
        let bounds = sets.map(|set| fd_set_bound(set));
        bounds.into_iter().max().unwrap_or(0)
    }

    /// Keeps only ready descriptors. Makes one system call. `timeout` must fit into a timespec.
    pub(super) fn select(&mut self, timeout: Option<Duration>) -> Result<usize, Errno> {
        let bound = self.bound();
        // The sets are as short as the highest descriptor allows, because the kernel copies them in
        // and out.
        let words = fd_set_num_elements(SIZE, bound);
        let timeout =
            timeout.map(|timeout| Timespec::try_from(timeout).expect("a chunk is at most 24 days"));
        // SAFETY: each set holds `words` elements, which is what `bound` needs. The user keeps a
        // descriptor open while it is registered. If the user does not, the kernel returns EBADF or
        // watches another file with that number. No memory is touched.
        let found = unsafe {
            rustix::event::select(
                bound,
                Some(&mut self.read[..words]),
                Some(&mut self.write[..words]),
                Some(&mut self.priority[..words]),
                timeout.as_ref(),
            )
        }?;
        Ok(usize::try_from(found).unwrap_or(0))
    }

    /// Iterates over the found readiness, one descriptor and one side at a time.
    pub(super) fn iter(&self) -> impl Iterator<Item = (RawFd, Ready)> {
        let sides = [
            (&self.read, Ready::READABLE),
            (&self.write, Ready::WRITABLE),
            (&self.priority, Ready::PRIORITY),
        ];
        sides
            .into_iter()
            .flat_map(|(set, bit)| FdSetIter::new(set).map(move |fd| (fd, bit)))
    }
}
