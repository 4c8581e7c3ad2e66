//! What a balancer decides: what a worker should do in a turn, as data.

use std::time::Duration;

use crate::WorkerId;

/// What a worker should do in this turn.
///
/// Compare [`listening`](Plan::listening) with what is registered now to find out whether to
/// register or to deregister. Do the steps in this order:
///
/// 1. [`Leadership::Release`];
/// 2. register, deregister, or [register again](Plan::register_again);
/// 3. [`Leadership::Acquire`], because the leader's listeners are registered at any time;
/// 4. [`notify`](Plan::notify).
///
/// ```
/// use evcore_balancer::{Balancer, GroupView, Inputs, Load, Policy};
/// use std::time::Duration;
///
/// let mut registered = false;
/// let full = Load { active: 8, capacity: 8 };
/// let inputs = Inputs { load: full, ..Inputs::at(Duration::ZERO) };
/// let no_lock = || unreachable!("this policy has no lock");
/// let plan = Balancer::new(Policy::Off).plan(&inputs, no_lock, GroupView::alone);
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
    /// The listeners should be registered with the poller while this turn waits.
    pub listening: bool,

    /// Register the listeners exclusively. It is true only if
    /// [`Inputs::exclusive`](crate::Inputs::exclusive) is. It changes only together with
    /// [`register_again`](Self::register_again) while a worker keeps listening.
    pub exclusive: bool,

    /// Register the listeners again even if they are registered. That puts this worker behind the
    /// others in the kernel's order of wake-ups, and reports the clients that wait already.
    pub register_again: bool,

    /// The worker holds the accept lock from this plan on. Post this turn's events instead of
    /// delivering them, accept, release the lock, and only then run handlers.
    ///
    /// It implies [`listening`](Plan::listening). Where it is false, deliver events directly.
    pub holds_lock: bool,

    /// The longest time that this turn may wait; `None` if the balancer sets no limit.
    ///
    /// [`Duration::ZERO`] is for one look at the backlog. It never comes twice in a row unless
    /// clients were found, so the loop does not spin.
    pub wait_at_most: Option<Duration>,

    /// How many connections this turn may accept; `None` if the balancer sets no limit.
    /// At least 1 in a plan that listens.
    pub accepts_at_most: Option<u32>,

    /// Whether this worker becomes leader of its group, or stops to lead it.
    pub leadership: Leadership,

    /// The worker to wake, so that it looks at the group and listens.
    pub notify: Option<WorkerId>,
}

/// What a plan does about the leadership of the group; see [`Leader`](crate::Leader).
///
/// ```
/// assert_eq!(evcore_balancer::Leadership::default(), evcore_balancer::Leadership::Keep);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leadership {
    /// No change.
    #[default]
    Keep,
    /// Become leader, after the listeners are registered.
    Acquire,
    /// Step down, before the listeners are deregistered. This worker is full.
    Release,
}

impl Plan {
    /// A turn without listening.
    pub(crate) const fn away(wait_at_most: Option<Duration>) -> Self {
        Self {
            listening: false,
            exclusive: false,
            register_again: false,
            holds_lock: false,
            wait_at_most,
            accepts_at_most: None,
            leadership: Leadership::Keep,
            notify: None,
        }
    }

    /// A turn that listens without the lock.
    pub(crate) const fn listen() -> Self {
        Self {
            listening: true,
            ..Self::away(None)
        }
    }

    /// A turn that looks for waiting clients, without the lock and without waiting.
    pub(crate) const fn probe() -> Self {
        Self {
            // Only a new registration reports the clients that waited before it.
            register_again: true,
            wait_at_most: Some(Duration::ZERO),
            ..Self::listen()
        }
    }
}
