//! The real parts of the kernel models: they poll the waker's descriptor, and let time pass.

#![allow(unsafe_code, reason = "a real descriptor is polled by its number")]

use std::{
    os::fd::{BorrowedFd, RawFd},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Returns whether the real descriptor `fd`, which is open, has something to read.
pub(super) fn is_readable(fd: RawFd) -> bool {
    // SAFETY: the backend owns the waker and makes this call. So `fd` is open, and the borrow ends
    // with the call.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now)) == Ok(1)
}

/// Lets real time pass, as a call that waits does.
pub(super) fn pass(time: Duration) {
    let time = Timespec::try_from(time).expect("milliseconds");
    let passed = poll(&mut [], Some(&time));
    assert_eq!(passed, Ok(0), "there is nothing to report");
}
