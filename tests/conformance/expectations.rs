//! The backends under test, and the reports in which they differ.
//!
//! Each `match` lists all backends, so that a backend without an expectation does not compile.
//!
//! These backends have run: epoll (also with masked edges), `io_uring`, poll and select on Linux,
//! and the simulator's backend. Edges are *masked* if the poller emulates `Edge`: it does not watch
//! a reported side (reading or writing) until `rearm`. **Not run:** the expectations of kqueue, of
//! event ports, of `/dev/poll`, and of poll and select on systems other than Linux. They come from
//! the manual pages and the kernels' sources. The expectations of poll on macOS are incomplete,
//! because macOS reports `POLLHUP` for the end of either side, even after the socket's own
//! shutdown.

use evcore_poller::{BackendKind, Interest, Ready};

use crate::fixture::{ERROR, READ_CLOSED, READABLE, WRITABLE, WRITE_CLOSED};

/// Expands to `scenarios!(@callback module BackendKind args)` for each kernel's backend that this
/// system has.
macro_rules! each_kernel {
    ($callback:ident, $($args:tt)*) => {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        crate::scenarios!(@$callback epoll Epoll $($args)*);
        #[cfg(any(
            target_vendor = "apple",
            target_os = "freebsd",
            target_os = "netbsd",
            target_os = "openbsd",
        ))]
        crate::scenarios!(@$callback kqueue Kqueue $($args)*);
        #[cfg(any(target_os = "illumos", target_os = "solaris"))]
        crate::scenarios!(@$callback port EventPorts $($args)*);
        #[cfg(any(target_os = "illumos", target_os = "solaris"))]
        crate::scenarios!(@$callback devpoll DevPoll $($args)*);
        crate::scenarios!(@$callback poll Poll $($args)*);
        #[cfg(not(any(target_os = "illumos", target_os = "solaris")))]
        crate::scenarios!(@$callback select Select $($args)*);
        #[cfg(any(target_os = "linux", target_os = "android"))]
        crate::scenarios!(@$callback epoll_masked EpollMasked $($args)*);
        #[cfg(target_os = "linux")]
        crate::scenarios!(@$callback io_uring IoUring $($args)*);
    };
}
pub(crate) use each_kernel;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// epoll, also with masked edges.
    Epoll,
    IoUring,
    Kqueue,
    EventPorts,
    DevPoll,
    Poll,
    Select,
    /// The simulator's backend, in any of its shapes (sets of features).
    Simulated,
}

/// True on Linux, where the poll backend requests half-closes, and poll reports a broken pipe as an
/// error.
const LINUX: bool = cfg!(any(target_os = "linux", target_os = "android"));

impl Backend {
    pub(crate) fn of(kind: BackendKind) -> Self {
        match kind {
            BackendKind::Epoll | BackendKind::EpollMasked => Self::Epoll,
            BackendKind::IoUring => Self::IoUring,
            BackendKind::Kqueue => Self::Kqueue,
            BackendKind::EventPorts => Self::EventPorts,
            BackendKind::DevPoll => Self::DevPoll,
            BackendKind::Poll => Self::Poll,
            BackendKind::Select => Self::Select,
            unknown => panic!("{unknown}: the suite has no expectations for this backend"),
        }
    }

    /// The readiness that the backend reports under `interest` for a socket whose true readiness is
    /// `holds`.
    pub(crate) fn reported(self, holds: Ready, interest: Interest) -> Ready {
        let sides = READABLE | WRITABLE | Ready::PRIORITY;
        let no_half_close = sides | WRITE_CLOSED | ERROR;
        match self {
            Self::Epoll | Self::IoUring | Self::Simulated => holds,
            // Each filter reports the end of its own side.
            Self::Kqueue if interest.contains(Interest::WRITE) => holds,
            Self::Kqueue => holds & (sides | READ_CLOSED | ERROR),
            Self::Poll if LINUX => holds,
            Self::Poll | Self::EventPorts | Self::DevPoll => holds & no_half_close,
            // select has no bits for the end of a stream. It reports a side as ready after a
            // half-close, a hang-up or an error.
            Self::Select => holds & sides,
        }
    }

    /// The ways in which a stream ends (half-close, hang-up, error) that the backend reports for an
    /// `Edge` registration that has reported and was not rearmed.
    pub(crate) fn ends_behind_a_report(self) -> Ready {
        match self {
            Self::Epoll | Self::IoUring | Self::Kqueue | Self::Simulated => {
                READ_CLOSED | WRITE_CLOSED | ERROR
            }
            Self::Poll if LINUX => READ_CLOSED | WRITE_CLOSED | ERROR,
            // poll on macOS reports nothing for an entry without requested readiness.
            Self::Poll if cfg!(target_vendor = "apple") => Ready::NONE,
            Self::Poll | Self::EventPorts | Self::DevPoll => WRITE_CLOSED | ERROR,
            Self::Select => Ready::NONE,
        }
    }

