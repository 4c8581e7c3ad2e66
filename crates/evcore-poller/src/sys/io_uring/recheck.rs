//! Checks readiness that may be stale. A call of `poll` does this when the unchecked events would
//! fill the buffer, and when no more completions can be taken.

use std::time::Duration;

use rustix::io::Errno;

use super::IoUring;
use crate::{events::Events, interest::Mode, ready::Ready, sys::poll_call};

impl IoUring {
    /// Reports the readiness that may be stale, if it still holds.
    #[inline]
    pub(super) fn check_readiness(&mut self, events: &mut Events) {
        if !self.unchecked.is_empty() {
            self.check(events);
        }
    }

    #[inline(never)]
    fn check(&mut self, events: &mut Events) {
        for &(id, _) in &self.unchecked {
            let row = self.table.row(id);
            self.poll_entries.push(libc::pollfd {
                fd: row.fd,
                events: row.flags_of_poll(),
                revents: 0,
            });
        }
        let poll_succeeded = poll_now(&mut self.poll_entries).is_ok();
        self.report_checked(poll_succeeded, events);
    }

    /// Reports the readiness that `poll` has found, or the claimed readiness if `poll` has failed.
    pub(super) fn report_checked(&mut self, poll_succeeded: bool, events: &mut Events) {
        for index in 0..self.unchecked.len() {
            let ((id, claimed), found) = (self.unchecked[index], self.poll_entries[index].revents);
            let row = self.table.row(id);
            let ready = if !poll_succeeded {
                claimed
            } else if found & libc::POLLNVAL != 0 {
                // The descriptor is closed. An error is reported, so that the event is not lost.
                Ready::ERROR
            } else {
                row.readiness(found.unsigned_abs().into())
            };
            if ready.is_empty() && row.mode == Mode::Oneshot {
                self.table.arm_again(id);
            }
            self.report(id, ready, events);
        }
        self.unchecked.clear();
        self.poll_entries.clear();
    }
}

fn poll_now(fds: &mut [libc::pollfd]) -> Result<(), Errno> {
    loop {
        match poll_call::poll(fds, Some(Duration::ZERO)) {
            Err(Errno::INTR) => {}
            found => return found.map(drop),
        }
    }
}
