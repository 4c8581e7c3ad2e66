//! A descriptor that becomes readable once per period. Each such event, a *tick*, ends any poller's
//! wait, so a loop with a ticker needs no timeout, no thread and no signal to read its clock at a
//! fixed rate.

use std::{
    error, fmt, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::io::Errno;

#[cfg(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd",
    target_os = "illumos",
    target_os = "netbsd"
))]
#[path = "ticker/timerfd.rs"]
mod sys;

#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd",
    target_os = "illumos",
    target_os = "netbsd"
)))]
#[path = "ticker/absent.rs"]
mod sys;

/// A descriptor ([`AsFd`]) that becomes readable once per period of the monotonic clock.
///
/// It stays readable until [`acknowledge`](Self::acknowledge), which returns the number of ticks
/// since its last call. Ticks come at multiples of the period after the start, even if some are
/// acknowledged late. Available on Linux, Android, FreeBSD (14 and later), illumos and NetBSD (10
/// and later).
///
/// ```
/// use evcore_clock::{Clock, Ticker};
/// use std::time::Duration;
///
/// let mut ticker = Ticker::every(Duration::from_millis(5))?;
/// let mut clock = Clock::system();
/// let shown_ns = clock.monotonic_ns();
/// while ticker.acknowledge()? == 0 {
///     // A loop registers the ticker with its poller and sleeps there.
///     std::thread::yield_now();
/// }
/// clock.update();
/// assert!(clock.monotonic_ns() > shown_ns);
/// # Ok::<(), evcore_clock::TickerError>(())
/// ```
#[derive(Debug)]
pub struct Ticker {
    fd: OwnedFd,
    period: Duration,
}

impl Ticker {
    /// The longest period: a day. A longer period is probably a mistake in the unit.
    pub const PERIOD_MAX: Duration = Duration::from_secs(86_400);

    /// Starts a ticker; its first tick comes after one period.
    ///
    /// The period is from a nanosecond to [`PERIOD_MAX`](Self::PERIOD_MAX). A period of a few
    /// microseconds keeps a processor busy.
    ///
    /// # Errors
    ///
    /// [`TickerError::Period`] if the period is out of range, [`TickerError::Unsupported`] if the
    /// system has no `timerfd` or does not permit it, and [`TickerError::Os`] if the system refuses
    /// the call for another reason, for example because no descriptor is left.
    pub fn every(period: Duration) -> Result<Self, TickerError> {
        if period.is_zero() || period > Self::PERIOD_MAX {
            return Err(TickerError::Period { period });
        }
        let fd = sys::start(period)?;
        Ok(Self { fd, period })
    }

    /// Makes the descriptor unreadable until the next tick, and returns the number of ticks since
    /// the last call; 0 if there was none. Never blocks.
    ///
    /// # Errors
    ///
    /// [`TickerError::Os`] if the read fails.
    pub fn acknowledge(&mut self) -> Result<u64, TickerError> {
        match sys::read(&self.fd) {
            // There was no tick since the last read, or a signal has interrupted the read, which
            // loses no tick.
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            ticks => ticks.map_err(|errno| TickerError::os("reading a timerfd", errno)),
        }
    }

    /// The time from one tick to the next.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }
}

impl AsFd for Ticker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The error of creating or reading a [`Ticker`].
///
/// ```
/// use evcore_clock::{Ticker, TickerError};
/// use std::time::Duration;
///
/// let refusal = Ticker::every(Duration::ZERO).unwrap_err();
/// assert!(matches!(refusal, TickerError::Period { .. }));
/// assert_eq!(
///     refusal.to_string(),
///     "a ticker cannot have a period of 0ns; use a period above zero and at most a day"
/// );
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum TickerError {
    /// The period is zero, or longer than [`Ticker::PERIOD_MAX`].
    Period {
        /// The period that was requested.
        period: Duration,
    },
    /// This system has no `timerfd`, or does not permit it: read the clock after every wait
    /// instead.
    Unsupported,
    /// The system refused.
    Os {
        /// The operation that failed.
        call: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

impl TickerError {
    fn os(call: &'static str, errno: Errno) -> Self {
        let source = errno.into();
        Self::Os { call, source }
    }
}

// The trait is implemented by hand, so that the crate needs no derive crate.
impl fmt::Display for TickerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Period { period } => write!(
                f,
                "a ticker cannot have a period of {period:?}; \
                 use a period above zero and at most a day"
            ),
            Self::Unsupported => {
                f.write_str("this system has no timerfd; read the clock after every wait instead")
            }
            Self::Os { call, source } => write!(f, "{call}: {source}"),
        }
    }
}

impl error::Error for TickerError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Os { source, .. } => Some(source),
            Self::Period { .. } | Self::Unsupported => None,
        }
    }
}

/// Keeps the message, with the matching kind.
impl From<TickerError> for io::Error {
    fn from(error: TickerError) -> Self {
        let kind = match &error {
            TickerError::Period { .. } => io::ErrorKind::InvalidInput,
            TickerError::Unsupported => io::ErrorKind::Unsupported,
            TickerError::Os { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}
