//! The names of the backends, the same on every system.
//!
//! A program that names a backend compiles everywhere, and gets an error on a system without it.

use std::{fmt, str::FromStr};

/// A kernel interface.
///
/// ```
/// use evcore_poller::{Error, BackendKind, Poller};
///
/// for kind in BackendKind::usable() {
///     assert_eq!(Poller::with(kind)?.backend().name(), kind.to_string());
/// }
/// if let Err(error) = Poller::with(BackendKind::EventPorts) {
///     assert!(matches!(error, Error::Absent { kind: BackendKind::EventPorts }));
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
    /// Returns the backends of this system, best first: the order in which
    /// [`Poller::new`](crate::Poller::new) tries them. [`EpollMasked`](Self::EpollMasked) and
    /// [`IoUring`](Self::IoUring) are the last, behind those that every kernel permits: only a program
    /// that names them gets them.
    ///
    /// The running kernel may still refuse one: see [`usable`](Self::usable).
    #[must_use]
    pub const fn available() -> &'static [Self] {
        crate::sys::AVAILABLE
    }

    /// Returns the [available](Self::available) backends that the running kernel permits. Opens and
    /// closes each, in a thread of its own. Opening `io_uring` includes a call of `io_uring_enter`,
    /// which a sandbox may deny by itself. A backend that fails for too few descriptors or too little
    /// memory counts as permitted: this passes.
    ///
    /// ```
    /// use evcore_poller::BackendKind;
    ///
    /// assert!(BackendKind::usable().contains(&BackendKind::Poll));
    /// ```
    ///
    /// # Panics
    ///
    /// If no thread can be started.
    #[must_use]
    pub fn usable() -> Vec<Self> {
        let usable = || {
            let available = Self::available().iter().copied();
            available
                .filter(|kind| is_permitted(&crate::poller::Poller::with(*kind)))
                .collect()
        };
        // When a ring is closed, the kernel interrupts the thread that has opened it.
        let usable = std::thread::spawn(usable).join();
        usable.expect("opening a poller does not panic")
    }

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

/// Parses the name of a backend of this system. The error lists the names.
impl FromStr for BackendKind {
    type Err = ParseBackendError;

    fn from_str(name: &str) -> Result<Self, ParseBackendError> {
        let known = Self::available().iter().find(|kind| kind.name() == name);
        known.copied().ok_or_else(|| ParseBackendError {
            name: name.to_owned(),
        })
    }
}

/// The error of parsing a [`BackendKind`]: no backend of this system has that name.
///
/// ```
/// let error = "completion".parse::<evcore_poller::BackendKind>().unwrap_err();
/// assert!(error.to_string().starts_with("this system has no backend \"completion\""));
/// ```
#[derive(Debug, thiserror::Error)]
#[error("this system has no backend {name:?}; there are: {}", names())]
pub struct ParseBackendError {
    name: String,
}

/// Whether the kernel has not refused the backend.
fn is_permitted(opened: &Result<crate::poller::Poller, crate::error::Error>) -> bool {
    match opened {
        Ok(_) => true,
        Err(error) => error.is_exhaustion(),
    }
}

/// The backends of this system: `epoll, poll, select, epoll-masked`.
pub(crate) fn names() -> String {
    let names: Vec<_> = BackendKind::available()
        .iter()
        .map(|kind| kind.name())
        .collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use evcore_testing::unless_refused;

    use super::*;
    use crate::{Error, Poller};

    const ALL: [BackendKind; 8] = [
        BackendKind::Epoll,
        BackendKind::Kqueue,
        BackendKind::EventPorts,
        BackendKind::DevPoll,
        BackendKind::Poll,
        BackendKind::Select,
        BackendKind::EpollMasked,
        BackendKind::IoUring,
    ];

    #[test]
    fn a_backend_without_descriptors_is_usable() {
        let opened = |errno| Err(Error::os("epoll_create1")(errno));
        assert!(is_permitted(&opened(rustix::io::Errno::MFILE)));
        assert!(is_permitted(&opened(rustix::io::Errno::NOMEM)));
        assert!(!is_permitted(&opened(rustix::io::Errno::NOSYS)));
    }

    #[test]
    fn an_absent_backend_is_an_error_that_lists_the_others() {
        for kind in ALL {
            let here = BackendKind::available().contains(&kind);
            assert_eq!(kind.name().parse::<BackendKind>().is_ok(), here, "{kind}");
            if !here {
                let error = Poller::with(kind).expect_err("it is absent");
                assert!(matches!(error, Error::Absent { .. }));
                let expected = format!("this system has no {kind}; there are: {}", names());
                assert_eq!(error.to_string(), expected);
            }
        }
    }

    /// Other tests run for the usable backends alone, so a broken one must not be left out of them.
    #[test]
    fn a_backend_that_is_not_usable_was_refused_by_the_kernel() {
        let usable = BackendKind::usable();
        for kind in BackendKind::available() {
            let opened =
                std::thread::spawn(|| Poller::with(*kind).map(|poller| poller.backend().name()));
            match unless_refused(opened.join().expect("no panic")) {
                Some(name) => assert!(name == kind.name() && usable.contains(kind)),
                None => assert!(*kind == BackendKind::IoUring && !usable.contains(kind)),
            }
        }
    }
}
