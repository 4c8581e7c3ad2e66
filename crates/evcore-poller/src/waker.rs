//! Ending a wait from another thread, or from a signal handler.
//!
//! A flag in front of the descriptor makes any number of wakes between two waits cost one write.
//! There is no message: what is to be done is told elsewhere, before the wake.

use std::{
    fmt,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, atomic::AtomicBool},
};

use rustix::io::Errno;

use crate::{
    Error, Result,
    wake_flag::{Doorbell, WakeFlag},
};

/// Ends the wait of the [`Poller`](crate::Poller) it came from. Cheap to clone, fit for any thread.
///
/// A wake that comes while nobody waits is kept for the next wait, which reports it whatever else
/// is ready. Many wakes may be seen as one, and one is never seen twice. What a thread did before it
/// woke is visible after the wait that it ended. A waker may outlive its poller; it then wakes
/// nobody.
///
/// ```
/// # use evcore_poller::{Events, Poller};
/// let (mut poller, mut events) = (Poller::new()?, Events::with_capacity(4));
/// let waker = poller.waker();
/// std::thread::spawn(move || waker.wake());
/// poller.wait(&mut events, None)?;
/// assert!(events.was_woken());
/// # Ok::<(), evcore_poller::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Waker {
    by: By,
}

impl Waker {
    /// A waker that calls a function, for a [`Backend`](crate::Backend) with no kernel behind it.
    ///
    /// The function is called for every wake, from any thread: merging wakes, and whether a signal
    /// handler may wake, is its own affair. Such a waker has no descriptor to lend.
    ///
    /// ```
    /// use evcore_poller::Waker;
    /// use std::sync::{Arc, atomic::{AtomicBool, Ordering}};
    ///
    /// let woken = Arc::new(AtomicBool::new(false));
    /// let flag = Arc::clone(&woken);
    /// let waker = Waker::from_fn(move || flag.store(true, Ordering::Release));
    /// waker.wake();
    /// assert!(woken.load(Ordering::Acquire));
    /// ```
    #[must_use]
    pub fn from_fn(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            by: By::Call(Arc::new(wake)),
        }
    }

    /// Ends the present wait or, if nobody waits, the next one.
    ///
    /// Costs one `write`, or a few nanoseconds where a wake is pending already. It takes no lock
    /// and allocates nothing, so a signal handler may call it (outside Linux it may set `errno`).
    pub fn wake(&self) {
        match &self.by {
            By::WakeFlag(wake_flag) => wake_flag.wake(),
            By::Call(wake) => wake(),
        }
    }

    /// Takes the wakes that no wait has reported yet, and returns whether there were any: those of
    /// a descriptor alone. One relaxed load where there are none.
    #[inline]
    pub(crate) fn take_pending(&self) -> bool {
        match &self.by {
            By::WakeFlag(wake_flag) => wake_flag.is_raised() && wake_flag.take(),
            // What it calls is the backend's own, and so is what it leaves there.
            By::Call(_) => false,
        }
    }
}

/// The descriptor itself: eight bytes written to it, the number 1 in native order, wake the poller
/// too, for code that can write and no more.
///
/// Such a wake ends the wait as any other does. But where more is ready than fits into the buffer, it
/// is reported when the kernel comes to it, which may be some waits later. From here on, each wait that
/// reports a wake costs one read. (Of a descriptor that a child has from a fork this is not known: if
/// it writes to that while a wake is pending, the two may be reported as two.)
///
/// # Panics
///
/// If the waker is one [of a function](Waker::from_fn), which no descriptor stands for.
impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.by {
            By::WakeFlag(wake_flag) => {
                wake_flag.lend();
                wake_flag.bell().write.as_fd()
            }
            By::Call(_) => panic!(
                "this waker calls a function and has no descriptor: its backend has no kernel \
                 behind it; call `wake`"
            ),
        }
    }
}

/// What a wake does.
#[derive(Clone)]
enum By {
    /// Rings a descriptor that the kernel watches.
    WakeFlag(Arc<WakeFlag<AtomicBool, Descriptor>>),
    /// Calls, and no more.
    Call(Arc<dyn Fn() + Send + Sync>),
}

impl fmt::Debug for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WakeFlag(wake_flag) => wake_flag.fmt(f),
            Self::Call(_) => f.write_str("a function"),
        }
    }
}

