//! The epoll backend, for Linux. A *set* is an epoll instance.
//!
//! Calls go through rustix, which inlines the system call, so that the wait saves no registers. The
//! exception is `epoll_pwait2`, because rustix does not remember that a kernel has refused it.
//! (Rustix's feature `linux_5_11` makes every wait an `epoll_pwait2`. Cargo unifies features, so a
//! library must not enable it.)

#![allow(
    unsafe_code,
    reason = "epoll_pwait2 is called by number, and the kernel writes events; ioctl of epoll"
)]

use std::{
    fmt,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{
        Timespec,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
    io::Errno,
    ioctl::{self, Setter},
};

use super::{
    chunked_wait::{LONGEST_IN_MS, chunked_wait},
    errno,
};
use crate::{
    backend::{Backend, Capabilities, Registration},
    backend_kind::BackendKind,
    busy_poll::BusyPoll,
    error::{Error, Result},
    event_sink::EventSink,
    events::Events,
    id::MAX_ID,
    interest::Mode,
    refill::Refill,
    waker::{WakeChannel, Waker},
};

/// The key of the waker's events. Its low half is above `MAX_ID`, so it is not an id.
const WAKE_KEY: u64 = u64::MAX;

/// The bits of a key that are its id.
const ID_BITS: u64 = u32::MAX as u64;

// The union of the bits of any ids is never above `MAX_ID`.
const _: () = assert!(MAX_ID.count_zeros() == MAX_ID.leading_zeros());

pub(crate) struct Epoll {
    fd: OwnedFd,
    wake: WakeChannel,
    /// True for [`BackendKind::EpollMasked`], which does not use the kernel's `Edge`.
    masks_edge: bool,
    /// False after the system has refused `epoll_pwait2`.
    has_pwait2: bool,
    /// The parameters that a new set also gets.
    busy_poll: Option<BusyPoll>,
}

impl Epoll {
    pub(super) fn new() -> Result<Self> {
        let wake = WakeChannel::new()?;
        Ok(Self {
            fd: set_with(&wake)?,
            wake,
            masks_edge: false,
            has_pwait2: true,
            busy_poll: None,
        })
    }

    pub(super) fn masked() -> Result<Self> {
        Ok(Self {
            masks_edge: true,
            ..Self::new()?
        })
    }

    const fn kind(&self) -> BackendKind {
        if self.masks_edge {
            BackendKind::EpollMasked
        } else {
            BackendKind::Epoll
        }
    }

    pub(super) fn set_busy_poll(&mut self, parameters: BusyPoll) -> Result<()> {
        match set_parameters(&self.fd, parameters) {
            Ok(()) => self.busy_poll = Some(parameters),
            // The kernel lacks the call, or busy polling.
            Err(Errno::NOTTY | Errno::OPNOTSUPP) => {
                let backend = self.kind().name();
                return Err(Error::NoBusyPoll { backend });
            }
            Err(other) => return Err(Error::os("ioctl(EPIOCSPARAMS)")(other)),
        }
        Ok(())
    }

    #[inline]
    fn insert(&self, registration: &Registration) -> Result<(), Errno> {
        let data = EventData::new_u64(registration.key);
        epoll::add(
            &self.fd,
            registration.borrow_fd(),
            data,
            self.flags(registration),
        )
    }

    /// Replaces the entry of a descriptor that is already in the set.
    ///
    /// The poller never gives a descriptor two keys. So the old entry is left over from a
    /// registration that was removed before a close, and its file is still open under the same
    /// number. Or the descriptor is the waker's, whose entry stays.
    fn replace(&self, registration: &Registration) -> Result<(), Errno> {
        if registration.fd == self.wake.as_fd().as_raw_fd() {
            return Err(Errno::EXIST);
        }
        // `MOD` is not used, because the kernel cannot modify an exclusive registration.
        epoll::delete(&self.fd, registration.borrow_fd())?;
        self.insert(registration)
    }

    #[cold]
    fn add_refused(&self, registration: &Registration, refusal: Errno) -> Result<()> {
        let result = match refusal {
            Errno::EXIST => self.replace(registration),
            refusal => Err(refusal),
        };
        result.map_err(|errno| {
            let fd = registration.fd;
            match errno {
                // It is the waker's descriptor, because `replace` has replaced any other entry.
                Errno::EXIST => Error::AlreadyWatched { fd },
                // A file without readiness, such as a regular file or a directory.
                Errno::PERM => Error::NotPollable {
                    fd,
                    kind: self.kind(),
                },
                other => Error::os("epoll_ctl(ADD)")(other),
            }
        })
    }

    /// Returns whether a wait with this timeout is made in milliseconds. `epoll_wait` takes a tenth
    /// of a microsecond less than `epoll_pwait2` if it does not sleep, because the kernel has no
    /// structure to copy and check.
    ///
    /// To use `epoll_wait`, a timeout from a second to 24 days is rounded up. The kernel ends such
    /// a wait up to a thousandth of its length late anyway, to join its timer with others.
    #[inline]
    fn is_in_ms(&self, timeout: Duration) -> bool {
        let seconds = timeout.as_secs();
        if (1..LONGEST_IN_MS.as_secs()).contains(&seconds) {
            return true;
        }
        seconds == 0 && (timeout.subsec_nanos() % 1_000_000 == 0 || !self.has_pwait2)
    }

    #[inline]
    fn flags(&self, registration: &Registration) -> EventFlags {
        let mut flags = match registration.mode {
            Mode::Oneshot => EventFlags::ONESHOT,
            mode if mode.is_edge() && !self.masks_edge => EventFlags::ET,
            _ => EventFlags::empty(),
        };
        if registration.mode.is_exclusive() {
            // With this flag, the kernel refuses RDHUP, PRI and ONESHOT.
            flags |= EventFlags::EXCLUSIVE;
        } else if registration.ends.is_read_closed() {
            flags |= EventFlags::RDHUP;
        }
        // Interest has the bits of IN, PRI and OUT.
        flags | EventFlags::from_bits_retain(registration.interest.bits().into())
    }

    /// Waits in nanoseconds, or in milliseconds if the kernel has no `epoll_pwait2`.
    #[inline(never)] // so that a wait in milliseconds saves no registers for it
    fn wait_in_ns(&mut self, events: &mut Events, timeout: Duration) -> Result<usize, Errno> {
        if self.has_pwait2 {
            match self.pwait2(events, timeout) {
                // A sandbox may return EPERM for an unknown call.
                Err(Errno::NOSYS | Errno::PERM) => self.has_pwait2 = false,
                waited => return waited,
            }
        }
        chunked_wait(Some(timeout), LONGEST_IN_MS, |chunk| {
            self.wait_in_ms(events, events.len(), chunk)
        })
    }

    fn pwait2(&self, events: &mut Events, timeout: Duration) -> Result<usize, Errno> {
        let timeout = KernelTimespec::from(timeout);
        let entries = events.entries_mut();
        let places = entries.spare_capacity_mut();
        // SAFETY: the kernel writes at most `places.len()` events, which have the layout of an
        // `Entry` (`entry.rs` asserts it). `timeout` outlives the call. There is no signal mask.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                places.as_mut_ptr(),
                places.len(),
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        let n = usize::try_from(n).map_err(|_| errno::last())?;
        // SAFETY: the kernel wrote the first `n` places behind the entries that were there; `n` is
        // what its call returned, and at most the number of places.
        unsafe { entries.set_len(entries.len() + n) };
        Ok(n)
    }

    /// Makes one system call that puts events behind the first `kept`, and returns their number.
    /// `timeout` is at most [`LONGEST_IN_MS`], and is rounded up to a whole number of milliseconds.
    #[inline(always)] // into the wait
    fn wait_in_ms(
        &self,
        events: &mut Events,
        kept: usize,
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos() as _,
        });
        let entries = events.entries_mut();
        let (start, capacity) = (entries.as_mut_ptr(), entries.capacity());
        let places = std::ptr::slice_from_raw_parts_mut(start.cast(), capacity);
        // SAFETY: these are the places of the vector, which is borrowed exclusively. An `Entry` has
        // the layout of a kernel's event (`entry.rs` asserts it).
        let places: &mut [MaybeUninit<epoll::Event>] = unsafe { &mut *places };
        let n = epoll::wait(&self.fd, &mut places[kept..], timeout.as_ref())?
            .0
            .len();
        // SAFETY: the kernel wrote the first `n` places behind the `kept` entries.
        unsafe { entries.set_len(kept + n) };
        Ok(n)
    }

    /// Waits, and replaces all events. The waker's event is left among them.
    #[inline(always)] // into the poller's wait, which consists mostly of it
    pub(super) fn refill(&mut self, events: &mut Events, timeout: Option<Duration>) -> Refill {
        // The number of events is dropped, because the buffer has it. Without the number, the
        // result fits into a register.
        let waited = match timeout {
            Some(timeout) if !self.is_in_ms(timeout) => {
                events.clear();
                self.wait_in_ns(events, timeout).map(drop)
            }
            _ => self.wait_in_ms(events, 0, timeout).map(drop),
        };
        match waited {
            Err(errno) => Refill::Failed(errno),
            Ok(()) => events.note_refilled(is_wake),
        }
    }

    /// Removes the waker's event from `events`, if it is there, and records the wake. Fails with
    /// [`Error::Interrupted`] if the wake was reported before and no other event is left, so that
    /// the wait goes on.
    #[cold]
    pub(super) fn take_wake(&mut self, events: &mut Events) -> Result<()> {
        let count = events.len();
        events.retain_from(0, |event| event.key != WAKE_KEY);
        if events.len() == count {
            return Ok(());
        }
        if self.wake.acknowledge() {
            events.set_woken();
        } else if events.is_empty() {
            return Err(Error::Interrupted);
        }
        Ok(())
    }
}

