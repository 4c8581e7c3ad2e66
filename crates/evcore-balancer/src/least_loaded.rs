//! Near the least load you listen, above it you do not, and nobody leaves before another listens.
//!
//! What is shared is who the *keeper* is: the one worker that may not stop. Whoever begins to
//! listen takes that over, so the keeper is the one that came last, and everybody else may stop
//! without asking. A keeper that is above the limit calls the least loaded worker, which comes and
//! takes over; until then it accepts one client at a time.
//!
//! A worker that is full cannot listen: as the keeper it resigns and calls the least loaded that is
//! not. Where all are full nobody listens, and the first that has a free place comes by itself.
//!
//! Against those that stop: a worker that does not answer a call is looked past by all, until it
//! turns again; a registration lasts for the delay; and who has not listened for the delay looks
//! once and, where somebody was left waiting, stays.

use std::time::Duration;

use crate::{
    Duty, Keeper, Load, Plan, Situation, View, handing_over::HandingOver, policy::whole_ms,
    slack::Slack,
};

/// How long a keeper waits for the worker that it has called, before it calls another.
const PATIENCE_MS: u64 = 10;

/// The state of a worker.
#[derive(Clone, Debug)]
pub(crate) struct LeastLoaded {
    slack: Slack,
    delay_ms: u64,
    stand: Stand,
    /// The load at the last look at the others.
    seen_at: Option<Load>,
    /// What that look left room for.
    room: Option<u32>,
    /// Since when this keeper waits for the one that it has called.
    // Invariant: `None` unless listening.
    called_ms: Option<u64>,
    /// Takes the decisions where wake-ups cannot be exclusive.
    by_lock: HandingOver,
}

/// Where a worker stands between two plans.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stand {
    /// Not listening: full, or not begun.
    Out,
    /// Not listening, since then.
    Away { since_ms: u64 },
    /// Listening for one turn that does not wait, begun then.
    Looking { since_ms: u64 },
    /// Listening, by a registration of that time.
    Listening { since_ms: u64 },
}

impl LeastLoaded {
    pub(crate) fn new(slack: Slack, delay: Duration) -> Self {
        Self {
            slack,
            delay_ms: whole_ms(delay),
            stand: Stand::Out,
            seen_at: None,
            room: None,
            called_ms: None,
            by_lock: HandingOver::new(slack, delay),
        }
    }

    pub(crate) fn plan(
        &mut self,
        now: &Situation,
        try_lock: impl FnOnce() -> bool,
        look: impl FnOnce() -> View,
    ) -> Plan {
        if !now.exclusive {
            return self.by_lock.plan(now, try_lock, look);
        }
        if self.is_settled(now) {
            return self.as_before(now.now_ms);
        }
        self.seen_at = Some(now.load);
        let view = look();
        // A call may have come since it was asked whether there is one.
        let called = now.called || view.called;
        let now = &Situation { called, ..*now };
        self.room = self.slack.room(now.load, view.least);
        if now.load.is_full() {
            return self.leave_full(now, &view);
        }
        match self.stand {
            Stand::Listening { since_ms } => self.stay_or_leave(now, &view, since_ms),
            Stand::Out => self.come_or_stay_away(now, &view, now.now_ms),
            Stand::Away { since_ms } => self.come_or_stay_away(now, &view, since_ms),
            // Whoever listens, somebody waited: better two that listen than none.
            Stand::Looking { .. } if now.accepted > 0 || now.left_waiting => self.come(now),
            Stand::Looking { since_ms } => self.come_or_stay_away(now, &view, since_ms),
        }
    }

    /// Nothing has happened that could change what was decided.
    fn is_settled(&self, now: &Situation) -> bool {
        let quiet = self.seen_at == Some(now.load)
            && now.accepted == 0
            && !now.called
            && !now.left_waiting
            && self.called_ms.is_none();
        quiet
            && match self.stand {
                Stand::Out => now.load.is_full(),
                Stand::Looking { .. } => false,
                Stand::Away { since_ms } | Stand::Listening { since_ms } => {
                    passed(since_ms, now.now_ms) < self.delay_ms
                }
            }
    }

