//! A descriptor that becomes readable again and again, at a steady pace.
//!
//! It is what lets a loop leave the clock alone between two ticks and sleep without limit all the
//! same: whatever it waits with, the tick ends the wait.
//! There is no thread and no signal behind it.
//! Where a system has no `timerfd` there is no ticker either, and the error says so.

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

/// A descriptor ([`AsFd`]) that becomes readable once a period, counted by the monotonic clock.
///
/// It stays readable until the tick is [acknowledged](Self::acknowledge); the acknowledgement
/// counts the ticks that nobody met.
/// The ticks keep to the pace that began with the construction, however late they are met.
/// On Linux, Android, FreeBSD (14 and later), illumos and NetBSD (10 and later).
///
/// ```
/// use evcore_clock::{Clock, Ticker};
/// use std::time::Duration;
///
/// let mut ticker = Ticker::every(Duration::from_millis(5))?;
/// let mut clock = Clock::system();
/// let shown_ns = clock.monotonic_ns();
/// while ticker.acknowledge()? == 0 {
///     // A loop would sleep in its poller, which watches the ticker.
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
    /// The longest period: a day. Whoever asks for more has mistaken the unit.
    pub const PERIOD_MAX: Duration = Duration::from_secs(86_400);

    /// Starts a ticker; its first tick comes when one period has passed.
    ///
    /// The period is from a nanosecond to [`PERIOD_MAX`](Self::PERIOD_MAX).
    /// One of a few microseconds keeps a processor busy with nothing else.
    ///
    /// # Errors
    ///
    /// [`TickerError::Period`], [`TickerError::Unsupported`], and what the system says, such as
    /// that there is no descriptor left.
    pub fn every(period: Duration) -> Result<Self, TickerError> {
        if period.is_zero() || period > Self::PERIOD_MAX {
            return Err(TickerError::Period { period });
        }
        let fd = sys::start(period)?;
        Ok(Self { fd, period })
    }

    /// Takes note of the ticks, so that the descriptor is silent until the next one, and returns
    /// how many there were since this was asked last: 0 if it has not ticked. Never blocks.
    ///
    /// # Errors
    ///
    /// What the system says of the read.
    pub fn acknowledge(&mut self) -> Result<u64, TickerError> {
        match sys::read(&self.fd) {
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

/// Why there is no ticker, or no word from it.
///
/// ```
/// use evcore_clock::{Ticker, TickerError};
/// use std::time::Duration;
///
/// let refusal = Ticker::every(Duration::ZERO).unwrap_err();
/// assert!(matches!(refusal, TickerError::Period { .. }));
/// assert_eq!(
///     refusal.to_string(),
///     "a ticker cannot tick every 0ns; give it a period above zero, of a day at most"
/// );
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum TickerError {
    /// The period is zero, or longer than [`Ticker::PERIOD_MAX`].
    Period {
        /// What was asked for.
        period: Duration,
    },
    /// This system has no descriptor that ticks: read the clock after every wait instead.
    Unsupported,
    /// The system refused.
    Os {
        /// What was being done.
        call: &'static str,
        /// What it said.
        source: io::Error,
    },
}

impl TickerError {
    fn os(call: &'static str, errno: Errno) -> Self {
        let source = errno.into();
        Self::Os { call, source }
    }
}

// By hand, so that a clock needs no derive crate.
impl fmt::Display for TickerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Period { period } => write!(
                f,
                "a ticker cannot tick every {period:?}; \
                 give it a period above zero, of a day at most"
            ),
            Self::Unsupported => f.write_str(
                "this system has no descriptor that ticks; read the clock after every wait instead",
            ),
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

/// Keeps the kind and the message.
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
