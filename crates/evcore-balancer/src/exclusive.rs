//! Everybody listens, and registers again often enough that the kernel is fair.
//!
//! The kernel wakes the waiter that registered first, so with bare exclusive registrations one
//! worker gets nearly all. Registering again puts a worker last.

use std::{num::NonZeroU32, time::Duration};

use crate::{Plan, Situation, policy::whole_ms};

/// The state of a worker that listens exclusively.
#[derive(Clone, Debug)]
pub(crate) struct Exclusive {
    readd_every: u32,
    delay_ms: u64,
    registered: Option<Registered>,
}

/// A registration of the listeners.
#[derive(Clone, Copy, Debug)]
struct Registered {
    at_ms: u64,
    accepted: u32,
}

impl Exclusive {
    pub(crate) fn new(readd_every: NonZeroU32, delay: Duration) -> Self {
        Self {
            readd_every: readd_every.get(),
            delay_ms: whole_ms(delay),
            registered: None,
        }
    }

    pub(crate) fn plan(&mut self, now: &Situation) -> Plan {
        if now.load.is_full() {
            self.registered = None;
            return Plan::away(None);
        }
        if !now.exclusive {
            return Plan::listen();
        }
        let before = self.registered.map(|before| Registered {
            accepted: before.accepted.saturating_add(now.accepted),
            ..before
        });
        let lasting = before.filter(|before| self.lasts(before, now.now_ms));
        let registered = lasting.unwrap_or(Registered {
            at_ms: now.now_ms,
            accepted: 0,
        });
        self.registered = Some(registered);
        Plan {
            exclusive: true,
            register_again: before.is_some() && lasting.is_none(),
            wait_at_most_ms: Some(self.delay_ms - registered.age_ms(now.now_ms)),
            ..Plan::listen()
        }
    }

    fn lasts(&self, registered: &Registered, now_ms: u64) -> bool {
        registered.accepted < self.readd_every && registered.age_ms(now_ms) < self.delay_ms
    }
}

impl Registered {
    fn age_ms(self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Load;

    fn worker() -> Exclusive {
        Exclusive::new(NonZeroU32::new(16).unwrap(), Duration::from_millis(500))
    }

    fn situation(now_ms: u64, accepted: u32) -> Situation {
        Situation {
            load: Load {
                active: 0,
                capacity: 64,
            },
            accepted,
            exclusive: true,
            ..Situation::at(now_ms)
        }
    }

    fn full(now_ms: u64) -> Situation {
        Situation {
            load: Load::default(),
            ..situation(now_ms, 0)
        }
    }

    #[test]
    fn the_listeners_are_registered_again_after_every_sixteen_accepts() {
        let mut worker = worker();
        assert!(!worker.plan(&situation(0, 0)).register_again);
        assert!(!worker.plan(&situation(1, 15)).register_again);
        assert!(worker.plan(&situation(2, 1)).register_again);
        assert!(!worker.plan(&situation(3, 15)).register_again);
        assert!(worker.plan(&situation(4, 40)).register_again);
    }

    #[test]
    fn a_registration_lasts_for_the_delay_and_no_wait_goes_beyond_it() {
        let mut worker = worker();
        let plan = worker.plan(&situation(0, 0));
        assert_eq!(plan.wait_at_most_ms, Some(500));
        let plan = worker.plan(&situation(499, 3));
        assert_eq!(
            (plan.wait_at_most_ms, plan.register_again),
            (Some(1), false)
        );
        let plan = worker.plan(&situation(500, 0));
        assert_eq!(
            (plan.wait_at_most_ms, plan.register_again),
            (Some(500), true)
        );
    }

    #[test]
    fn a_full_worker_stops_and_its_next_registration_is_a_new_one() {
        let mut worker = worker();
        assert!(worker.plan(&situation(0, 0)).listening);
        assert_eq!(worker.plan(&full(1)), Plan::away(None));
        let plan = worker.plan(&situation(2, 15));
        assert!(plan.listening && !plan.register_again);
        assert!(
            !worker.plan(&situation(3, 15)).register_again,
            "they count anew"
        );
    }

    #[test]
    fn a_poller_without_exclusive_wake_ups_is_asked_for_none() {
        let situation = Situation {
            exclusive: false,
            ..situation(0, 100)
        };
        assert_eq!(worker().plan(&situation), Plan::listen());
    }
}