/// The poller's side of its wakers: what a [`Backend`](crate::Backend) watches and acknowledges.
///
/// ```
/// use evcore_poller::WakeChannel;
///
/// let channel = WakeChannel::new()?;
/// channel.waker().wake();
/// // A backend finds the channel readable. It drains it, and sets the wake of the wait's events:
/// assert!(channel.drain());
/// assert!(!channel.drain(), "a wake is reported once");
/// # Ok::<(), evcore_poller::Error>(())
/// ```
#[derive(Debug)]
pub struct WakeChannel {
    wake_flag: Arc<WakeFlag<AtomicBool, Descriptor>>,
}

impl WakeChannel {
    /// An eventfd on Linux, a pair of sockets elsewhere: non-blocking, closed on exec.
    ///
    /// # Errors
    ///
    /// [`Error::Os`]: out of descriptors, most likely.
    pub fn new() -> Result<Self> {
        let wake_flag = WakeFlag::new(AtomicBool::new(false), Descriptor::open()?);
        Ok(Self {
            wake_flag: Arc::new(wake_flag),
        })
    }

    /// A handle for others.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker {
            by: By::WakeFlag(Arc::clone(&self.wake_flag)),
        }
    }

    /// Takes what was written, so that a level-triggered watch falls silent, and lets the next wake
    /// write again. Returns whether there was a wake to report: the [`Poller`](crate::Poller) may have
    /// found it before the kernel's event was delivered.
    ///
    /// Costs one `read`.
    #[expect(
        clippy::must_use_candidate,
        reason = "where the kernel has just looked, there is one"
    )]
    pub fn drain(&self) -> bool {
        self.wake_flag.take()
    }

    /// As [`drain`](Self::drain), where the watch is edge-triggered: an eventfd reports each write,
    /// whether the one before was read or not. So this mostly costs no call.
    #[must_use]
    pub fn acknowledge(&self) -> bool {
        self.wake_flag.acknowledge()
    }

    /// Comes before another edge-triggered watch (in [`reset`](crate::Backend::reset)), to
    /// which what was not read would be an edge. That watch then reports a wake only if there is one
    /// that was not reported yet.
    ///
    /// Costs one `read`, and a `write` if there is such a wake.
    pub fn renew(&self) {
        self.wake_flag.renew();
    }
}

/// What to watch for readability. Nothing but [`drain`](WakeChannel::drain) may read from it: other
/// reads take a wake from the poller, and with it all wakes to come.
impl AsFd for WakeChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake_flag.bell().reading_end()
    }
}

/// The bell that ships.
///
/// Both ends live as long as any waker: a write after the poller is gone must not be a write to a
/// closed pair, which is a signal (SIGPIPE).
#[derive(Debug)]
struct Descriptor {
    write: OwnedFd,
    /// Where it is another descriptor than the one that is written to.
    read: Option<OwnedFd>,
}

impl Descriptor {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn open() -> Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let write = eventfd(0, flags).map_err(Error::os("eventfd"))?;
        Ok(Self { write, read: None })
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn open() -> Result<Self> {
        use std::os::unix::net::UnixStream;
        let pair = || {
            let (write, read) = UnixStream::pair()?;
            write.set_nonblocking(true)?;
            read.set_nonblocking(true)?;
            Ok((write, read))
        };
        let (write, read) = pair().map_err(|source| Error::Os {
            call: "socketpair",
            source,
        })?;
        Ok(Self {
            write: write.into(),
            read: Some(read.into()),
        })
    }

    fn reading_end(&self) -> BorrowedFd<'_> {
        self.read.as_ref().unwrap_or(&self.write).as_fd()
    }
}

impl Doorbell for Descriptor {
    fn ring(&self) {
        // What is full needs nothing more: it will be read. (A counter that is left unread is full
        // after 2^64 wakes, which is never.)
        while rustix::io::write(&self.write, &1u64.to_ne_bytes()) == Err(Errno::INTR) {}
    }

