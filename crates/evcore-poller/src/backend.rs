//! The contract of a backend, which is one kernel interface behind a [`Poller`](crate::Poller).
//!
//! The poller keeps a table of all registrations. It checks every key, merges changes of interest,
//! emulates `Edge` and `Oneshot` if the kernel lacks them, and continues interrupted waits. A
//! backend passes registrations on to the kernel, and waits:
//!
//! - No descriptor is registered under two keys. A registration is removed when its interest
//!   becomes empty, and added again when the interest is not empty any more (unless the backend
//!   [`batches_changes`](Capabilities::batches_changes)).
//! - If the backend has no `Edge`, an `Edge` registration whose sides (reading, writing, priority
//!   data) have all reported has an empty interest. It watches only its [ends](Registration::ends),
//!   until a side is rearmed.
//! - `add` and `remove` take effect in the next wait at the latest. `modify` is called just before
//!   a wait.
//! - A wait reports at most as many events as fit into the sink, and each key at most once. A later
//!   wait reports the events that do not fit, so that no key starves.
//! - A wait that succeeds and reports neither an event nor a wake has lasted until its timeout. A
//!   wait that fails has reported nothing.
//!
//! A simulator implements [`Backend`] without a kernel, and sets
//! [`simulated`](Capabilities::simulated). It then gets only simulated targets.

use std::{
    fmt,
    os::fd::{BorrowedFd, RawFd},
    time::Duration,
};

use crate::{
    error::Result,
    event_sink::EventSink,
    interest::{Interest, Mode},
    ready::Ready,
    waker::Waker,
};

/// One registration, as a backend gets it.
///
/// Only a [`Poller`](crate::Poller) makes one. For an example, see [`Backend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Registration {
    /// The number of the descriptor. It was open when it was registered, but its owner may have
    /// closed it since. For a [simulated](Capabilities::simulated) backend it is the number of the
    /// [target](crate::Target::Simulated).
    pub fd: RawFd,
    /// The key that its events carry.
    pub key: u64,
    /// The readiness to report.
    ///
    /// It is empty if only the `ends` should be reported. A backend that
    /// [`batches_changes`](Capabilities::batches_changes) also gets registrations with nothing to
    /// report at all.
    pub interest: Interest,
    /// The ends to report: [`READ_CLOSED`](Ready::READ_CLOSED) with an interest in reading, and
    /// [`WRITE_CLOSED`](Ready::WRITE_CLOSED) and [`ERROR`](Ready::ERROR) with any interest, because
    /// most kernels report these two in any case.
    ///
    /// An [`Edge`](Mode::Edge) that the poller emulates still watches the ends after its sides have
    /// reported, until each end was reported.
    pub ends: Ready,
    /// The mode of reports. If the [`Capabilities`] lack this mode, treat it as `Level`, because
    /// the poller emulates it. If the [`Capabilities`] lack `exclusive`, the mode is never
    /// [exclusive](Mode::is_exclusive).
    pub mode: Mode,
}

impl Registration {
    /// Returns the low half of the key: an index into side tables.
    #[must_use]
    #[inline]
    pub const fn id(&self) -> usize {
        (self.key & 0xffff_ffff) as usize
    }
}

/// The modes and features that the kernel behind a backend has. The poller emulates `Edge` and
/// `Oneshot` if they are missing.
///
/// ```
/// use evcore_poller::Capabilities;
///
/// let mut as_epoll = Capabilities::default(); // none
/// (as_epoll.edge, as_epoll.oneshot) = (true, true);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The kernel reports each change once, so `Edge` needs no emulation.
    pub edge: bool,
    /// The kernel disarms a registration that has reported, so `Oneshot` needs no emulation.
    pub oneshot: bool,
    /// The kernel has [exclusive](Mode::Exclusive) registrations. The poller does not emulate them.
    pub exclusive: bool,
    /// The backend records what `modify` passes, applies it in the wait, and reports a refusal as
    /// an event with [`Ready::ERROR`](crate::Ready::ERROR). After such an event the poller passes
    /// on the next `modify` even if it changes nothing. The poller also passes changes from and to
    /// an empty interest to `modify`, and not to `add` and `remove`. When a registration with an
    /// empty interest ends, the poller calls `remove` or `remove_before_close`, even if the backend
    /// never got that registration.
    pub batches_changes: bool,
    /// The kernel watches a file, and not the number of its descriptor. So it goes on reporting a
    /// file that was [removed before a close](crate::Poller::remove_before_close) if a duplicate is
    /// open. The poller drops these stale events, and calls [`Backend::reset`].
    pub watches_files: bool,
    /// The backend has no kernel. The [`Poller`](crate::Poller) then accepts only simulated
    /// [targets](crate::Target), and refuses descriptors. If this is false, the poller accepts only
    /// descriptors.
    pub simulated: bool,
}

