//! A periodic `timerfd`. Reading it makes it unreadable and returns the number of ticks.

use std::{os::fd::OwnedFd, time::Duration};

use rustix::{
    io::Errno,
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
};

use super::TickerError;

/// Starts a timer with a period above zero and at most `Ticker::PERIOD_MAX`.
pub(super) fn start(period: Duration) -> Result<OwnedFd, TickerError> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let fd = match timerfd_create(TimerfdClockId::Monotonic, flags) {
        // The kernel has no such call, or a sandbox denies it.
        Err(Errno::NOSYS | Errno::PERM) => return Err(TickerError::Unsupported),
        created => created.map_err(|errno| TickerError::os("creating a timerfd", errno))?,
    };
    timerfd_settime(&fd, TimerfdTimerFlags::empty(), &itimerspec(period))
        .map_err(|errno| TickerError::os("starting a timerfd", errno))?;
    Ok(fd)
}

pub(super) fn read(fd: &OwnedFd) -> rustix::io::Result<u64> {
    let mut ticks = [0; 8];
    rustix::io::read(fd, &mut ticks)?;
    Ok(u64::from_ne_bytes(ticks))
}

fn itimerspec(period: Duration) -> Itimerspec {
    let period = Timespec {
        tv_sec: period.as_secs().try_into().expect("a day fits"),
        tv_nsec: period.subsec_nanos().into(),
    };
    Itimerspec {
        it_interval: period,
        it_value: period,
    }
}
