//! The names of the backends, such as epoll. The names are the same on every system.
//!
//! A program that names a backend compiles everywhere, and gets an error on a system without it.

use std::fmt;

/// The kernel interface that a poller uses, such as epoll.
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
///
/// # What each backend does
///
/// | | epoll | kqueue ¹ | event ports ¹ | /dev/poll ¹ | poll | select | `io_uring` ⁷ |
/// |---|---|---|---|---|---|---|---|
/// | systems | Linux | macOS, BSDs | illumos, Solaris | illumos, Solaris | all | all except illumos and Solaris | Linux 6.1 |
/// | `Edge` is made by | kernel ² | kernel ² | masking | masking | masking | masking | kernel ⁸ |
/// | reported before `rearm` | everything | everything | hang-up ⁵ | hang-up ⁵ | hang-up, error, half-close ⁶ | nothing | everything |
/// | `Oneshot` | kernel | kernel | masking | masking | masking | masking | kernel |
/// | `READ_CLOSED` | yes ³ | yes | no: a read of 0 bytes | no: a read of 0 bytes | Linux; else as ports | no: a read of 0 bytes | yes |
/// | `WRITE_CLOSED`, `ERROR` | yes | if the side is watched | yes | yes | yes | no: the side is ready, and fails | yes |
/// | priority data | yes | refused | yes | yes | yes | yes | yes |
/// | cost of a wait grows with | ready descriptors | ready descriptors | ready descriptors, which the next call watches again | ready descriptors | registered descriptors | the highest descriptor | ready descriptors |
/// | a change costs | one call | no call: it goes with the wait ⁴ | one call | part of one write before the wait ⁴ | no call ⁴ | no call ⁴ | no call: it goes with the wait ⁴ |
/// | descriptors | all | all | all | all | all | below 1024 | all |
/// | a regular file, `/dev/null` | refused | depends on the system | depends on the system | depends on the system | always ready | always ready | always ready |
/// | closed without `remove` | silent | silent | silent, or one error event | silent, or one error event | one error event | one error event | the file stays open; silent, or one error event |
/// | closed without `remove`, and its number reused | silent | silent | perhaps watched by mistake | perhaps watched by mistake | watched by mistake | watched by mistake | perhaps watched by mistake |
/// | `remove_before_close`, but a duplicate is open | its stale events are dropped; the first wait with only such events registers all descriptors anew | silent | silent | silent | silent | silent | silent; the removal costs a call |
/// | timeouts | ns below 1 s (`epoll_pwait2`, unless whole ms suffice), else ms, rounded up | ns | ns; at least a clock tick ⁹ | ms, rounded up; at least a clock tick | ns on Linux and FreeBSD (`ppoll`), else ms, rounded up | ns on Linux, else µs, rounded up | ns |
/// | `Mode::Exclusive` | yes ³ | refused | refused | refused | refused | refused | refused |
///
/// 1. These backends were never run on their systems, because no such kernel was at hand. They are
///    compiled, and tested over a model of the kernel's calls. poll and select were run on Linux
///    only.
/// 2. If an `Edge` was reported on one side and not rearmed, that report may be repeated when the
///    other side becomes ready.
/// 3. An exclusive registration reports no `READ_CLOSED`: a read returns 0 bytes.
/// 4. A change from an empty interest costs one call, which checks that the descriptor is open. (On
///    kqueue only the first such change of a registration costs a call, and only after a
///    `remove_before_close` or a failed removal. That call drops what the kernel may still watch of
///    an earlier registration.) `add` costs one call too, except on `io_uring`.
/// 5. A report without a `rearm` before the next wait costs one further call (on `/dev/poll`, an
///    entry of the next write). Errors are reported before `rearm`, too, but illumos' sockets
///    report an error as readiness.
/// 6. Before `rearm`, poll reports a hang-up, an error and, on Linux, a half-close; on macOS it
///    reports nothing. A descriptor without a `rearm` keeps its entry in poll's array, so that its
///    ends are reported.
/// 7. `io_uring` is used only if the program names it: [`IoUring`](Self::IoUring). The system may
///    refuse it (a sandbox, the sysctl `kernel.io_uring_disabled`): see [`usable`](Self::usable).
///    Use it with `Edge`, because a `Level` that has reported is registered again by the next wait.
///    `add` goes with the wait too. The kernel accepts calls from one thread only, so if the poller
///    has moved to another thread, its next wait registers everything anew.
/// 8. An `Edge` is a hint: it may report data that was read, or room that was used, before the
///    wait.
/// 9. A wait ends early if the wall clock is set meanwhile (illumos' `port_getn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackendKind {
    /// Linux and Android. The cost of a wait grows with the number of ready descriptors, not of
    /// watched ones.
    Epoll,
    /// macOS and the BSDs. The cost of a wait grows with the number of ready descriptors.
    Kqueue,
    /// illumos and Solaris. The cost of a wait grows with the number of ready descriptors.
    EventPorts,
    /// illumos and Solaris: `/dev/poll`, the predecessor of [`EventPorts`](Self::EventPorts). The
    /// cost of a wait grows with the number of ready descriptors.
    DevPoll,
    /// Every Unix. The cost of a wait grows with the number of watched descriptors.
    Poll,
    /// Every Unix except illumos and Solaris. It watches only descriptors below 1024, and the cost
    /// of a wait grows with the highest of them.
    Select,
    /// Linux and Android, for tests of programs that use [`Mode::Edge`](crate::Mode::Edge): epoll
    /// with an `Edge` that is emulated by masking (a reported side is not watched), as on poll,
    /// select, event ports and /dev/poll.
    ///
    /// A side that was reported stays silent until [`Poller::rearm`](crate::Poller::rearm). So a
    /// program that forgets a `rearm` waits for ever, where [`Epoll`](Self::Epoll) reports new data
    /// and hides the mistake. A report without a `rearm` before the next wait costs one system
    /// call, and the later `rearm` another.
    EpollMasked,
    /// Linux 6.1 and later, where the system permits it. Registrations, changes and the wait share
    /// one system call. Since Linux 6.13, a call handles only some twenty wake-ups of descriptors.
    /// If there are more, the wait makes further calls. The cost of a wait grows with the number of
    /// ready descriptors. Use it with [`Mode::Edge`](crate::Mode::Edge).
    /// [`Poller::new`](crate::Poller::new) tries every other backend first.
    ///
    /// A watched file stays open, even if its descriptor is closed, until it is removed or the
    /// poller is dropped. If the process ends, or if the poller is dropped in another thread than
    /// that of its last wait, the file stays open for a moment longer. A moment after a poller is
    /// dropped, the kernel interrupts the thread of the poller's last wait once. A call that the
    /// kernel does not restart (such as an `epoll_wait` of other code) then fails with `EINTR`. A
    /// [`wait`](crate::Poller::wait) of another poller goes on.
    ///
    /// It has no [exclusive registrations](crate::Mode::Exclusive), so a connection wakes every
    /// worker that watches the listener, and all but one of them call `accept` for nothing. With
    /// four workers and one client at a time, a connection took 3.0 to 4.1 calls of `accept4`, and
    /// 2.2 to 2.3 with epoll's exclusive registrations. Let one worker at a time watch the listener
    /// (an accept lock), or give each worker a listener of its own (`SO_REUSEPORT`).
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