    fn as_before(&self, now_ms: u64) -> Plan {
        match self.stand {
            Stand::Out | Stand::Looking { .. } => Plan::away(None),
            Stand::Away { since_ms } => Plan::away(Some(self.left_ms(since_ms, now_ms))),
            Stand::Listening { since_ms } => self.listening(since_ms, now_ms),
        }
    }

    fn leave_full(&mut self, now: &Situation, view: &View) -> Plan {
        self.stand = Stand::Out;
        self.called_ms = None;
        let duty = match view.keeper {
            Keeper::Me => Duty::Resign,
            Keeper::Nobody | Keeper::Other => Duty::Same,
        };
        // Who is called in vain passes that on.
        let is_missed = view.keeper != Keeper::Other || now.left_waiting || now.called;
        Plan {
            duty,
            calls: view.seat_of_least().filter(|_| is_missed),
            // No limit: only this worker's own handlers can free a place, and a plan follows them.
            ..Plan::away(None)
        }
    }

    fn stay_or_leave(&mut self, now: &Situation, view: &View, since_ms: u64) -> Plan {
        if now.called {
            return self.come(now);
        }
        let others_listen = view.keeper == Keeper::Other;
        // The one that was called is not seen until it answers, and then there may be no other.
        let awaits = !others_listen && view.least.is_none() && self.awaits(now);
        if self.slack.is_near(now.load, view.least) && !awaits {
            self.called_ms = None;
            return self.stay(now, view, since_ms);
        }
        if others_listen {
            self.leave(now, view)
        } else {
            self.keep(now, view, since_ms)
        }
    }

    /// Listens on, near the least load.
    fn stay(&mut self, now: &Situation, view: &View, since_ms: u64) -> Plan {
        let again = passed(since_ms, now.now_ms) >= self.delay_ms;
        let since_ms = if again { now.now_ms } else { since_ms };
        self.stand = Stand::Listening { since_ms };
        Plan {
            register_again: again,
            duty: if view.keeper == Keeper::Nobody {
                Duty::Take
            } else {
                Duty::Same
            },
            ..self.listening(since_ms, now.now_ms)
        }
    }

    /// Above the limit, but with nobody else who has to listen: calls the one that should.
    fn keep(&mut self, now: &Situation, view: &View, since_ms: u64) -> Plan {
        let awaits = self.awaits(now);
        if !awaits {
            self.called_ms = Some(now.now_ms);
        }
        Plan {
            accepts_at_most: Some(1),
            calls: view.seat_of_least().filter(|_| !awaits),
            ..self.stay(now, view, since_ms)
        }
    }

    /// Whether the one that this keeper has called may still come.
    fn awaits(&self, now: &Situation) -> bool {
        self.called_ms
            .is_some_and(|called_ms| passed(called_ms, now.now_ms) < PATIENCE_MS)
    }

    /// Stops, since another listens; whom it leaves waiting, the one that it calls will find.
    fn leave(&mut self, now: &Situation, view: &View) -> Plan {
        self.called_ms = None;
        self.stand = Stand::Away {
            since_ms: now.now_ms,
        };
        Plan {
            calls: view.seat_of_least().filter(|_| now.left_waiting),
            ..Plan::away(Some(self.delay_ms))
        }
    }

    fn come_or_stay_away(&mut self, now: &Situation, view: &View, since_ms: u64) -> Plan {
        let near = self.slack.is_near(now.load, view.least);
        if now.called || near || view.keeper == Keeper::Nobody {
            return self.come(now);
        }
        if passed(since_ms, now.now_ms) >= self.delay_ms {
            self.stand = Stand::Looking {
                since_ms: now.now_ms,
            };
            return Plan {
                exclusive: true,
                ..Plan::look()
            };
        }
        self.stand = Stand::Away { since_ms };
        Plan::away(Some(self.left_ms(since_ms, now.now_ms)))
    }