impl Backend for Epoll {
    fn name(&self) -> &'static str {
        self.kind().name()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            edge: !self.masks_edge,
            oneshot: true,
            exclusive: true,
            watches_files: true,
            batches_changes: false,
            simulated: false,
        }
    }

    #[inline]
    fn add(&mut self, registration: &Registration) -> Result<()> {
        match self.insert(registration) {
            Ok(()) => Ok(()),
            Err(errno) => self.add_refused(registration, errno),
        }
    }

    fn modify(&mut self, registration: &Registration) -> Result<()> {
        if registration.mode.is_exclusive() {
            // The kernel cannot modify an exclusive registration.
            self.remove(registration)?;
            return self.add(registration);
        }
        let data = EventData::new_u64(registration.key);
        epoll::modify(
            &self.fd,
            registration.borrow_fd(),
            data,
            self.flags(registration),
        )
        .map_err(Error::os("epoll_ctl(MOD)"))
    }

    fn remove(&mut self, registration: &Registration) -> Result<()> {
        epoll::delete(&self.fd, registration.borrow_fd()).map_err(Error::os("epoll_ctl(DEL)"))
    }

    /// Does nothing, because the kernel drops a file when its last descriptor is closed.
    #[inline]
    fn remove_before_close(&mut self, _: &Registration) {}

    fn wait(&mut self, events: EventSink<'_>, timeout: Option<Duration>) -> Result<()> {
        let events = events.into_events();
        // The waker's event takes one place in the buffer. A later wait reports an event that did
        // not fit because of that.
        let waited = match timeout {
            Some(timeout) if !self.is_in_ms(timeout) => self.wait_in_ns(events, timeout),
            _ => self.wait_in_ms(events, events.len(), timeout),
        };
        if let Err(errno) = waited {
            return Err(failed(errno));
        }
        if is_wake(events.note_added()) {
            return self.take_wake(events);
        }
        Ok(())
    }

    /// Opens a new set. A registration belongs to a file, and can be removed only by the number of
    /// its descriptor. If that descriptor was closed and a duplicate is open, only a new set
    /// removes the registration.
    fn reset(&mut self) -> Result<bool> {
        // This reads the eventfd. Otherwise the new set would report an old wake again.
        self.wake.renew();
        let new = set_with(&self.wake)?;
        if let Some(parameters) = self.busy_poll {
            // The kernel refuses what it accepted before if the process has given up the capability
            // for a large budget. A wait must not fail because of that, so the new set does not
            // poll.
            let _ = set_parameters(&new, parameters);
        }
        self.fd = new;
        Ok(true)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn waker(&self) -> Waker {
        self.wake.waker()
    }
}

