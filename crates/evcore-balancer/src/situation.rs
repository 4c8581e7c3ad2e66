//! What a worker knows of itself when it plans a turn.

/// What a worker knows of itself when a turn begins.
///
/// ```
/// use evcore_balancer::{Load, Situation};
///
/// let load = Load { active: 3, capacity: 1024 };
/// let situation = Situation { load, accepted: 2, ..Situation::at(17) };
/// assert_eq!(situation.now_ms, 17);
/// assert!(!situation.exclusive && !situation.called);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Situation {
    /// The time in milliseconds since any fixed point, from a clock that does not go back.
    pub now_ms: u64,
    /// This worker's load at this moment.
    pub load: Load,
    /// How many connections this worker has accepted since its last plan.
    pub accepted: u32,
    /// Clients may have been left waiting that no other worker has been told of: accepting ended
    /// before there was nobody left.
    pub left_waiting: bool,
    /// Another worker has called this one since its last look, so that it has to look again. A call
    /// that comes after this was asked is told by [`View::called`](crate::View::called).
    pub called: bool,
    /// The poller can register a listener exclusively.
    pub exclusive: bool,
    /// This worker has a [`Seat`](crate::Seat), so it sees all the others there are.
    pub seated: bool,
}

impl Situation {
    /// A worker of which nothing is known but the time; its load counts as full.
    #[must_use]
    pub fn at(now_ms: u64) -> Self {
        Self {
            now_ms,
            ..Self::default()
        }
    }
}

/// How many connections a worker has, and how many it can have.
///
/// ```
/// use evcore_balancer::Load;
///
/// let load = Load { active: 897, capacity: 1024 };
/// assert_eq!(load.free(), 127);
/// assert!(load.is_crowded() && !load.is_full());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Places taken. More than `capacity` counts as full.
    pub active: u32,
    /// Places in all. None at all counts as full.
    pub capacity: u32,
}

impl Load {
    /// How many more connections fit.
    #[must_use]
    pub const fn free(self) -> u32 {
        self.capacity.saturating_sub(self.active)
    }

    /// Not one more connection fits.
    #[must_use]
    pub const fn is_full(self) -> bool {
        self.free() == 0
    }

    /// Less than an eighth of the places is free (nginx: `ngx_accept_disabled` is positive).
    ///
    /// With fewer than eight places in all, an eighth is no whole place and this is never so.
    #[must_use]
    pub const fn is_crowded(self) -> bool {
        self.free() < self.capacity / 8
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn without_an_eighth_nobody_is_crowded() {
        for capacity in 0..8 {
            for active in 0..=capacity + 1 {
                assert!(!Load { active, capacity }.is_crowded());
            }
        }
    }

    proptest! {
        #[test]
        fn crowded_is_what_nginx_computes(active: u32, capacity: u32) {
            let load = Load { active, capacity };
            let accept_disabled = i64::from(capacity / 8) - i64::from(load.free());
            prop_assert_eq!(load.is_crowded(), accept_disabled > 0);
        }
    }
}
