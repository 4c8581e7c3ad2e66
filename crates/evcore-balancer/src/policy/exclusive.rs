//! The policy `Exclusive`: every worker with room listens, and registers its listeners again often
//! enough that the kernel wakes the workers in rotation.
//!
//! The kernel wakes the worker that registered first, so one worker would get nearly all
//! connections if each registered only once. A worker that registers again becomes the last in this
//! order.
//!
//! A worker also registers again after the delay of the policy. If its group meets no client for
//! some time, the worker rests instead ([`Quiet`]): it listens without exclusive wake-ups and waits
//! without a limit.

use std::{num::NonZeroU32, time::Duration};

use super::{nanos, quiet::Quiet, whole_ms};
use crate::{
    inputs::{GroupView, Inputs},
    plan::Plan,
};

#[derive(Clone, Debug)]
pub(crate) struct Exclusive {
    readd_every: u32,
    delay_ns: u64,
    registration: Option<Registration>,
    quiet: Quiet,
    rests: bool,
}

#[derive(Clone, Copy, Debug)]
struct Registration {
    since_ns: u64,
    accepted: u32,
}

impl Exclusive {
    pub(crate) fn new(readd_every: NonZeroU32, delay: Duration) -> Self {
        Self {
            readd_every: readd_every.get(),
            delay_ns: whole_ms(delay),
            registration: None,
            quiet: Quiet::new(whole_ms(delay)),
            rests: false,
        }
    }

    pub(crate) fn plan(&mut self, now: &Inputs, sync: impl FnOnce() -> GroupView) -> Plan {
        let (view, now_ns) = (sync(), nanos(now.now));
        let is_quiet = self.quiet.update(now, &view, now_ns);
        let plan = self.listen(now, &view, is_quiet, now_ns);
        self.rests = plan.rests;
        Plan {
            rouses: !plan.rests && self.quiet.rouses(now, &view),
            ..plan
        }
    }

    fn listen(&mut self, now: &Inputs, view: &GroupView, is_quiet: bool, now_ns: u64) -> Plan {
        if now.load.is_full() {
            self.registration = None;
            // A full worker forwards its notification, so that another worker looks for the
            // clients.
            let leaves_clients = now.may_have_left_clients || now.notified || view.notified;
            return Plan {
                notify: view.least_loaded_id().filter(|_| leaves_clients),
                ..Plan::away(None)
            };
        }
        if !now.exclusive {
            return Plan::listen();
        }
        let ends_rest = Quiet::ends_rest(now, view);
        if self.rests && !ends_rest {
            return Plan::rest();
        }
        let before = self.registration.map(|before| Registration {
            accepted: before.accepted.saturating_add(now.accepted),
            ..before
        });
        let is_notified = now.notified || view.notified;
        let lasting = before
            .filter(|before| self.lasts(before, now_ns))
            .filter(|_| !self.rests && !is_notified);
        if lasting.is_none() && before.is_some() && is_quiet && now.in_group && !ends_rest {
            self.quiet.begin_rest();
            return Plan {
                register_again: true,
                ..Plan::rest()
            };
        }
        let registration = lasting.unwrap_or(Registration {
            since_ns: now_ns,
            accepted: 0,
        });
        self.registration = Some(registration);
        let left_ns = self.delay_ns - registration.age_ns(now_ns);
        Plan {
            exclusive: true,
            register_again: before.is_some() && lasting.is_none(),
            wait_at_most: Some(Duration::from_nanos(left_ns)),
            ..Plan::listen()
        }
    }

    fn lasts(&self, registration: &Registration, now_ns: u64) -> bool {
        registration.accepted < self.readd_every && registration.age_ns(now_ns) < self.delay_ns
    }
}

impl Registration {
    fn age_ns(self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.since_ns)
    }
}

#[cfg(all(test, not(evcore_loom)))]
mod tests {
    use super::*;
    use crate::inputs::Load;

    fn worker() -> Exclusive {
        Exclusive::new(NonZeroU32::new(16).unwrap(), Duration::from_millis(500))
    }

    fn at(now_ms: u64, accepted: u32) -> Inputs {
        Inputs {
            load: Load {
                active: 0,
                capacity: 64,
            },
            accepted,
            exclusive: true,
            ..Inputs::at(Duration::from_millis(now_ms))
        }
    }

    fn full(now_ms: u64) -> Inputs {
        Inputs {
            load: Load::default(),
            ..at(now_ms, 0)
        }
    }

    fn see(worker: &mut Exclusive, now: &Inputs) -> Plan {
        worker.plan(now, GroupView::alone)
    }

    fn ms(ms: u64) -> Option<Duration> {
        Some(Duration::from_millis(ms))
    }

    #[test]
    fn a_worker_registers_again_after_every_sixteen_accepts() {
        let mut worker = worker();
        assert!(!see(&mut worker, &at(0, 0)).register_again);
        assert!(!see(&mut worker, &at(1, 15)).register_again);
        assert!(see(&mut worker, &at(2, 1)).register_again);
        assert!(!see(&mut worker, &at(3, 15)).register_again);
        assert!(see(&mut worker, &at(4, 40)).register_again);
    }

    #[test]
    fn a_registration_lasts_for_the_delay_and_limits_the_wait() {
        let mut worker = worker();
        assert_eq!(see(&mut worker, &at(0, 0)).wait_at_most, ms(500));
        let plan = see(&mut worker, &at(499, 3));
        assert_eq!((plan.wait_at_most, plan.register_again), (ms(1), false));
        let plan = see(&mut worker, &at(500, 0));
        assert_eq!((plan.wait_at_most, plan.register_again), (ms(500), true));
    }

    #[test]
    fn a_full_worker_stops_and_registers_when_it_has_room() {
        let mut worker = worker();
        let plan = see(&mut worker, &at(0, 0));
        assert!(plan.listening && plan.exclusive);
        assert_eq!(see(&mut worker, &full(1)), Plan::away(None));
        let plan = see(&mut worker, &at(2, 15));
        assert!(plan.listening && !plan.register_again);
        let plan = see(&mut worker, &at(3, 15));
        assert!(!plan.register_again, "the count starts from 0");
    }

    #[test]
    fn without_exclusive_wake_ups_every_worker_listens() {
        let inputs = Inputs {
            exclusive: false,
            ..at(0, 100)
        };
        assert_eq!(see(&mut worker(), &inputs), Plan::listen());
    }
}
