//! The names of the backends, the same on every system.
//!
//! A program that names a backend compiles everywhere, and gets an error on a system without it.

use std::fmt;

/// A kernel interface.
///
/// ```
/// use evcore_poller::{Error, BackendKind, Poller};
///
/// for kind in BackendKind::usable() {
///     assert_eq!(Poller::with(kind)?.backend().name(), kind.to_string());
/// }
/// if let Err(error) = Poller::with(BackendKind::EventPorts) {
///     assert!(matches!(error, Error::Absent { kind: BackendKind::EventPorts, .. }));
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackendKind {
    /// Linux. The cost of a wait grows with what is ready, not with what is watched.
    Epoll,
    /// macOS and the BSDs. The cost of a wait grows with what is ready.
    Kqueue,
    /// illumos and Solaris. The cost of a wait grows with what is ready.
    EventPorts,
    /// illumos and Solaris: `/dev/poll`, the predecessor of [`EventPorts`](Self::EventPorts). The cost
    /// of a wait grows with what is ready.
    DevPoll,
    /// Every Unix. The cost of a wait grows with what is watched.
    Poll,
    /// Every Unix except illumos. Only descriptors below 1024; the cost of a wait grows with the
    /// highest of them.
    Select,
    /// Linux, for tests of programs that use [`Mode::Edge`](crate::Mode::Edge): epoll that keeps
    /// `Edge` by masking, as poll, select, event ports and /dev/poll do.
    ///
    /// A side that was reported stays silent until [`Poller::rearm`](crate::Poller::rearm). So a
    /// program that forgets a `rearm` waits for ever, where [`Epoll`](Self::Epoll) reports new data
    /// and hides the mistake. Each report of an `Edge` costs one system call, and each answer another.
    EpollMasked,
    /// Linux 6.1 and later, where the system permits it. Registrations, changes and the wait are one
    /// system call for up to some twenty wake-ups. The cost of a wait grows with what is ready. Use it with
    /// [`Mode::Edge`](crate::Mode::Edge); [`Poller::new`](crate::Poller::new) does not choose it.
    ///
    /// A watched file stays open until it is removed, also if its descriptor is closed, or until the
    /// poller is dropped; and for a moment after its process has ended. If the poller is dropped in
    /// another thread than that of its last wait, it takes a moment too. When a poller is dropped, the
    /// kernel interrupts its thread once, a moment later: a call that it does not restart (such as
    /// another `epoll_wait`) fails with `EINTR`. A [`wait`](crate::Poller::wait) goes on.
    ///
    /// It has no [exclusive registrations](crate::Mode::Exclusive): a connection wakes every
    /// worker that watches the listener, and all but one of them call `accept` for nothing. With four
    /// workers and one client at a time, a connection took 3.0 to 4.1 calls, and 2.2 to 2.3 with epoll's
    /// exclusive registrations. Let one worker at a time watch the listener (an accept lock), or give
    /// each worker a listener of its own (`SO_REUSEPORT`).
    IoUring,
}

impl BackendKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::Kqueue => "kqueue",
            Self::EventPorts => "port",
            Self::DevPoll => "devpoll",
            Self::Poll => "poll",
            Self::Select => "select",
            Self::EpollMasked => "epoll-masked",
            Self::IoUring => "io_uring",
        }
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Lists the names: `epoll, poll, select, epoll-masked`.
pub(crate) fn names(kinds: &[BackendKind]) -> String {
    let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
    names.join(", ")
}
