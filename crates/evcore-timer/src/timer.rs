//! The number that distinguishes the timers of one index, such as the read timer and the write
//! timer of a connection.

use std::fmt;

/// One of the timers of an index in a [`TimerTable`](crate::TimerTable). The application gives each
/// timer a name and a purpose.
///
/// A table has up to eight timers for each index, numbered from 0. [`READ`](Self::READ) and
/// [`WRITE`](Self::WRITE) are the first two. They correspond to nginx's `rev->timer` and
/// `wev->timer`.
///
/// ```
/// use evcore_timer::Timer;
///
/// /// Limits how long a client may send nothing.
/// const IDLE: Timer = Timer::new(0);
/// /// Limits a whole request.
/// const REQUEST: Timer = Timer::new(1);
/// assert_eq!((IDLE, REQUEST.number()), (Timer::READ, 1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timer(u8);

impl Timer {
    /// Timer 0. By convention, it limits how long the peer may send nothing.
    pub const READ: Self = Self(0);

    /// Timer 1. By convention, it limits how long the peer may receive nothing.
    pub const WRITE: Self = Self(1);

    /// Maximum number of timers of an index.
    pub const MAX_PER_INDEX: u8 = 8;

    /// The timer with this number. A table has a fixed number of timers for each index, numbered
    /// from 0. A call of the table panics if an index has no timer with this number.
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
