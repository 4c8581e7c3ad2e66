//! The timer slots of a token.

use std::fmt;

/// One of the timers of a token. The application gives each a name and a purpose.
///
/// Each token has two timers, with the numbers 0 and 1, and up to eight with
/// [`Builder::timers_per_token`](crate::Builder::timers_per_token). [`READ`](Self::READ) and
/// [`WRITE`](Self::WRITE) are nginx's names for the first two, `rev->timer` and `wev->timer`.
///
/// ```
/// use evcore::{EventLoop, Timer};
/// use std::time::Duration;
///
/// /// Limits how long a client may send nothing.
/// const IDLE: Timer = Timer::new(0);
/// /// Limits a whole request.
/// const REQUEST: Timer = Timer::new(1);
///
/// let mut ev = EventLoop::builder().build()?;
/// let token = ev.add_unwatched()?;
/// ev.arm(token, IDLE, Duration::from_secs(60));
/// ev.arm(token, REQUEST, Duration::from_secs(300));
/// assert!(ev.disarm(token, REQUEST));
/// # Ok::<(), evcore::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timer(u8);

impl Timer {
    /// Timer 0. By convention, it limits how long the peer may send nothing.
    pub const READ: Self = Self(0);

    /// Timer 1. By convention, it limits how long the peer may receive nothing.
    pub const WRITE: Self = Self(1);

    /// The most timers that a token can have.
    pub const MAX_PER_TOKEN: u8 = 8;

    /// The timer with this number, which must be below the number of timers of each token. A call with
    /// any other timer panics.
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
