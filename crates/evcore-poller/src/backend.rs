//! The contract of a backend: one kernel interface, told in the simplest terms.
//!
//! The [`Poller`](crate::Poller) in front keeps the side table, checks every key, merges changes
//! of interest, keeps `Edge` and `Oneshot` where the kernel has neither, and puts interrupted
//! waits on again. What is left to a backend is to pass registrations on and to wait:
//!
//! - it is never given a descriptor that has another key already; and a registration that asks for
//!   nothing is removed, and added again when it asks for something (unless the backend
//!   [`batches_changes`](Capabilities::batches_changes));
//! - where it has no `Edge`, a registration whose sides have all reported has an empty interest, and
//!   asks for its [ends](Registration::ends) alone;
//! - `add` and `remove` take effect at once; `modify` reaches it just before a wait;
//! - a wait reports at most as many events as there is room, each key at most once, and what did
//!   not fit in a later wait, so that none starves;
//! - a wait that ends by its timeout never ends early, and one that fails has reported nothing.
//!
//! A simulator implements this with no kernel behind it, and says so: it is then given
//! [simulated](Capabilities::simulated) targets only.

use std::{fmt, os::fd::RawFd, time::Duration};

use crate::{EventSink, Interest, Mode, Ready, Result, Waker};

/// What a backend is told of one registration.
///
/// Made by the [`Poller`](crate::Poller) alone. For an example, see [`Backend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Registration {
    /// The number of the descriptor, which was open when it was registered; its owner may have
    /// closed it since. To a [simulated](Capabilities::simulated) backend, the number of the
    /// [target](crate::Target::Simulated).
    pub fd: RawFd,
    /// What events carry.
    pub key: u64,
    /// The readiness that is asked for.
    ///
    /// Empty where `ends` alone are asked for; and where nothing is, which only a backend that
    /// [`batches_changes`](Capabilities::batches_changes) is told.
    pub interest: Interest,
    /// The ends that are asked for: [`READ_CLOSED`](Ready::READ_CLOSED) with reading, and
    /// [`WRITE_CLOSED`](Ready::WRITE_CLOSED) and [`ERROR`](Ready::ERROR) with anything, which is as
    /// most kernels report them unasked.
    ///
    /// An [`Edge`](Mode::Edge) that is kept by masking asks for them when its sides have reported,
    /// until each was reported.
    pub ends: Ready,
    /// How often. Where [`Capabilities`] says no, the front keeps it, and `Level` is enough.
    pub mode: Mode,
    /// Of all pollers that watch the same file so, one is woken and not each; `READ_CLOSED` is then
    /// not reported. Never set where [`Capabilities`] says no.
    pub exclusive: bool,
}

impl Registration {
    /// The low half of the key: an index into side tables.
    #[must_use]
    #[inline]
    pub const fn id(&self) -> usize {
        (self.key & 0xffff_ffff) as usize
    }
}

/// What the kernel behind a backend does by itself.
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
    /// Readiness is reported once for each change: `Edge` need not be kept by masking.
    pub edge: bool,
    /// A registration falls silent when it has reported: `Oneshot` need not be kept by masking.
    pub oneshot: bool,
    /// A registration can be exclusive: see
    /// [`Poller::add_exclusive`](crate::Poller::add_exclusive). Nobody keeps this for the kernel.
    pub exclusive: bool,
    /// What `modify` is told is passed on in the wait, and a refusal comes as an event with
    /// [`Ready::ERROR`](crate::Ready::ERROR). After such an event the next `modify` is told even
    /// where it changes nothing. And it is told of changes from and to an empty interest too, so
    /// that these go with the wait.
    pub batches_changes: bool,
    /// There is no kernel behind it. The [`Poller`](crate::Poller) then passes on simulated
    /// [targets](crate::Target) only, and refuses descriptors; otherwise it is the other way round.
    pub simulated: bool,
}

/// One kernel interface (or a model of one).
///
/// A model in which everything that is asked for is always ready:
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
///     fn capabilities(&self) -> Capabilities { Capabilities::default() } // the front keeps the modes
///     fn add(&mut self, new: &Registration) -> Result<()> { self.0.push(*new); Ok(()) }
///     fn modify(&mut self, new: &Registration) -> Result<()> { self.remove(new)?; self.add(new) }
///     fn remove(&mut self, old: &Registration) -> Result<()> { self.remove_before_close(old); Ok(()) }
///     fn remove_before_close(&mut self, old: &Registration) { self.0.retain(|it| it.key != old.key) }
///     fn wait(&mut self, mut events: EventSink<'_>, _: Option<Duration>) -> Result<()> {
///         for it in self.0.iter().take(events.remaining()) {
///             if it.interest.contains(Interest::READ) {
///                 events.push(it.key, Ready::READABLE);
///             }
///         }
///         Ok(())
///     }
///     fn waker(&self) -> Waker { self.1.waker() }
/// }
///
/// let mut poller = Poller::from(Eager(Vec::new(), WakeChannel::new()?));
/// let mut events = Events::with_capacity(4);
/// poller.add(&std::io::stdin(), 5, Interest::READ, Mode::Oneshot)?;
/// assert_eq!(poller.wait(&mut events, None)?, 1);
/// assert_eq!(poller.wait(&mut events, None)?, 0, "once is once");
/// # Ok::<(), evcore_poller::Error>(())
/// ```
pub trait Backend: fmt::Debug + Send {
    /// The name to print: `epoll`.
    fn name(&self) -> &'static str;

    /// What need not be kept for it by masking.
    fn capabilities(&self) -> Capabilities;

    /// Begins to watch.
    ///
    /// # Errors
    ///
    /// What the kernel says; the registration then does not exist.
    fn add(&mut self, registration: &Registration) -> Result<()>;

    /// Watches with another interest, or arms a one-shot registration again.
    ///
    /// # Errors
    ///
    /// What the kernel says; the registration is then gone, and the front turns the refusal into
    /// an event with the error bit.
    fn modify(&mut self, registration: &Registration) -> Result<()>;

    /// Stops watching.
    ///
    /// # Errors
    ///
    /// What the kernel says; the registration is gone all the same.
    fn remove(&mut self, registration: &Registration) -> Result<()>;

    /// Forgets a registration whose descriptor is about to be closed: where the kernel forgets by
    /// itself on close, this costs no system call.
    fn remove_before_close(&mut self, registration: &Registration);

    /// Waits, and appends to `events`. `None` waits without limit.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`](crate::Error::Interrupted) where a signal ended it, and what the
    /// kernel says otherwise; `events` is then as it was.
    fn wait(&mut self, events: EventSink<'_>, timeout: Option<Duration>) -> Result<()>;

    /// Begins anew with nothing registered (its wakers stay), where the kernel reports something
    /// that is not registered any more and cannot be told to stop. Returns whether it did; the
    /// front then adds everything again.
    ///
    /// The default does nothing: most kernels know descriptors by their number alone, and lose
    /// them with it.
    ///
    /// # Errors
    ///
    /// What the kernel says; everything is then as it was.
    fn reset(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// A handle that ends a wait from elsewhere, which then calls [`EventSink::set_woken`]. Called once.
    ///
    /// If it is a [`WakeChannel`](crate::WakeChannel)'s, the front drains that too: after a wait that
    /// has filled the buffer and has not come to the waker. An event of the channel that a kernel
    /// had queued by then is no wake: there is nothing left to
    /// [drain](crate::WakeChannel::drain).
    fn waker(&self) -> Waker;
}
