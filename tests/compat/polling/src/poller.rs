#![allow(unsafe_code, reason = "`add` is unsafe in the interface of `polling`")]

//! The poller that threads share.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use evcore_poller::{BackendKind, Capabilities, Waker};

use crate::{
    AsRawSource, AsSource, Event, Events, PollMode, loan::Shared, under_test, watch::Watch,
};

/// Watches descriptors for a thread that waits, while other threads change the registrations.
///
/// ```
/// use polling::{Event, Events, Poller};
/// use std::{io::Write, os::unix::net::UnixStream};
///
/// let (mut near, far) = UnixStream::pair()?;
/// let (poller, mut events) = (Poller::new()?, Events::new());
/// // SAFETY: it is deleted below, before it is closed.
/// unsafe { poller.add(&far, Event::readable(7))? };
///
/// near.write_all(b"ping")?;
/// poller.wait(&mut events, None)?;
/// assert_eq!(events.iter().next(), Some(Event::readable(7)));
/// poller.delete(&far)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Poller {
    watch: Shared<Watch>,
    waker: Waker,
    /// True if a notification is pending, which ends the wait. A thread that requests the poller
    /// wakes the waiting thread without setting this.
    is_notified: AtomicBool,
    native: Capabilities,
}

impl Poller {
    /// Creates a poller on the backend that [`under_test::BACKEND`] names, or else on the best one.
    ///
    /// # Errors
    ///
    /// An error if no backend has that name, or if the backend cannot be opened.
    pub fn new() -> io::Result<Self> {
        match under_test::backend()? {
            Some(kind) => Self::on(kind),
            None => Ok(Self::over(evcore_poller::Poller::new()?)),
        }
    }

    /// Creates a poller on a backend of this kind. `polling` has no such function.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn on(kind: BackendKind) -> io::Result<Self> {
        Ok(Self::over(evcore_poller::Poller::with(kind)?))
    }

    /// Returns true, because every backend has [`PollMode::Level`].
    #[must_use]
    pub fn supports_level(&self) -> bool {
        true
    }

    /// Returns whether the kernel has [`PollMode::Edge`].
    #[must_use]
    pub fn supports_edge(&self) -> bool {
        self.native.edge
    }

    /// [`add_with_mode`](Self::add_with_mode), with [`PollMode::Oneshot`].
    ///
    /// # Safety
    ///
    /// The source is open, and is [deleted](Self::delete) before it is closed.
    ///
    /// # Errors
    ///
    /// The errors of [`add_with_mode`](Self::add_with_mode).
    pub unsafe fn add(&self, source: impl AsRawSource, interest: Event) -> io::Result<()> {
        // SAFETY: the caller makes the same promise.
        unsafe { self.add_with_mode(source, interest, PollMode::Oneshot) }
    }

    /// Begins to watch a source.
    ///
    /// # Safety
    ///
    /// The source is open, and is [deleted](Self::delete) before it is closed.
    ///
    /// # Errors
    ///
    /// An error for a key of `usize::MAX`, for a source that is watched already, for a mode that
    /// the backend lacks, and if the kernel refuses. Without an interest, the kernel is asked only
    /// when an interest is set.
    pub unsafe fn add_with_mode(
        &self,
        source: impl AsRawSource,
        interest: Event,
        mode: PollMode,
    ) -> io::Result<()> {
        check_key(interest)?;
        // SAFETY: the caller promises that the source is open.
        let fd = unsafe { BorrowedFd::borrow_raw(source.raw()) };
        self.change(|watch| watch.add(fd, interest, mode))
    }

    /// [`modify_with_mode`](Self::modify_with_mode), with [`PollMode::Oneshot`].
    ///
    /// # Errors
    ///
    /// The errors of [`modify_with_mode`](Self::modify_with_mode).
    pub fn modify(&self, source: impl AsSource, interest: Event) -> io::Result<()> {
        self.modify_with_mode(source, interest, PollMode::Oneshot)
    }

    /// Changes the interest, the key and the mode of a source. Arms a one-shot again.
    ///
    /// # Errors
    ///
    /// An error for a key of `usize::MAX`, for a source that is not watched, and for a mode that
    /// the backend lacks. The kernel's error is returned if the mode changes or is `Edge`.
    /// Otherwise it is reported as an event.
    pub fn modify_with_mode(
        &self,
        source: impl AsSource,
        interest: Event,
        mode: PollMode,
    ) -> io::Result<()> {
        check_key(interest)?;
        self.change(|watch| watch.modify(source.source(), interest, mode))
    }

    /// Stops watching a source. When this returns, the source may be closed.
    ///
    /// # Errors
    ///
    /// An error for a source that is not watched, or the kernel's error. In both cases the source
    /// is not watched afterwards.
    pub fn delete(&self, source: impl AsSource) -> io::Result<()> {
        self.change(|watch| watch.delete(source.source()))
    }

    /// Waits for an event, a [notification](Self::notify) or the end of `timeout`, and appends to
    /// `events`. Returns the number of events in `events`. If another thread waits, returns 0 at
    /// once.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<usize> {
        // A deadline beyond the clock's range never comes.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.wait_until(events, deadline)
    }

    /// [`wait`](Self::wait), with a deadline in place of a timeout.
    ///
    /// # Errors
    ///
    /// The errors of [`wait`](Self::wait).
    pub fn wait_deadline(&self, events: &mut Events, deadline: Instant) -> io::Result<usize> {
        self.wait_until(events, Some(deadline))
    }

    /// Ends the present wait or, if no thread waits, the next one. Several calls may end one wait.
    ///
    /// # Errors
    ///
    /// Always succeeds.
    pub fn notify(&self) -> io::Result<()> {
        // This is stored before the wake, because the wait that ends must find it.
        self.is_notified.store(true, Ordering::SeqCst);
        self.waker.wake();
        Ok(())
    }

    fn over(poller: evcore_poller::Poller) -> Self {
        let watch = Watch::new(poller);
        Self {
            waker: watch.poller().waker(),
            native: watch.poller().backend().capabilities(),
            is_notified: AtomicBool::new(false),
            watch: Shared::new(watch),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Watch) -> io::Result<()>) -> io::Result<()> {
        self.watch.with(|| self.waker.wake(), change)
    }

    fn wait_until(&self, events: &mut Events, deadline: Option<Instant>) -> io::Result<usize> {
        let Some(mut watch) = self.watch.borrow() else {
            return Ok(0);
        };
        let before = events.len();
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            watch.get().wait(events, left)?;
            let is_notified = self.is_notified.swap(false, Ordering::SeqCst);
            let is_over = deadline.is_some_and(|at| at <= Instant::now());
            if events.len() > before || is_notified || is_over {
                return Ok(events.len());
            }
            // A wake without a notification comes from a thread that requests or has requested the
            // poller.
            watch.hand_over();
        }
    }
}

/// Exists only because async-io and calloop offer their poller's descriptor to other loops.
///
/// # Panics
///
/// Always: the backends poll and select have no descriptor, and no program here needs one.
impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        no_descriptor()
    }
}

/// Like [`AsFd`].
///
/// # Panics
///
/// Always.
impl AsRawFd for Poller {
    fn as_raw_fd(&self) -> RawFd {
        no_descriptor()
    }
}

fn no_descriptor() -> ! {
    panic!("this adapter has no descriptor to lend")
}

fn check_key(event: Event) -> io::Result<()> {
    if event.key == usize::MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the key usize::MAX is reserved",
        ));
    }
    Ok(())
}
