//! Wakers, which end a wait from another thread or from a signal handler. A wake carries no
//! message, so put the work into a queue before the wake.

use std::{
    fmt,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, atomic::AtomicBool},
};

use rustix::io::Errno;

use crate::{
    error::{Error, Result},
    wake_flag::{Doorbell, WakeFlag},
};

/// Ends a wait of the [`Poller`](crate::Poller) that it belongs to. It is cheap to clone, and any
/// thread may use it.
///
/// A wake between two waits ends the next wait, which reports it even if other events fill the
/// buffer. Several wakes may be reported as one, and no wake is reported twice. Everything that a
/// thread did before its wake is visible after the wait that the wake ended. A waker may outlive
/// its poller, and then has no effect.
///
/// ```
/// # use evcore_poller::{Events, Poller};
/// let (mut poller, mut events) = (Poller::new()?, Events::bounded(4));
/// let waker = poller.waker();
/// std::thread::spawn(move || waker.wake());
/// poller.wait(&mut events, None)?;
/// assert!(events.was_woken());
/// # Ok::<(), evcore_poller::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Waker {
    wake: Wake,
}

impl Waker {
    /// Makes a waker that calls a function, for a [`Backend`](crate::Backend) without a kernel.
    ///
    /// The function is called for every wake, from any thread. Whether wakes are merged, and
    /// whether a signal handler may wake, depends on the function. Such a waker has no
    /// [descriptor](Self::descriptor).
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
            wake: Wake::Call(Arc::new(wake)),
        }
    }

    /// Ends the present wait or, between two waits, the next one.
    ///
    /// Costs one `write`, or a few nanoseconds if a wake is already pending. It takes no lock and
    /// allocates nothing, so a signal handler may call it (outside Linux it may set `errno`).
    pub fn wake(&self) {
        match &self.wake {
            Wake::Flag(wake_flag) => wake_flag.wake(),
            Wake::Call(wake) => wake(),
        }
    }

    /// Borrows the descriptor, for code that can only write: eight bytes written to it, the number
    /// 1 in native byte order, wake the poller. `None` if the waker calls [a
    /// function](Self::from_fn), because its poller has no kernel.
    ///
    /// Such a wake ends the wait like any other. But if more descriptors are ready than fit into
    /// the buffer, the wake may be reported some waits later. After this call, each wait that
    /// reports a wake costs one read. (If a forked child writes to an inherited descriptor while a
    /// wake of the parent is pending, the two may be reported as two wakes.)
    ///
    /// ```
    /// # use evcore_poller::{Events, Poller};
    /// let (mut poller, mut events) = (Poller::new()?, Events::bounded(4));
    /// let waker = poller.waker();
    /// let fd = waker.descriptor().expect("a kernel is behind the poller");
    /// rustix::io::write(fd, &1_u64.to_ne_bytes())?;
    /// poller.wait(&mut events, None)?;
    /// assert!(events.was_woken());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.wake {
            Wake::Flag(wake_flag) => {
                wake_flag.expose();
                Some(wake_flag.doorbell().write.as_fd())
            }
            Wake::Call(_) => None,
        }
    }

    /// Takes the wakes that no wait has reported yet, and returns whether there were any. The
    /// result is false for a waker that calls a function. Costs one relaxed load if there are none.
    #[inline]
    pub(crate) fn take_pending(&self) -> bool {
        match &self.wake {
            Wake::Flag(wake_flag) => wake_flag.is_pending() && wake_flag.take(),
            // The function leaves its wakes to the backend, which reports them itself.
            Wake::Call(_) => false,
        }
    }
}

#[derive(Clone)]
enum Wake {
    Flag(Arc<WakeFlag<AtomicBool, DoorbellFd>>),
    Call(Arc<dyn Fn() + Send + Sync>),
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(wake_flag) => wake_flag.fmt(f),
            Self::Call(_) => f.write_str("a function"),
        }
    }
}