    /// Registers anew, as the last, and takes over.
    fn come(&mut self, now: &Situation) -> Plan {
        let since_ms = now.now_ms;
        let registered = matches!(self.stand, Stand::Listening { .. } | Stand::Looking { .. });
        self.stand = Stand::Listening { since_ms };
        self.called_ms = None;
        Plan {
            register_again: registered,
            duty: Duty::Take,
            ..self.listening(since_ms, now.now_ms)
        }
    }

    fn listening(&self, since_ms: u64, now_ms: u64) -> Plan {
        Plan {
            exclusive: true,
            wait_at_most_ms: Some(self.left_ms(since_ms, now_ms)),
            accepts_at_most: self.room,
            ..Plan::listen()
        }
    }

    /// What is left of a delay that began then; at least 1.
    fn left_ms(&self, since_ms: u64, now_ms: u64) -> u64 {
        self.delay_ms
            .saturating_sub(passed(since_ms, now_ms))
            .max(1)
    }
}

fn passed(since_ms: u64, now_ms: u64) -> u64 {
    now_ms.saturating_sub(since_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Peer;

    const DELAY_MS: u64 = 500;

    fn worker() -> LeastLoaded {
        LeastLoaded::new(Slack::new(4), Duration::from_millis(DELAY_MS))
    }

    fn at(now_ms: u64, active: u32) -> Situation {
        Situation {
            load: Load {
                active,
                capacity: 1000,
            },
            exclusive: true,
            seated: true,
            ..Situation::at(now_ms)
        }
    }

    fn view(keeper: Keeper, least: u32) -> View {
        View {
            keeper,
            least: Some(Peer {
                seat: 7,
                load: least,
            }),
            called: false,
        }
    }

    fn no_lock() -> bool {
        panic!("the lock was asked for")
    }

    fn unseen() -> View {
        panic!("somebody looked")
    }

    impl LeastLoaded {
        fn see(&mut self, now: &Situation, keeper: Keeper, least: u32) -> Plan {
            self.plan(now, no_lock, || view(keeper, least))
        }
    }

    #[test]
    fn whoever_begins_listens_exclusively_and_is_the_keeper() {
        for keeper in [Keeper::Nobody, Keeper::Other] {
            let plan = worker().see(&at(0, 0), keeper, 0);
            assert!(plan.listening && plan.exclusive && !plan.register_again);
            assert_eq!(plan.duty, Duty::Take);
            assert_eq!(plan.wait_at_most_ms, Some(DELAY_MS));
            assert_eq!(plan.accepts_at_most, Some(5));
        }
    }

    #[test]
    fn above_the_limit_whoever_is_not_the_keeper_stops() {
        let mut worker = worker();
        assert!(worker.see(&at(0, 0), Keeper::Nobody, 0).listening);
        assert!(worker.see(&at(1, 4), Keeper::Other, 0).listening, "at it");
        let plan = worker.see(&at(2, 5), Keeper::Other, 0);
        assert_eq!(plan, Plan::away(Some(DELAY_MS)));
    }

    #[test]
    fn the_limit_grows_by_a_sixteenth_of_the_least_load() {
        let mut worker = worker();
        assert!(worker.see(&at(0, 170), Keeper::Other, 160).listening);
        assert!(worker.see(&at(0, 174), Keeper::Other, 160).listening);
        assert!(!worker.see(&at(0, 175), Keeper::Other, 160).listening);
    }

    #[test]
    fn the_keeper_calls_the_least_loaded_once_and_stays_until_it_has_come() {
        let mut worker = worker();
        assert!(worker.see(&at(0, 0), Keeper::Nobody, 0).listening);

        let plan = worker.see(&at(1, 5), Keeper::Me, 0);
        assert!(plan.listening);
        assert_eq!((plan.calls, plan.accepts_at_most), (Some(7), Some(1)));

        let plan = worker.see(&at(2, 6), Keeper::Me, 0);
        assert!(plan.listening);
        assert_eq!((plan.calls, plan.accepts_at_most), (None, Some(1)));

        assert!(!worker.see(&at(3, 7), Keeper::Other, 0).listening);
    }

    #[test]
    fn who_has_called_the_only_other_one_accepts_one_at_a_time_until_it_has_come_or_does_not() {
        let mut worker = worker();
        assert!(worker.see(&at(0, 0), Keeper::Nobody, 0).listening);
        assert_eq!(worker.see(&at(1, 5), Keeper::Me, 0).calls, Some(7));
        let unanswered = || View {
            keeper: Keeper::Me,
            ..View::alone()
        };
        let mut room_at = |now_ms, active| {
            let plan = worker.plan(&at(now_ms, active), no_lock, unanswered);
            assert!(plan.listening && plan.calls.is_none());
            plan.accepts_at_most
        };
        assert_eq!(room_at(2, 6), Some(1));
        assert_eq!(room_at(10, 7), Some(1));
        assert_eq!(room_at(11, 8), None);
    }

    #[test]
    fn a_keeper_whose_call_is_not_answered_calls_another() {
        let mut worker = worker();
        assert!(worker.see(&at(0, 0), Keeper::Nobody, 0).listening);
        assert_eq!(worker.see(&at(1, 5), Keeper::Me, 0).calls, Some(7));
        assert_eq!(worker.see(&at(10, 5), Keeper::Me, 0).calls, None);
        assert_eq!(worker.see(&at(11, 5), Keeper::Me, 0).calls, Some(7));
    }

    #[test]
    fn where_nobody_else_has_room_or_answers_the_keeper_serves_all() {
        let mut worker = worker();
        let alone = || View {
            keeper: Keeper::Me,
            ..View::alone()
        };
        for active in 0..100 {
            let plan = worker.plan(&at(0, active), no_lock, alone);
            assert!(plan.listening);
            assert_eq!(plan.calls, None);
        }
    }

    #[test]
    fn whoever_is_called_comes_and_takes_over_even_if_it_listens_or_is_above() {
        let mut worker = worker();
        let called = |now_ms, active| Situation {
            called: true,
            ..at(now_ms, active)
        };
        let plan = worker.see(&called(0, 50), Keeper::Other, 0);
        assert!(plan.listening && !plan.register_again);
        assert_eq!(plan.duty, Duty::Take);

        let plan = worker.see(&called(1, 50), Keeper::Other, 0);
        assert!(plan.listening && plan.register_again);
        assert_eq!(plan.duty, Duty::Take);
    }

    #[test]
    fn a_call_that_the_look_alone_has_heard_is_answered_like_any_other() {
        let mut worker = worker();
        assert!(worker.see(&at(0, 0), Keeper::Nobody, 0).listening);
        let look = || View {
            called: true,
            ..view(Keeper::Other, 0)
        };
        let plan = worker.plan(&at(1, 3), no_lock, look);
        assert!(plan.listening && plan.register_again);
        assert_eq!(plan.duty, Duty::Take);
    }

    #[test]
    fn whoever_is_below_all_others_has_room_up_to_their_limit() {
        let plan = worker().see(&at(0, 10), Keeper::Other, 160);
        assert_eq!(plan.accepts_at_most, Some(165));
    }

    #[test]
    fn whoever_is_called_and_has_no_place_passes_that_on() {
        let mut worker = worker();
        assert!(!worker.see(&at(0, 1000), Keeper::Other, 999).listening);
        let called = Situation {
            called: true,
            ..at(1, 1000)
        };
        let plan = worker.see(&called, Keeper::Other, 999);
        assert_eq!((plan.listening, plan.calls), (false, Some(7)));
    }

    #[test]
    fn a_full_keeper_resigns_and_calls_one_with_room() {
        let mut worker = worker();
        assert!(worker.see(&at(0, 999), Keeper::Nobody, 999).listening);
        let plan = worker.see(&at(1, 1000), Keeper::Me, 999);
        assert!(!plan.listening);
        assert_eq!((plan.duty, plan.calls), (Duty::Resign, Some(7)));
        assert_eq!(plan.wait_at_most_ms, None);
    }

    #[test]
    fn a_full_worker_that_is_not_the_keeper_just_stops() {
        let mut worker = worker();
        assert!(worker.see(&at(0, 999), Keeper::Nobody, 999).listening);
        assert_eq!(
            worker.see(&at(1, 1000), Keeper::Other, 999),
            Plan::away(None)
        );
    }

    #[test]
    fn the_first_free_place_comes_by_itself() {
        let mut worker = worker();
        let all_full = || View::alone();
        assert!(!worker.plan(&at(0, 1000), no_lock, all_full).listening);
        let plan = worker.plan(&at(1, 999), no_lock, all_full);
        assert!(plan.listening);
        assert_eq!(plan.duty, Duty::Take);
    }

    #[test]
    fn without_a_keeper_whoever_has_room_comes_however_loaded() {
        let mut worker = worker();
        let plan = worker.see(&at(0, 500), Keeper::Nobody, 0);
        assert!(plan.listening);
        assert_eq!(plan.duty, Duty::Take);
    }

    #[test]
    fn a_worker_that_only_serves_looks_at_nobody() {
        let mut worker = worker();
        assert!(worker.see(&at(0, 3), Keeper::Nobody, 3).listening);
        let plan = worker.plan(&at(100, 3), no_lock, unseen);
        assert_eq!((plan.listening, plan.wait_at_most_ms), (true, Some(400)));
        assert_eq!(plan.accepts_at_most, Some(5), "as before");

        let mut worker = self::worker();
        assert!(!worker.see(&at(0, 90), Keeper::Other, 3).listening);
        let plan = worker.plan(&at(100, 90), no_lock, unseen);
        assert_eq!(plan, Plan::away(Some(400)));
    }

    #[test]
    fn a_registration_lasts_for_the_delay() {
        let mut worker = worker();
        assert!(worker.see(&at(0, 3), Keeper::Nobody, 3).listening);
        let plan = worker.see(&at(500, 3), Keeper::Me, 3);
        assert!(plan.listening && plan.register_again);
        assert_eq!(plan.wait_at_most_ms, Some(DELAY_MS));
    }

    #[test]
    fn whoever_was_away_for_the_delay_looks_once() {
        let mut worker = worker();
        assert!(!worker.see(&at(0, 90), Keeper::Other, 3).listening);
        let plan = worker.see(&at(500, 90), Keeper::Other, 3);
        assert_eq!(
            plan,
            Plan {
                exclusive: true,
                ..Plan::look()
            }
        );
        let plan = worker.see(&at(501, 90), Keeper::Other, 3);
        assert_eq!(plan, Plan::away(Some(499)));
    }

    #[test]
    fn a_look_that_finds_a_client_is_the_beginning_of_listening() {
        let mut worker = worker();
        assert!(!worker.see(&at(0, 90), Keeper::Other, 3).listening);
        assert!(worker.see(&at(500, 90), Keeper::Other, 3).listening);
        let accepted = Situation {
            accepted: 1,
            ..at(501, 91)
        };
        let left_waiting = Situation {
            left_waiting: true,
            ..at(501, 90)
        };
        for found in [accepted, left_waiting] {
            let plan = worker.clone().see(&found, Keeper::Other, 3);
            assert!(plan.listening);
            assert_eq!(plan.duty, Duty::Take);
        }
    }

    #[test]
    fn whoever_leaves_clients_waiting_calls_another_to_find_them() {
        let mut worker = worker();
        assert!(worker.see(&at(0, 0), Keeper::Nobody, 0).listening);
        let left = Situation {
            left_waiting: true,
            ..at(1, 5)
        };
        let plan = worker.see(&left, Keeper::Other, 0);
        assert!(!plan.listening);
        assert_eq!(plan.calls, Some(7));
    }

    #[test]
    fn without_exclusive_wake_ups_those_near_the_least_load_share_the_lock() {
        let mut worker = worker();
        let shared = |now_ms, active| Situation {
            exclusive: false,
            ..at(now_ms, active)
        };
        let seen = || view(Keeper::Nobody, 0);
        let plan = worker.plan(&shared(0, 3), || true, seen);
        assert!(plan.listening && plan.holds_lock && !plan.exclusive);
        assert_eq!((plan.duty, plan.accepts_at_most), (Duty::Same, Some(2)));
        let plan = worker.plan(&shared(1, 5), no_lock, seen);
        assert_eq!((plan.listening, plan.calls), (false, Some(7)));
    }
}
