//! The backends under test, and what each of them reports where they differ.
//!
//! Only this file names them. Each `match` lists all of them, so that a backend without an
//! expectation does not compile; and a [`BackendKind`] that has no arm in [`Backend::of`] fails the first
//! scenario that is made for it.
//!
//! Run so far: epoll (also with masked edges), `io_uring`, poll and select on Linux, and the simulator's
//! backend. **Not run:** the
//! expectations of kqueue, of event ports, of `/dev/poll`, and of poll and select on systems other than
//! Linux. They come from the manual pages and the kernels' sources, as do the models of the first three
//! (`crates/evcore-poller/src/sys/fake_kernel/`). Those of poll on macOS are
//! incomplete: there, `POLLHUP` is reported for the end of either side, even the user's own.

use evcore_poller::{BackendKind, Interest, Ready};

use crate::fixture::{ERROR, READ_CLOSED, READABLE, WRITABLE, WRITE_CLOSED};

/// Makes, for each kernel's backend that this system has, `scenarios!(@callback module BackendKind args)`.
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

/// A backend under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// Also if it masks `Edge`.
    Epoll,
    IoUring,
    Kqueue,
    EventPorts,
    DevPoll,
    Poll,
    Select,
    /// The simulator's, whatever it does by itself.
    Simulated,
}

/// Its poll reports a half-close by a flag of its own, and a broken pipe as an error.
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

    /// The readiness that it reports to `interest` if `holds` is true of a socket.
    pub(crate) fn reported(self, holds: Ready, interest: Interest) -> Ready {
        let sides = READABLE | WRITABLE | Ready::PRIORITY;
        let no_half_close = sides | WRITE_CLOSED | ERROR;
        match self {
            Self::Epoll | Self::IoUring | Self::Simulated => holds,
            // A filter reports the end of its own side.
            Self::Kqueue if interest.contains(Interest::WRITE) => holds,
            Self::Kqueue => holds & (sides | READ_CLOSED | ERROR),
            Self::Poll if LINUX => holds,
            Self::Poll | Self::EventPorts | Self::DevPoll => holds & no_half_close,
            // The end of a stream, a hang-up and an error make a side ready, and nothing else is reported.
            Self::Select => holds & sides,
        }
    }

    /// The ends that it reports of an `Edge` that has reported and was not rearmed.
    pub(crate) fn ends_behind_a_report(self) -> Ready {
        match self {
            Self::Epoll | Self::IoUring | Self::Kqueue | Self::Simulated => {
                READ_CLOSED | WRITE_CLOSED | ERROR
            }
            Self::Poll if LINUX => READ_CLOSED | WRITE_CLOSED | ERROR,
            // macOS' poll watches for nothing for an entry that asks for no readiness.
            Self::Poll if cfg!(target_vendor = "apple") => Ready::NONE,
            Self::Poll | Self::EventPorts | Self::DevPoll => WRITE_CLOSED | ERROR,
            Self::Select => Ready::NONE,
        }
    }

    /// The readiness that it reports of the reading end of a pipe without a writer.
    pub(crate) fn pipe_without_a_writer(self) -> Ready {
        match self {
            Self::Epoll | Self::IoUring | Self::EventPorts | Self::DevPoll | Self::Poll => {
                READABLE | WRITE_CLOSED
            }
            // The end of the side that is read, as of a socket.
            Self::Kqueue => READABLE | READ_CLOSED,
            Self::Select => READABLE,
            Self::Simulated => unreachable!("a world has no pipes"),
        }
    }

    /// The readiness that it reports of the writing end of a pipe without a reader.
    pub(crate) fn pipe_without_a_reader(self) -> Ready {
        match self {
            Self::Epoll | Self::IoUring => WRITABLE | ERROR,
            Self::Poll if LINUX => WRITABLE | ERROR,
            // POLLHUP, and the end of the side that is written.
            Self::Poll | Self::EventPorts | Self::DevPoll | Self::Kqueue => WRITABLE | WRITE_CLOSED,
            Self::Select => WRITABLE,
            Self::Simulated => unreachable!("a world has no pipes"),
        }
    }

    /// Returns whether a pipe without a reader can be registered. (NetBSD's kqueue answers as for a
    /// closed descriptor.)
    pub(crate) fn takes_a_pipe_without_a_reader(self) -> bool {
        match self {
            Self::Kqueue => !cfg!(target_os = "netbsd"),
            Self::Epoll | Self::IoUring | Self::EventPorts | Self::DevPoll => true,
            Self::Poll | Self::Select | Self::Simulated => true,
        }
    }

    /// Returns whether it reports priority data, or refuses the interest.
    pub(crate) fn has_priority(self) -> bool {
        match self {
            Self::Epoll | Self::IoUring | Self::EventPorts | Self::DevPoll => true,
            Self::Poll | Self::Select => true,
            // Not every system has a filter for it.
            Self::Kqueue => false,
            Self::Simulated => unreachable!("in a world there are plain bytes alone"),
        }
    }

    /// Returns whether it may have exclusive registrations: always, except for the simulator's,
    /// which has them in some shapes.
    pub(crate) fn has_exclusive(self) -> bool {
        match self {
            Self::Epoll | Self::Simulated => true,
            // An exclusive request takes a wake-up even if its worker is busy.
            Self::IoUring => false,
            Self::Kqueue | Self::EventPorts | Self::DevPoll => false,
            Self::Poll | Self::Select => false,
        }
    }

    /// Returns whether it has a descriptor that another poller can watch. (An event port has one
    /// that is not lent, and `/dev/poll` cannot be polled.)
    pub(crate) fn has_descriptor(self) -> bool {
        match self {
            Self::Epoll | Self::Kqueue => true,
            Self::IoUring | Self::EventPorts | Self::DevPoll => false,
            Self::Poll | Self::Select | Self::Simulated => false,
        }
    }

    /// Returns whether an `Edge` may report what was true when the kernel queued it, even if it has
    /// been read or written since.
    pub(crate) fn has_late_edges(self) -> bool {
        match self {
            Self::IoUring => true,
            Self::Epoll | Self::Kqueue | Self::EventPorts | Self::DevPoll => false,
            Self::Poll | Self::Select | Self::Simulated => false,
        }
    }

    /// Returns whether a reused number is taken for its previous file. Others identify files
    /// (epoll), or drop a number with its file (kqueue, event ports). (`/dev/poll` is silent if the
    /// close does not mark the entry. The close of a socket does.)
    pub(crate) fn knows_numbers_alone(self) -> bool {
        match self {
            Self::Poll | Self::Select | Self::DevPoll => true,
            // A request holds its file.
            Self::IoUring => false,
            Self::Epoll | Self::Kqueue | Self::EventPorts | Self::Simulated => false,
        }
    }

    /// Returns whether it watches only low numbers.
    pub(crate) fn has_sets(self) -> bool {
        match self {
            Self::Select => true,
            Self::Epoll | Self::IoUring | Self::Kqueue | Self::EventPorts | Self::DevPoll => false,
            Self::Poll | Self::Simulated => false,
        }
    }
}

/// The scenarios run for exactly the backends of this system.
#[test]
fn every_backend_of_this_system_has_its_tests() {
    let mut tested = Vec::new();
    each_kernel!(list, tested);
    assert_eq!(BackendKind::available(), tested);
    for kind in tested {
        let _ = Backend::of(kind);
    }
}