impl fmt::Debug for Epoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoll")
            .field("fd", &self.fd)
            .field("has_pwait2", &self.has_pwait2)
            .finish_non_exhaustive()
    }
}

/// Opens a set that watches only the waker.
fn set_with(wake: &WakeChannel) -> Result<OwnedFd> {
    let fd = epoll::create(CreateFlags::CLOEXEC).map_err(Error::os("epoll_create1"))?;
    // An edge-triggered eventfd need not be read, because each write is a new edge.
    epoll::add(
        &fd,
        wake,
        EventData::new_u64(WAKE_KEY),
        EventFlags::IN | EventFlags::ET,
    )
    .map_err(Error::os("epoll_ctl(ADD)"))?;
    Ok(fd)
}

/// The kernel's `epoll_params`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Parameters {
    busy_poll_us: u32,
    busy_poll_budget: u16,
    prefer_busy_poll: u8,
    /// Always 0.
    padding: u8,
}

impl From<BusyPoll> for Parameters {
    fn from(parameters: BusyPoll) -> Self {
        let us = parameters.time.as_nanos().div_ceil(1_000);
        let most = i32::MAX.unsigned_abs(); // the kernel's limit
        Self {
            busy_poll_us: u32::try_from(us).map_or(most, |us| us.min(most)),
            busy_poll_budget: parameters.budget,
            prefer_busy_poll: parameters.is_preferred.into(),
            padding: 0,
        }
    }
}