    fn silence(&self) -> u64 {
        let Some(read) = &self.read else {
            let mut counter = [0; 8];
            let counted = rustix::io::read(&self.write, &mut counter);
            return counted.map_or(0, |_| u64::from_ne_bytes(counter));
        };
        // Of sockets, the bytes: none is ever left.
        let (mut bytes, mut count) = ([0; 64], 0);
        while let Ok(n) = rustix::io::read(read, &mut bytes) {
            count += n as u64;
            if n < bytes.len() {
                break;
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_readable(channel: &WakeChannel) -> bool {
        let mut fds = [PollFd::new(channel, PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&now)).expect("poll") == 1
    }

    #[test]
    fn a_drained_channel_is_silent_until_the_next_wake() {
        let channel = WakeChannel::new().expect("a channel");
        for _ in 0..3 {
            assert!(!is_readable(&channel));
            channel.waker().wake();
            channel.waker().wake();
            assert!(is_readable(&channel));
            assert!(channel.drain());
            assert!(!channel.drain(), "once");
        }
    }

    /// What the counter of an eventfd shows, which is read by that.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn counter(channel: &WakeChannel) -> u64 {
        channel.wake_flag.bell().silence()
    }

    #[test]
    fn wakes_before_an_acknowledgement_write_once() {
        let channel = WakeChannel::new().expect("a channel");
        channel.waker().wake();
        channel.wake_flag.bell().silence();
        channel.waker().wake();
        assert!(!is_readable(&channel), "the first wake is still pending");
        assert!(channel.acknowledge());
        channel.waker().wake();
        assert!(is_readable(&channel));
    }

    #[test]
    fn a_wake_that_has_not_written_yet_is_left_alone() {
        let channel = WakeChannel::new().expect("a channel");
        let waker = channel.waker();
        waker.wake();
        channel.wake_flag.bell().silence(); // as if its write were still to come
        assert!(!waker.take_pending());
        channel.wake_flag.bell().ring();
        assert!(waker.take_pending());
        assert!(!waker.take_pending(), "once");
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn what_was_left_unread_is_no_other_wake() {
        let channel = WakeChannel::new().expect("a channel");
        let waker = channel.waker();
        for _ in 0..3 {
            waker.wake();
            assert!(channel.acknowledge());
        }
        assert!(!channel.acknowledge(), "an event that nobody has made");
        assert!(!is_readable(&channel), "so it was read");
        for _ in 0..2 {
            waker.wake();
            assert!(channel.acknowledge());
            waker.wake();
            assert!(waker.take_pending() && !waker.take_pending());
        }
    }

    /// As at a signal in the middle of a wake, or where its thread is preempted.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn a_wake_that_was_reported_before_it_wrote_is_not_reported_again() {
        let channel = WakeChannel::new().expect("a channel");
        channel.waker().wake();
        assert_eq!(counter(&channel), 1, "taken back: it is still to come");
        assert!(channel.acknowledge());
        assert!(!channel.acknowledge() && !channel.drain());
        channel.wake_flag.bell().ring();
        assert!(!channel.acknowledge(), "here it is");
        channel.waker().wake();
        assert!(channel.acknowledge());
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn another_watch_of_edges_begins_with_what_was_not_reported() {
        let channel = WakeChannel::new().expect("a channel");
        let waker = channel.waker();
        channel.renew();
        assert!(!is_readable(&channel));
        waker.wake();
        channel.renew();
        assert!(is_readable(&channel) && channel.acknowledge());
        channel.renew();
        assert!(!is_readable(&channel), "it was reported");
        rustix::io::write(&waker, &1u64.to_ne_bytes()).expect("write");
        channel.renew();
        assert!(is_readable(&channel) && channel.acknowledge());
    }

    /// By a wake and by hand, reported as one.
    #[test]
    fn what_is_written_by_hand_is_not_left_unread() {
        let channel = WakeChannel::new().expect("a channel");
        let waker = channel.waker();
        rustix::io::write(&waker, &1u64.to_ne_bytes()).expect("write");
        waker.wake();
        assert!(channel.acknowledge());
        assert!(!is_readable(&channel));
        assert!(!channel.acknowledge() && !waker.take_pending());
    }

    #[test]
    fn eight_bytes_from_elsewhere_wake_too() {
        let channel = WakeChannel::new().expect("a channel");
        rustix::io::write(channel.waker(), &1u64.to_ne_bytes()).expect("write");
        assert!(is_readable(&channel));
        assert!(channel.drain());
        assert!(!is_readable(&channel));
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn a_full_counter_does_not_lose_a_wake() {
        let channel = WakeChannel::new().expect("a channel");
        rustix::io::write(channel.waker(), &(u64::MAX - 1).to_ne_bytes()).expect("write");
        channel.waker().wake();
        assert!(is_readable(&channel) && channel.drain());
        channel.waker().wake();
        assert!(channel.drain(), "the next one is not lost either");
    }

    #[test]
    fn a_waker_outlives_its_channel_in_peace() {
        let waker = WakeChannel::new().expect("a channel").waker();
        waker.wake();
        waker.wake();
    }

    #[test]
    fn a_waker_of_a_function_calls_it_every_time() {
        use std::sync::atomic::{AtomicU32, Ordering};
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let waker = Waker::from_fn(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        waker.wake();
        waker.clone().wake();
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }

    #[test]
    #[should_panic(expected = "has no descriptor")]
    fn a_waker_of_a_function_has_no_descriptor_to_lend() {
        let _ = Waker::from_fn(|| {}).as_fd();
    }
}
