//! Makes the worker group of a real server, with descriptors that wake its members.

use std::io;

use crate::{
    group::WorkerGroup,
    notify_fd::NotifyFd,
    policy::Policy,
    worker_id::{MAX_WORKERS, check_workers},
};

impl WorkerGroup {
    /// The largest number of workers in a group: 4096.
    pub const MAX_WORKERS: usize = MAX_WORKERS;

    /// Makes a group for the workers of a server under this policy.
    ///
    /// `workers` is the number of the supervisor's slots, from 1 to
    /// [`MAX_WORKERS`](Self::MAX_WORKERS). It is larger than the number of workers if a reload
    /// starts new workers before the old ones have ended. Each slot costs a cache line. If the
    /// policy [uses a group](Policy::uses_group), each slot also costs a descriptor in every
    /// worker, or two if the system has no eventfd.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if `workers` is out of range. Otherwise the
    /// error of the operating system, if it has no memory or descriptors left.
    pub fn new(policy: Policy, workers: usize) -> io::Result<Self> {
        check_workers("group", workers)?;
        let notified = if policy.uses_group() { workers } else { 0 };
        let notifiers = (0..notified).map(|_| NotifyFd::new());
        Self::from_parts(policy, workers, notifiers.collect::<io::Result<_>>()?)
    }
}