/// Makes the call `EPIOCSPARAMS` (Linux 6.9).
fn set_parameters(set: &OwnedFd, parameters: BusyPoll) -> Result<(), Errno> {
    const EPIOCSPARAMS: ioctl::Opcode = ioctl::opcode::write::<Parameters>(0x8a, 1);
    // SAFETY: the call reads a `Parameters`, which has the layout of the kernel's `epoll_params`.
    let call = unsafe { Setter::<EPIOCSPARAMS, Parameters>::new(parameters.into()) };
    // SAFETY: the descriptor is of epoll, where the call only reads its argument.
    unsafe { ioctl::ioctl(set, call) }
}

/// The kernel's timespec. Its fields have 64 bits on every architecture, unlike libc's.
#[repr(C)]
pub(super) struct KernelTimespec {
    seconds: i64,
    nanoseconds: i64,
}

impl From<Duration> for KernelTimespec {
    /// Converts a timeout, and limits it to 64 bits of seconds.
    fn from(timeout: Duration) -> Self {
        Self {
            seconds: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: i64::from(timeout.subsec_nanos()),
        }
    }
}

/// Returns whether `keys`, the bitwise union of some keys, includes the waker's key. Only that key
/// has bits above `MAX_ID` in its low half.
#[inline]
fn is_wake(keys: u64) -> bool {
    keys & ID_BITS > u64::from(MAX_ID)
}

