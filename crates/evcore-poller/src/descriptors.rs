//! The descriptors that are registered: each of them once, whatever the backend.
//!
//! Kernels differ in what a second registration of one descriptor means: epoll refuses it (unless
//! the first was closed meanwhile), kqueue and event ports replace the first, poll reports both.
//! To refuse it everywhere, before the kernel is asked, also keeps a number that was closed and
//! reused from being mistaken for what it was before.

use std::os::fd::RawFd;

/// Numbers below are bits in a table (of 2 MiB at most); systems give out the lowest that is free,
/// so others are few.
const DENSE: usize = 1 << 24;

/// A set of descriptors.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    dense: Vec<u64>,
    /// Those from [`DENSE`] on, and the negative, which are registered as long as nothing is asked.
    others: Vec<RawFd>,
}

impl Descriptors {
    pub(crate) fn insert(&mut self, fd: RawFd) {
        let Some((word, bit)) = place(fd) else {
            self.others.push(fd);
            return;
        };
        if self.dense.len() <= word {
            self.dense.resize(word + 1, 0);
        }
        self.dense[word] |= bit;
    }

    pub(crate) fn remove(&mut self, fd: RawFd) {
        match place(fd) {
            Some((word, bit)) => self.dense[word] &= !bit,
            None => self.others.retain(|other| *other != fd),
        }
    }

    pub(crate) fn contains(&self, fd: RawFd) -> bool {
        match place(fd) {
            Some((word, bit)) => self.dense.get(word).is_some_and(|bits| bits & bit != 0),
            None => self.others.contains(&fd),
        }
    }
}

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
        fn it_holds_what_was_inserted_and_not_removed(
            steps in prop::collection::vec((some_descriptor(), any::<bool>()), 0..60)
        ) {
            let (mut set, mut oracle) = (Descriptors::default(), BTreeSet::new());
            for (fd, insert) in steps {
                prop_assert_eq!(set.contains(fd), oracle.contains(&fd));
                if insert && oracle.insert(fd) {
                    set.insert(fd);
                } else if !insert && oracle.remove(&fd) {
                    set.remove(fd);
                }
                prop_assert_eq!(set.contains(fd), oracle.contains(&fd));
            }
        }
    }
}