/// The receiving end of a poller's wakers, which a [`Backend`](crate::Backend) watches and
/// acknowledges.
///
/// ```
/// use evcore_poller::WakeChannel;
///
/// let channel = WakeChannel::new()?;
/// channel.waker().wake();
/// // A backend finds the channel readable, drains the channel, and calls `EventSink::set_woken`:
/// assert!(channel.drain());
/// assert!(!channel.drain(), "a wake is reported once");
/// # Ok::<(), evcore_poller::Error>(())
/// ```
#[derive(Debug)]
pub struct WakeChannel {
    wake_flag: Arc<WakeFlag<AtomicBool, DoorbellFd>>,
}

impl WakeChannel {
    /// Opens an eventfd on Linux, a pair of sockets elsewhere (non-blocking and close-on-exec).
    ///
    /// # Errors
    ///
    /// [`Error::Os`]: most likely, too few descriptors are left.
    pub fn new() -> Result<Self> {
        let wake_flag = WakeFlag::new(AtomicBool::new(false), DoorbellFd::open()?);
        Ok(Self {
            wake_flag: Arc::new(wake_flag),
        })
    }

    /// Returns a waker of this channel.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker {
            wake: Wake::Flag(Arc::clone(&self.wake_flag)),
        }
    }

    /// Reads the notifications, so that a level-triggered watch is silent, and lets the next wake
    /// write again. Returns whether there was a wake to report. The result is false if the
    /// [`Poller`](crate::Poller) has found the wake before the kernel delivered the event.
    ///
    /// Costs one `read` (on a pair of sockets more, if there are 64 bytes or more).
    #[expect(
        clippy::must_use_candidate,
        reason = "if the kernel has just reported one, there is one"
    )]
    pub fn drain(&self) -> bool {
        self.wake_flag.take()
    }

    /// Works as [`drain`](Self::drain), for an edge-triggered watch. An eventfd reports each write,
    /// even if the previous one was not read, so on an eventfd this mostly costs no call.
    #[must_use]
    pub fn acknowledge(&self) -> bool {
        if self.wake_flag.doorbell().read.is_some() {
            // A pair of sockets that is never read becomes full, and then reports no edge.
            return self.drain();
        }
        self.wake_flag.acknowledge()
    }

    /// Reads the unread notifications before another edge-triggered watch begins, in
    /// [`Backend::reset`](crate::Backend::reset), because that watch would report them as an edge.
    /// The new watch then reports a wake only if there is one that was not reported yet.
    ///
    /// Costs one `read`, and a `write` if there is such a wake.
    pub fn renew(&self) {
        self.wake_flag.renew();
    }
}

/// Borrows the descriptor to watch for readability. Only the channel's own methods may read from
/// it. Any other read takes a wake from the poller, and then no later wake writes.
impl AsFd for WakeChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake_flag.doorbell().reading_end()
    }
}

/// A doorbell made of descriptors: an eventfd, or a pair of sockets.
///
/// Both ends live as long as any waker, because a write to a closed pair raises SIGPIPE.
#[derive(Debug)]
struct DoorbellFd {
    write: OwnedFd,
    /// The reading end; `None` if one descriptor is both written and read.
    read: Option<OwnedFd>,
}

impl DoorbellFd {
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

impl Doorbell for DoorbellFd {
    fn notify(&self) {
        // A full doorbell is readable already, so a failed write loses nothing. (An unread counter
        // is full after 2^64 wakes.)
        while rustix::io::write(&self.write, &1u64.to_ne_bytes()) == Err(Errno::INTR) {}
    }

    fn clear(&self) -> u64 {
        let Some(read) = &self.read else {
            let mut counter = [0; 8];
            let counted = rustix::io::read(&self.write, &mut counter);
            return counted.map_or(0, |_| u64::from_ne_bytes(counter));
        };
        // Sockets have bytes in place of a counter, so all bytes are read.
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

    fn descriptor(waker: &Waker) -> BorrowedFd<'_> {
        waker.descriptor().expect("a channel has one")
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
            assert!(!channel.drain(), "a wake is reported once");
        }
    }