    /// The readiness that the backend reports for the reading end of a pipe without a writer.
    pub(crate) fn pipe_without_a_writer(self) -> Ready {
        match self {
            Self::Epoll | Self::IoUring | Self::EventPorts | Self::DevPoll | Self::Poll => {
                READABLE | WRITE_CLOSED
            }
            // This is the end of the side that is read, as for a socket.
            Self::Kqueue => READABLE | READ_CLOSED,
            Self::Select => READABLE,
            Self::Simulated => unreachable!("a simulation has no pipes"),
        }
    }

    /// The readiness that the backend reports for the writing end of a pipe without a reader.
    pub(crate) fn pipe_without_a_reader(self) -> Ready {
        match self {
            Self::Epoll | Self::IoUring => WRITABLE | ERROR,
            Self::Poll if LINUX => WRITABLE | ERROR,
            // poll reports POLLHUP here, and kqueue the end of the writing side.
            Self::Poll | Self::EventPorts | Self::DevPoll | Self::Kqueue => WRITABLE | WRITE_CLOSED,
            Self::Select => WRITABLE,
            Self::Simulated => unreachable!("a simulation has no pipes"),
        }
    }

    /// Returns whether a pipe without a reader can be registered. NetBSD's kqueue
    /// refuses such a pipe.
    pub(crate) fn takes_a_pipe_without_a_reader(self) -> bool {
        match self {
            Self::Kqueue => !cfg!(target_os = "netbsd"),
            Self::Epoll | Self::IoUring | Self::EventPorts | Self::DevPoll => true,
            Self::Poll | Self::Select | Self::Simulated => true,
        }
    }

    /// Returns whether the backend reports priority data. Otherwise it refuses the interest.
    pub(crate) fn has_priority(self) -> bool {
        match self {
            Self::Epoll | Self::IoUring | Self::EventPorts | Self::DevPoll => true,
            Self::Poll | Self::Select => true,
            // Not every system has a filter for priority data.
            Self::Kqueue => false,
            Self::Simulated => unreachable!("a simulation has no priority data"),
        }
    }

    /// Returns whether the backend has exclusive registrations, at least in some shapes.
    pub(crate) fn has_exclusive(self) -> bool {
        match self {
            Self::Epoll | Self::Simulated => true,
            // An exclusive request would take a wake-up even if its worker is busy.
            Self::IoUring => false,
            Self::Kqueue | Self::EventPorts | Self::DevPoll => false,
            Self::Poll | Self::Select => false,
        }
    }

    /// Returns whether the backend lends a descriptor that another poller can watch.
    pub(crate) fn has_descriptor(self) -> bool {
        match self {
            Self::Epoll | Self::Kqueue => true,
            Self::IoUring | Self::EventPorts | Self::DevPoll => false,
            Self::Poll | Self::Select | Self::Simulated => false,
        }
    }

    /// Returns whether an `Edge` may report readiness that the program has used up after the kernel
    /// queued the report.
    pub(crate) fn has_late_edges(self) -> bool {
        match self {
            Self::IoUring => true,
            Self::Epoll | Self::Kqueue | Self::EventPorts | Self::DevPoll => false,
            Self::Poll | Self::Select | Self::Simulated => false,
        }
    }

    /// Returns whether the backend takes a reused descriptor number for its previous file. epoll
    /// identifies files, and kqueue and event ports drop a number with its file. `/dev/poll` makes
    /// the mistake only after a close that marks the entry, such as the close of a socket.
    pub(crate) fn confuses_reused_numbers(self) -> bool {
        match self {
            Self::Poll | Self::Select | Self::DevPoll => true,
            // A request of `io_uring` holds its file.
            Self::IoUring => false,
            Self::Epoll | Self::Kqueue | Self::EventPorts | Self::Simulated => false,
        }
    }

    /// Returns whether the backend watches only descriptors with low numbers.
    pub(crate) fn has_sets(self) -> bool {
        match self {
            Self::Select => true,
            Self::Epoll | Self::IoUring | Self::Kqueue | Self::EventPorts | Self::DevPoll => false,
            Self::Poll | Self::Simulated => false,
        }
    }
}

#[test]
fn every_backend_of_this_system_has_its_tests() {
    let mut tested = Vec::new();
    each_kernel!(list, tested);
    assert_eq!(BackendKind::available(), tested);
    for kind in tested {
        let _ = Backend::of(kind);
    }
}
