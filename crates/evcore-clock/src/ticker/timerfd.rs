//! A periodic `timerfd`. It has to be read to tick again, which counts the ticks that went by.

use std::{os::fd::OwnedFd, time::Duration};

use rustix::{
    io::Errno,
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
};

use super::TickerError;

/// Starts a timer of a period that is not zero and not above the most.
pub(super) fn start(period: Duration) -> Result<OwnedFd, TickerError> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let fd = match timerfd_create(TimerfdClockId::Monotonic, flags) {
        Err(Errno::NOSYS) => return Err(TickerError::Unsupported),
        created => created.map_err(|errno| TickerError::os("creating a timerfd", errno))?,
    };
    timerfd_settime(&fd, TimerfdTimerFlags::empty(), &pace(period))
        .map_err(|errno| TickerError::os("starting a timerfd", errno))?;
    Ok(fd)
}

/// How many ticks there were since the last read; `AGAIN` if none.
pub(super) fn read(fd: &OwnedFd) -> rustix::io::Result<u64> {
    let mut ticks = [0; 8];
    rustix::io::read(fd, &mut ticks)?;
    Ok(u64::from_ne_bytes(ticks))
}

fn pace(period: Duration) -> Itimerspec {
    let period = Timespec {
        tv_sec: period
            .as_secs()
            .try_into()
            .expect("a day is not too many seconds"),
        tv_nsec: period.subsec_nanos().into(),
    };
    Itimerspec {
        it_interval: period,
        it_value: period,
    }
}
