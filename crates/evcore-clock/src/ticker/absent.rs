//! The ticker of systems without `timerfd`, which always fails.

use std::{os::fd::OwnedFd, time::Duration};

use rustix::io::Errno;

use super::TickerError;

pub(super) fn start(_: Duration) -> Result<OwnedFd, TickerError> {
    Err(TickerError::Unsupported)
}

pub(super) fn read(_: &OwnedFd) -> rustix::io::Result<u64> {
    Err(Errno::NOSYS)
}
