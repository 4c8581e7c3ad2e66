//! The set of registered descriptors. On every backend, a descriptor can be registered only once.
//!
//! Kernels treat a second registration of one descriptor differently. epoll refuses it, unless the
//! first file was closed meanwhile. kqueue and event ports replace the first registration,
//! `/dev/poll` adds to it, and poll reports both. The poller refuses the second one before it calls
//! the kernel. So a program that closes a descriptor without removing it gets an error when it
//! registers the next file with that number.

use std::os::fd::RawFd;

use crate::growth;

/// Numbers below this are bits in a table of at most 2 MiB. Systems assign the lowest free number,
/// so higher ones are rare.
const DENSE: usize = 1 << 24;

#[derive(Debug, Default)]
pub(crate) struct FdSet {
    dense: Vec<u64>,
    /// The other numbers: those from [`DENSE`] on, and negative ones.
    others: Vec<RawFd>,
}

impl FdSet {
    /// Returns whether the table has a bit for this descriptor. A descriptor among the `others` has
    /// none.
    #[inline]
    pub(crate) fn has_room(&self, fd: RawFd) -> bool {
        place(fd).is_some_and(|(word, _)| word < self.dense.len())
    }

    /// Makes the table long enough for this descriptor, unless it belongs to the `others`.
    pub(crate) fn make_room(&mut self, fd: RawFd) {
        if let Some((word, _)) = place(fd) {
            growth::lengthen(&mut self.dense, word + 1, 0);
        }
    }

    /// Adds a descriptor, after [`make_room`](Self::make_room). Returns whether it is new.
    #[inline]
    pub(crate) fn insert(&mut self, fd: RawFd) -> bool {
        let Some((word, bit)) = place(fd) else {
            return self.insert_other(fd);
        };
        let bits = &mut self.dense[word];
        let is_new = *bits & bit == 0;
        *bits |= bit;
        is_new
    }

    #[inline]
    pub(crate) fn remove(&mut self, fd: RawFd) {
        match place(fd) {
            Some((word, bit)) => self.dense[word] &= !bit,
            None => self.remove_other(fd),
        }
    }

    #[cold]
    #[inline(never)]
    fn insert_other(&mut self, fd: RawFd) -> bool {
        let is_new = !self.others.contains(&fd);
        if is_new {
            self.others.push(fd);
        }
        is_new
    }

    #[cold]
    #[inline(never)]
    fn remove_other(&mut self, fd: RawFd) {
        self.others.retain(|other| *other != fd);
    }

    #[cfg(test)]
    pub(crate) fn contains(&self, fd: RawFd) -> bool {
        match place(fd) {
            Some((word, bit)) => self.dense.get(word).is_some_and(|bits| bits & bit != 0),
            None => self.others.contains(&fd),
        }
    }
}

#[inline]
fn place(fd: RawFd) -> Option<(usize, u64)> {
    let fd = usize::try_from(fd).ok().filter(|fd| *fd < DENSE)?;
    Some((fd / 64, 1 << (fd % 64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn some_descriptor() -> impl Strategy<Value = RawFd> {
        let edge = RawFd::try_from(DENSE).expect("it is one");
        prop_oneof![
            0..130,
            edge - 2..edge + 2,
            -3..0,
            RawFd::MAX - 1..=RawFd::MAX
        ]
    }

    proptest! {
        #[test]
        fn an_fd_set_matches_a_btree_set(
            steps in prop::collection::vec((some_descriptor(), any::<bool>()), 0..60)
        ) {
            let (mut set, mut oracle) = (FdSet::default(), BTreeSet::new());
            for (fd, insert) in steps {
                prop_assert_eq!(set.contains(fd), oracle.contains(&fd));
                if insert {
                    set.make_room(fd);
                    prop_assert_eq!(set.insert(fd), oracle.insert(fd));
                } else if oracle.remove(&fd) {
                    set.remove(fd);
                }
                prop_assert_eq!(set.contains(fd), oracle.contains(&fd));
            }
        }
    }
}
