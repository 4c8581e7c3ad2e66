//! Records of a loop's actions. The flight recorder keeps the records, and `tracing` emits them.

use std::os::fd::RawFd;

use evcore_balancer::{Leadership, Plan, WorkerId};
use evcore_poller::Ready;
use evcore_timer::Timer;
use evcore_token::Token;

use crate::step::Step;

/// Something that an [`EventLoop`](crate::EventLoop) did.
///
/// The [flight recorder](evcore_instrument::InstrumentOptions::flight_recorder) keeps the last
/// records. With the feature [`tracing`](crate#tracing) each record is an event.
///
/// Records carry no time of their own: the loop's time stands still during a turn, and
/// [`TurnBegan`](Self::TurnBegan) has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// A wait has ended.
    TurnBegan {
        /// The number of the turn, as [`Stats::turns`](crate::Stats::turns) counts them.
        turn: u64,
        /// The time of the turn, on the scale of the loop's
        /// [`Clock::monotonic_ns`](evcore_clock::Clock::monotonic_ns).
        at_ns: u64,
        /// The number of events that the kernel reported.
        events: u32,
    },
    /// The turn is over, because the next wait begins.
    TurnEnded {
        /// The time since the turn began, in nanoseconds.
        took_ns: u64,
    },
    /// The balancer made a new plan: it decided, for example, whether this worker listens. The
    /// listeners follow the plan.
    Planned {
        /// True if this worker listens.
        listening: bool,
        /// True if this worker holds the accept lock as long as the plan lasts.
        holds_lock: bool,
        /// The most clients that a turn may accept; `None` without a limit.
        accepts_at_most: Option<u32>,
        /// The change of this worker's leadership of its group.
        leadership: Leadership,
        /// The worker that was notified.
        notified: Option<WorkerId>,
    },
    /// The turn that follows holds the accept lock.
    LockTaken,
    /// The accept lock was released.
    LockReleased,

    /// [`Step::Accepted`](crate::Step::Accepted) was yielded, from the listener of this number.
    Accepted(usize),
    /// [`Step::Ready`](crate::Step::Ready) was yielded.
    Ready(Token, Ready),
    /// [`Step::Expired`](crate::Step::Expired) was yielded.
    Expired(Token, Timer),
    /// [`Step::Woken`](crate::Step::Woken) was yielded.
    Woken,
    /// [`Step::ShuttingDown`](crate::Step::ShuttingDown) was yielded.
    ShuttingDown,
    /// [`Step::Evict`](crate::Step::Evict) was yielded.
    Evict(Token),
    /// An event or a post was dropped because its token is closed; `None` for an event whose
    /// listener is closed or suspended.
    Stale(Option<Token>),

    /// A token was registered, with or without a source.
    Registered {
        /// The token.
        token: Token,
        /// True if the poller watches a source for it.
        watched: bool,
        /// The number of the descriptor that is watched, as `ss` and `strace` print it. `None` for
        /// a token without a source, and for a source of a simulation.
        descriptor: Option<RawFd>,
    },
    /// A token was closed.
    Closed(Token),
    /// A timer was armed or moved.
    Armed {
        /// Its token.
        token: Token,
        /// The timer of that token.
        timer: Timer,
        /// Its deadline, as [`deadline`](crate::TimersMut::deadline) returns it.
        deadline_ms: u64,
    },
    /// A timer was disarmed.
    Disarmed(Token, Timer),
    /// Readiness was posted for a token: by the application, by another thread, or by the loop
    /// itself, which posts the events that it delivers later.
    Posted(Token, Ready),
}

impl Record {
    pub(crate) fn of_plan(plan: &Plan) -> Self {
        Self::Planned {
            listening: plan.listening,
            holds_lock: plan.holds_lock,
            accepts_at_most: plan.accepts_at_most,
            leadership: plan.leadership,
            notified: plan.notify,
        }
    }

    pub(crate) fn of_post(token: Token, ready: Ready, is_current: bool) -> Self {
        if is_current {
            Self::Posted(token, ready)
        } else {
            Self::Stale(Some(token))
        }
    }

    pub(crate) fn of_step<S>(step: &Step<S>) -> Self {
        match *step {
            Step::Accepted(ref new) => Self::Accepted(new.listener),
            Step::Ready(token, ready) => Self::Ready(token, ready),
            Step::Expired(token, timer) => Self::Expired(token, timer),
            Step::Woken => Self::Woken,
            Step::ShuttingDown => Self::ShuttingDown,
            Step::Evict(token) => Self::Evict(token),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_takes_24_bytes() {
        assert_eq!(size_of::<Record>(), 24);
    }
}
