//! epoll: Linux.
//!
//! Registration goes through rustix. The wait itself does not: `epoll_pwait2` with a remembered
//! fallback is what rustix does not have (its `linux_5_11` feature has no fallback, and features
//! unify, so a library must not turn it on).

#![allow(
    unsafe_code,
    reason = "epoll_pwait2 is called by number, and descriptors are borrowed by number"
)]

use std::{
    fmt,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::epoll::{self, CreateFlags, EventData, EventFlags},
    io::Errno,
};

use crate::{
    Abilities, Backend, Error, Events, Interest, Kind, Mode, Ready, Registration, Result,
    WakeChannel, Waker,
};

/// What the waker's events carry. Its low half is no id, since those end at `MAX_ID`.
const WAKE_KEY: u64 = u64::MAX;

pub(super) struct Epoll {
    fd: OwnedFd,
    wake: WakeChannel,
    // Invariant: as long as the longest event buffer that was waited with.
    buffer: Vec<libc::epoll_event>,
    /// Cleared for good when the kernel says that it has no `epoll_pwait2`.
    has_pwait2: bool,
}

impl Epoll {
    pub(super) fn new() -> Result<Self> {
        let fd = epoll::create(CreateFlags::CLOEXEC).map_err(Error::os("epoll_create1"))?;
        let wake = WakeChannel::new().map_err(|source| Error::Os {
            call: "eventfd",
            source,
        })?;
        // Edge-triggered, an eventfd need not be read: each write is a new edge.
        epoll::add(
            &fd,
            &wake,
            EventData::new_u64(WAKE_KEY),
            EventFlags::IN | EventFlags::ET,
        )
        .map_err(Error::os("epoll_ctl(ADD)"))?;
        Ok(Self {
            fd,
            wake,
            buffer: Vec::new(),
            has_pwait2: true,
        })
    }

    /// One system call; its events are in `buffer`.
    fn wait_once(&mut self, limit: usize, timeout: Option<Duration>) -> Result<usize, Errno> {
        if self.has_pwait2 {
            match self.pwait2(limit, timeout) {
                // A sandbox may answer EPERM to a call that it does not know.
                Err(Errno::NOSYS | Errno::PERM) => self.has_pwait2 = false,
                other => return other,
            }
        }
        self.wait_in_ms(limit, timeout)
    }

    fn pwait2(&mut self, limit: usize, timeout: Option<Duration>) -> Result<usize, Errno> {
        let timeout = timeout.map(KernelTimespec::from);
        let timeout_ptr = timeout
            .as_ref()
            .map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: `buffer` holds at least `limit` entries (`wait` saw to it) and `timeout` outlives
        // the call; the kernel is given no signal mask.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                self.buffer.as_mut_ptr(),
                limit,
                timeout_ptr,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        usize::try_from(n).map_err(|_| last_errno())
    }

    /// Rounded up to a millisecond; as often as it takes where the timeout is longer than the
    /// call can be told.
    fn wait_in_ms(&mut self, limit: usize, timeout: Option<Duration>) -> Result<usize, Errno> {
        let mut left_ms = timeout.map(|timeout| timeout.as_nanos().div_ceil(1_000_000));
        loop {
            let now_ms = left_ms.map_or(-1, |left| i32::try_from(left).unwrap_or(i32::MAX));
            let limit = i32::try_from(limit).unwrap_or(i32::MAX);
            // SAFETY: `buffer` holds at least `limit` entries (`wait` saw to it).
            let n = unsafe {
                libc::epoll_wait(self.fd.as_raw_fd(), self.buffer.as_mut_ptr(), limit, now_ms)
            };
            let n = usize::try_from(n).map_err(|_| last_errno())?;
            match &mut left_ms {
                Some(left) if n == 0 && *left > i32::MAX as u128 => *left -= i32::MAX as u128,
                _ => return Ok(n),
            }
        }
    }
}

impl Backend for Epoll {
    fn name(&self) -> &'static str {
        "epoll"
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            edge: true,
            oneshot: true,
        }
    }

    fn add(&mut self, registration: &Registration) -> Result<()> {
        let data = EventData::new_u64(registration.key);
        epoll::add(&self.fd, borrow(registration), data, flags(registration)).map_err(|errno| {
            let fd = registration.fd;
            match errno {
                Errno::EXIST => Error::AlreadyWatched { fd },
                Errno::PERM => Error::NotPollable {
                    fd,
                    kind: Kind::Epoll,
                },
                other => Error::os("epoll_ctl(ADD)")(other),
            }
        })
    }

    fn modify(&mut self, registration: &Registration) -> Result<()> {
        let data = EventData::new_u64(registration.key);
        epoll::modify(&self.fd, borrow(registration), data, flags(registration))
            .map_err(Error::os("epoll_ctl(MOD)"))
    }

    fn remove(&mut self, registration: &Registration) -> Result<()> {
        epoll::delete(&self.fd, borrow(registration)).map_err(Error::os("epoll_ctl(DEL)"))
    }

    /// The kernel forgets a file when its last descriptor is closed.
    fn forget(&mut self, _: &Registration) {}

    fn wait(&mut self, events: &mut Events, timeout: Option<Duration>) -> Result<()> {
        // A wake-up takes the place of an event, which the next wait then brings.
        let limit = events.room();
        if self.buffer.len() < limit {
            self.buffer
                .resize(limit, libc::epoll_event { events: 0, u64: 0 });
        }
        let n = match self.wait_once(limit, timeout) {
            Ok(n) => n,
            Err(Errno::INTR) => return Err(Error::Interrupted),
            Err(errno) => return Err(Error::os("epoll_pwait2")(errno)),
        };
        for event in &self.buffer[..n] {
            // The entry is packed: its fields are copied, never borrowed.
            let (key, flags) = (event.u64, event.events);
            if key == WAKE_KEY {
                self.wake.acknowledge();
                events.set_woken();
            } else {
                events.push(key, Ready::from_linux(flags));
            }
        }
        Ok(())
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

/// The kernel's own timespec, 64 bits wide on every architecture, unlike libc's.
#[repr(C)]
struct KernelTimespec {
    seconds: i64,
    nanoseconds: i64,
}

impl From<Duration> for KernelTimespec {
    /// Longer than the kernel can count (292 thousand million years) is as long as it can.
    fn from(timeout: Duration) -> Self {
        Self {
            seconds: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: i64::from(timeout.subsec_nanos()),
        }
    }
}

fn flags(registration: &Registration) -> EventFlags {
    let mut flags = match registration.mode {
        Mode::Level => EventFlags::empty(),
        Mode::Edge => EventFlags::ET,
        Mode::Oneshot => EventFlags::ONESHOT,
    };
    let interest = registration.interest;
    if interest.contains(Interest::READ) {
        flags |= EventFlags::IN | EventFlags::RDHUP;
    }
    if interest.contains(Interest::WRITE) {
        flags |= EventFlags::OUT;
    }
    if interest.contains(Interest::PRIORITY) {
        flags |= EventFlags::PRI;
    }
    flags
}

fn borrow(registration: &Registration) -> BorrowedFd<'_> {
    // SAFETY: the user keeps the descriptor open while it is registered. Where it does not, the
    // kernel answers EBADF or means another file: a wrong watch, and no memory is touched.
    unsafe { BorrowedFd::borrow_raw(registration.fd) }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}
