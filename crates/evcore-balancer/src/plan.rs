//! What a worker should do in a turn, as data.

use crate::planted::{Bug, is_planted};

/// What a worker should do in this turn, as data.
///
/// Whether to register or deregister its listeners, or to leave them as they are, follows from
/// [`listening`](Plan::listening) and from what is registered now. The order matters:
///
/// 1. [`Duty::Resign`];
/// 2. register, deregister, or [register again](Plan::register_again);
/// 3. [`Duty::Take`], which says to all that this worker *is* registered;
/// 4. [`calls`](Plan::calls).
///
/// ```
/// use evcore_balancer::{Balancer, Load, Policy, Situation, View};
///
/// let mut registered = false;
/// let full = Load { active: 8, capacity: 8 };
/// let situation = Situation { load: full, ..Situation::at(0) };
/// let no_lock = || unreachable!("no lock here");
/// let plan = Balancer::new(Policy::Off).plan(&situation, no_lock, View::alone);
/// match (registered, plan.listening) {
///     (false, true) => registered = true,  // poller.add(..)
///     (true, false) => registered = false, // poller.remove(..)
///     _ => {}
/// }
/// assert!(!registered);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct Plan {
    /// The listeners should be registered with the poller during this turn's wait.
    pub listening: bool,

    /// Register them exclusively. Never true where
    /// [`Situation::exclusive`](crate::Situation::exclusive) was not, and the same in all plans of
    /// a worker that listens on.
    pub exclusive: bool,

    /// Register them anew even if they are registered: it puts this worker behind the others in the
    /// kernel's order of whom to wake, and finds who was left waiting.
    pub register_again: bool,

    /// The accept lock is held since this plan: post this turn's events instead of delivering them,
    /// run the accepts, release the lock, and only then run handlers.
    ///
    /// Implies [`listening`](Plan::listening). Where it is false, events are delivered directly.
    pub holds_lock: bool,

    /// The wait may not be longer than this many milliseconds; `None`: no limit from here.
    ///
    /// 0 is for a look at who waits, after which the worker is away for a time: nobody spins.
    pub wait_at_most_ms: Option<u64>,

    /// No more connections than this may be accepted in this turn; `None`: no limit from here.
    /// At least 1 in a plan that listens.
    pub accepts_at_most: Option<u32>,

    /// What becomes of this worker's duty to listen.
    pub duty: Duty,

    /// The seat of the worker that is to be woken, to come and listen.
    pub calls: Option<u32>,
}

/// What becomes of a worker's duty to listen, as the [keeper](crate::Keeper).
///
/// ```
/// assert_eq!(evcore_balancer::Duty::default(), evcore_balancer::Duty::Same);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duty {
    /// Nothing: who has it keeps it, who has not does without.
    #[default]
    Same,
    /// This worker is to be the keeper, as soon as its listeners are registered.
    Take,
    /// This worker is the keeper no longer, before its listeners are deregistered: it is full.
    Resign,
}

impl Plan {
    /// A turn without listening.
    pub(crate) const fn away(wait_at_most_ms: Option<u64>) -> Self {
        Self {
            listening: false,
            exclusive: false,
            register_again: false,
            holds_lock: false,
            wait_at_most_ms,
            accepts_at_most: None,
            duty: Duty::Same,
            calls: None,
        }
    }

    /// A turn with the listeners registered, without the lock.
    pub(crate) const fn listen() -> Self {
        Self {
            listening: true,
            ..Self::away(None)
        }
    }

    /// A look at who waits: without the lock, and without waiting.
    pub(crate) fn look() -> Self {
        if is_planted(Bug::LookLeftOut) {
            return Self::away(Some(100));
        }
        Self {
            // Where one look follows another: only a new registration tells of who was there
            // before.
            register_again: true,
            wait_at_most_ms: Some(0),
            ..Self::listen()
        }
    }
}
