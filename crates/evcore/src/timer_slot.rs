//! The timer slots of a token.

use std::fmt;

/// One of the timers of a token: [`READ`](Self::READ) or [`WRITE`](Self::WRITE), as in nginx, or
/// one of the application's own.
///
/// Each token has two timers, and up to eight with
/// [`Builder::timers_per_token`](crate::Builder::timers_per_token).
///
/// ```
/// use evcore::{EventLoop, Timer};
/// use std::time::Duration;
///
/// /// Limits a whole request.
/// const REQUEST: Timer = Timer::new(2);
///
/// let mut ev = EventLoop::builder().timers_per_token(3).build()?;
/// let token = ev.add_unwatched()?;
/// ev.arm(token, Timer::READ, Duration::from_secs(60));
/// ev.arm(token, REQUEST, Duration::from_secs(300));
/// assert!(ev.disarm(token, REQUEST));
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timer(u8);

impl Timer {
    /// By convention, limits how long the peer may send nothing.
    pub const READ: Self = Self(0);

    /// By convention, limits how long the peer may receive nothing.
    pub const WRITE: Self = Self(1);

    /// The most timers that a token can have.
    pub const MAX_PER_TOKEN: u8 = 8;

    /// The timer with this number; `READ` is 0 and `WRITE` is 1.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// The number of this timer.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::READ => f.write_str("READ"),
            Self::WRITE => f.write_str("WRITE"),
            Self(number) => write!(f, "Timer({number})"),
        }
    }
}