/// One kernel interface (or a model of one).
///
/// A model in which every watched side is always ready:
///
/// ```
/// use evcore_poller::{
///     Backend, Capabilities, EventSink, Events, Interest, Mode, Poller, Ready, Registration, Result,
///     WakeChannel, Waker,
/// };
/// use std::time::Duration;
///
/// #[derive(Debug)]
/// struct Eager(Vec<Registration>, WakeChannel);
///
/// impl Backend for Eager {
///     fn name(&self) -> &'static str { "eager" }
///     fn capabilities(&self) -> Capabilities { Capabilities::default() } // all modes are emulated
///     fn add(&mut self, new: &Registration) -> Result<()> { self.0.push(*new); Ok(()) }
///     fn modify(&mut self, new: &Registration) -> Result<()> { self.remove(new)?; self.add(new) }
///     fn remove(&mut self, old: &Registration) -> Result<()> { self.remove_before_close(old); Ok(()) }
///     fn remove_before_close(&mut self, old: &Registration) { self.0.retain(|known| known.key != old.key) }
///     fn wait(&mut self, mut events: EventSink<'_>, _: Option<Duration>) -> Result<()> {
///         for known in self.0.iter().take(events.remaining()) {
///             if known.interest.contains(Interest::READ) {
///                 events.push(known.key, Ready::READABLE);
///             }
///         }
///         Ok(())
///     }
///     fn waker(&self) -> Waker { self.1.waker() }
/// }
///
/// let mut poller = Poller::from(Eager(Vec::new(), WakeChannel::new()?));
/// let mut events = Events::bounded(4);
/// poller.add(&std::io::stdin(), 5, Interest::READ, Mode::Oneshot)?;
/// assert_eq!(poller.wait(&mut events, None)?, 1);
/// assert_eq!(poller.wait(&mut events, None)?, 0, "the one-shot has fired");
/// # Ok::<(), evcore_poller::Error>(())
/// ```
pub trait Backend: fmt::Debug + Send {
    /// Returns the name to print, such as `epoll`.
    fn name(&self) -> &'static str;

    /// Returns the features that need no emulation. The poller calls this once.
    fn capabilities(&self) -> Capabilities;

    /// Begins to watch a descriptor.
    ///
    /// # Errors
    ///
    /// The kernel's error. The registration does not exist then.
    fn add(&mut self, registration: &Registration) -> Result<()>;

    /// Changes the interest of a registration, or arms a one-shot registration again. The poller
    /// calls it just before a wait.
    ///
    /// # Errors
    ///
    /// The kernel's error. The registration does not exist then, and the poller reports an event
    /// with the error bit.
    fn modify(&mut self, registration: &Registration) -> Result<()>;

    /// Works as [`modify`](Self::modify), but reports everything that is ready afresh, even if
    /// nothing has changed.
    ///
    /// The default calls `modify`, which is enough if the kernel treats each modification as a new
    /// registration.
    ///
    /// # Errors
    ///
    /// The errors of `modify`.
    fn reregister(&mut self, registration: &Registration) -> Result<()> {
        self.modify(registration)
    }

    /// Stops watching a descriptor.
    ///
    /// # Errors
    ///
    /// The kernel's error. Even then the registration does not exist any more.
    fn remove(&mut self, registration: &Registration) -> Result<()>;

    /// Stops watching a descriptor that is about to be closed. If the kernel drops a registration
    /// when its descriptor is closed, this makes no system call.
    fn remove_before_close(&mut self, registration: &Registration);

    /// Waits, and adds what is ready to `events`. `None` waits without limit.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`](crate::Error::Interrupted) if a signal ended the wait, or if the
    /// poller should wait again for the time that is left; otherwise the kernel's error. A wait
    /// that fails has added no event.
    fn wait(&mut self, events: EventSink<'_>, timeout: Option<Duration>) -> Result<()>;

    /// Drops every registration except the waker's, and returns true; the poller then adds
    /// everything again. The poller calls it if the kernel goes on reporting a removed file.
    ///
    /// The default does nothing and returns false, because most kernels identify a registration by
    /// the number of its descriptor, and drop it when that is closed.
    ///
    /// # Errors
    ///
    /// The kernel's error. Nothing has changed then.
    fn reset(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Borrows the descriptor of the backend (epoll, kqueue), to watch it for readability in
    /// another poller or loop. `None`, the default, on the other backends.
    ///
    /// The descriptor is readable if the kernel has something to report. Before you wait for it
    /// elsewhere, wait on the [`Poller`](crate::Poller) with a timeout of zero until that reports
    /// neither an event nor a wake, because changes reach the kernel only in a
    /// [`wait`](crate::Poller::wait).
    ///
    /// On epoll a wait may replace the descriptor, if a file was [removed before a
    /// close](crate::Poller::remove_before_close) and a duplicate of it stays open. To avoid that,
    /// use [`remove`](crate::Poller::remove); otherwise register the new descriptor in the outer
    /// poller.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns a handle that ends a wait from elsewhere. The wait then calls
    /// [`EventSink::set_woken`]. This method is called once.
    ///
    /// If the handle comes from a [`WakeChannel`](crate::WakeChannel), the poller drains the
    /// channel too, after a wait whose events fill the buffer, because the kernel may not have
    /// reached the waker. If the kernel has queued the channel's event by then, a later wait gets
    /// that event, finds nothing to [drain](crate::WakeChannel::drain), and reports no second wake.
    fn waker(&self) -> Waker;
}