#[cold]
pub(crate) fn failed(errno: Errno) -> Error {
    Error::of_wait("epoll_wait", errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The backend as on a Linux before 5.11.
    fn without_pwait2() -> Epoll {
        let mut epoll = Epoll::new().expect("epoll");
        epoll.has_pwait2 = false;
        epoll
    }

    fn busy_poll_of(epoll: &Epoll) -> (u32, u16, u8) {
        const EPIOCGPARAMS: ioctl::Opcode = ioctl::opcode::read::<Parameters>(0x8a, 2);
        // SAFETY: the call writes a `Parameters`, which has the layout of the kernel's
        // `epoll_params`.
        let call = unsafe { ioctl::Getter::<EPIOCGPARAMS, Parameters>::new() };
        // SAFETY: the descriptor is of epoll, where the call only writes its argument.
        let read = unsafe { ioctl::ioctl(&epoll.fd, call) }.expect("a set has parameters");
        (
            read.busy_poll_us,
            read.busy_poll_budget,
            read.prefer_busy_poll,
        )
    }

    #[test]
    fn a_new_set_gets_the_busy_poll_parameters() {
        let mut epoll = Epoll::new().expect("epoll");
        let parameters = BusyPoll::new(Duration::from_nanos(49_001))
            .budget(16)
            .prefer(true);
        match epoll.set_busy_poll(parameters) {
            Err(Error::NoBusyPoll { backend: "epoll" }) => {
                return evcore_testing::not_run("this kernel has no busy polling of epoll");
            }
            set => set.expect("allowed for anyone"),
        }
        assert_eq!(busy_poll_of(&epoll), (50, 16, 1));
        assert!(epoll.reset().expect("a new set"));
        assert_eq!(busy_poll_of(&epoll), (50, 16, 1));
        let off = BusyPoll::new(Duration::ZERO);
        epoll.set_busy_poll(off).expect("it is allowed");
        assert_eq!(busy_poll_of(&epoll), (0, 0, 0));
    }

    #[test]
    fn the_longest_busy_poll_is_limited() {
        let parameters = Parameters::from(BusyPoll::new(Duration::MAX));
        assert_eq!(parameters.busy_poll_us, 2_147_483_647);
    }

    #[test]
    fn whole_milliseconds_and_long_waits_use_the_older_call() {
        let mut epoll = Epoll::new().expect("epoll");
        for ms in [0, 1, 1_001, i32::MAX.unsigned_abs() / 1_000 * 1_000 - 1] {
            assert!(epoll.is_in_ms(Duration::from_millis(ms.into())), "{ms}");
        }
        for ns in [1, 1_000_001, 999_999_999] {
            assert!(!epoll.is_in_ms(Duration::from_nanos(ns)), "{ns}");
        }
        for ns in [1_000_000_001, 2_000_999_999] {
            assert!(
                epoll.is_in_ms(Duration::from_nanos(ns)),
                "{ns} is rounded up"
            );
        }
        assert!(!epoll.is_in_ms(LONGEST_IN_MS + Duration::from_millis(1)));

        epoll.has_pwait2 = false;
        assert!(epoll.is_in_ms(Duration::from_nanos(1)), "rounded up");
        assert!(!epoll.is_in_ms(Duration::MAX), "in chunks");
    }

    #[test]
    fn the_longest_timeout_does_not_overflow() {
        let timeout = KernelTimespec::from(Duration::MAX);
        assert_eq!(timeout.seconds, i64::MAX);
        assert!((0..1_000_000_000).contains(&timeout.nanoseconds));
    }

    #[test]
    fn a_kernel_without_epoll_pwait2_waits_too() {
        let mut epoll = without_pwait2();
        let mut events = Events::bounded(4);
        epoll
            .wait((&mut events).into(), Some(Duration::from_nanos(1)))
            .expect("a wait");
        assert!(!events.was_woken());
        for timeout in [None, Some(Duration::MAX)] {
            epoll.waker().wake();
            events.clear();
            epoll.wait((&mut events).into(), timeout).expect("a wait");
            assert!(events.was_woken() && events.is_empty(), "{timeout:?}");
        }
    }
}