    /// The counter of an eventfd. Reading it clears it.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn counter(channel: &WakeChannel) -> u64 {
        channel.wake_flag.doorbell().clear()
    }

    #[test]
    fn wakes_before_an_acknowledgement_write_once() {
        let channel = WakeChannel::new().expect("a channel");
        channel.waker().wake();
        channel.wake_flag.doorbell().clear();
        channel.waker().wake();
        assert!(!is_readable(&channel), "the first wake is still pending");
        assert!(channel.acknowledge());
        channel.waker().wake();
        assert!(is_readable(&channel));
    }

    #[test]
    fn a_wake_is_not_taken_before_it_has_written() {
        let channel = WakeChannel::new().expect("a channel");
        let waker = channel.waker();
        waker.wake();
        channel.wake_flag.doorbell().clear(); // as if the write were still to come
        assert!(!waker.take_pending());
        channel.wake_flag.doorbell().notify();
        assert!(waker.take_pending());
        assert!(!waker.take_pending(), "a wake is taken once");
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn unread_notifications_are_not_another_wake() {
        let channel = WakeChannel::new().expect("a channel");
        let waker = channel.waker();
        for _ in 0..3 {
            waker.wake();
            assert!(channel.acknowledge());
        }
        assert!(!channel.acknowledge(), "there was no other wake");
        assert!(!is_readable(&channel), "the unread notifications were read");
        for _ in 0..2 {
            waker.wake();
            assert!(channel.acknowledge());
            waker.wake();
            assert!(waker.take_pending() && !waker.take_pending());
        }
    }

    /// This happens if a thread is preempted, or a signal handler runs, between the two steps of a
    /// wake.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn a_wake_reported_before_its_write_is_reported_once() {
        let channel = WakeChannel::new().expect("a channel");
        channel.waker().wake();
        assert_eq!(
            counter(&channel),
            1,
            "the write is undone: it is still to come"
        );
        assert!(channel.acknowledge());
        assert!(!channel.acknowledge() && !channel.drain());
        channel.wake_flag.doorbell().notify();
        assert!(!channel.acknowledge(), "the late write is not another wake");
        channel.waker().wake();
        assert!(channel.acknowledge());
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn renew_leaves_only_an_unreported_wake() {
        let channel = WakeChannel::new().expect("a channel");
        let waker = channel.waker();
        channel.renew();
        assert!(!is_readable(&channel));
        waker.wake();
        channel.renew();
        assert!(is_readable(&channel) && channel.acknowledge());
        channel.renew();
        assert!(!is_readable(&channel), "the wake was reported before");
        rustix::io::write(descriptor(&waker), &1u64.to_ne_bytes()).expect("write");
        channel.renew();
        assert!(is_readable(&channel) && channel.acknowledge());
    }

    /// A wake and a write by hand are reported as one wake.
    #[test]
    fn bytes_written_by_hand_are_read() {
        let channel = WakeChannel::new().expect("a channel");
        let waker = channel.waker();
        rustix::io::write(descriptor(&waker), &1u64.to_ne_bytes()).expect("write");
        waker.wake();
        assert!(channel.acknowledge());
        assert!(!is_readable(&channel));
        assert!(!channel.acknowledge() && !waker.take_pending());
    }

    #[test]
    fn eight_bytes_from_elsewhere_wake_too() {
        let channel = WakeChannel::new().expect("a channel");
        rustix::io::write(descriptor(&channel.waker()), &1u64.to_ne_bytes()).expect("write");
        assert!(is_readable(&channel));
        assert!(channel.drain());
        assert!(!is_readable(&channel));
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[test]
    fn a_full_counter_does_not_lose_a_wake() {
        let channel = WakeChannel::new().expect("a channel");
        rustix::io::write(descriptor(&channel.waker()), &(u64::MAX - 1).to_ne_bytes())
            .expect("write");
        channel.waker().wake();
        assert!(is_readable(&channel) && channel.drain());
        channel.waker().wake();
        assert!(channel.drain(), "the next one is not lost either");
    }

    #[test]
    fn a_waker_may_outlive_its_channel() {
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
    fn only_a_waker_of_a_function_has_no_descriptor() {
        assert!(Waker::from_fn(|| {}).descriptor().is_none());
        assert!(
            WakeChannel::new()
                .expect("a channel")
                .waker()
                .descriptor()
                .is_some()
        );
    }
}
