//! Taking turns by a lock, evenly: whoever has it keeps it while its load is near the least, and
//! then gives way and calls the least loaded worker.
//!
//! With the lock alone the holder is the only one awake, and so takes it again and again until its
//! places run out. Who sees no others hands nothing over.
//!
//! The holder cannot stay until the other has come, who needs the lock: for the time of a wake-up
//! nobody listens. If the called one does not come, another does after the delay at the latest.

use std::{mem, time::Duration};

use crate::{Load, Plan, Situation, View, by_lock::ByLock, slack::Slack};

/// The state of a worker that listens by a lock which goes round.
#[derive(Clone, Debug)]
pub(crate) struct HandingOver {
    slack: Slack,
    by_lock: ByLock,
    /// The last look at the others, and the load at that time.
    seen: Option<(Load, View)>,
    /// The plan before this one had the lock.
    held: bool,
}

impl HandingOver {
    pub(crate) fn new(slack: Slack, delay: Duration) -> Self {
        Self {
            slack,
            by_lock: ByLock::new(delay),
            seen: None,
            held: false,
        }
    }

    /// Decides about a turn.
    pub(crate) fn plan(
        &mut self,
        now: &Situation,
        try_lock: impl FnOnce() -> bool,
        look: impl FnOnce() -> View,
    ) -> Plan {
        let view = self.view(now, look);
        // A call may have come since it was asked whether there is one.
        let called = now.called || view.called;
        let gives_way = if now.seated {
            !self.slack.is_near(now.load, view.least)
        } else {
            // Who sees nobody goes by its own places, as in nginx.
            now.load.is_crowded()
        };
        let mut refused = false;
        let try_lock = || {
            let held = try_lock();
            refused = !held;
            held
        };
        let gives_way = gives_way && !called;
        let plan = self.by_lock.plan(now, gives_way, try_lock);
        let held = mem::replace(&mut self.held, plan.holds_lock);
        // Who was refused knows that another listens. Who is called in vain passes that on.
        let is_missed = held || (!plan.listening && (called || now.left_waiting));
        let room = self.slack.room(now.load, view.least);
        Plan {
            // Who only looks may take whoever was left.
            accepts_at_most: room.filter(|_| plan.holds_lock),
            calls: view
                .seat_of_least()
                .filter(|_| !plan.holds_lock && !refused && is_missed),
            ..plan
        }
    }

    /// What is seen of the others: looked at anew if something has changed here. What has changed
    /// there matters when the next client has come. A call is told once.
    fn view(&mut self, now: &Situation, look: impl FnOnce() -> View) -> View {
        match self.seen {
            Some((load, view)) if load == now.load && !now.called && !now.left_waiting => view,
            _ => {
                let view = look();
                let told = View {
                    called: false,
                    ..view
                };
                self.seen = Some((now.load, told));
                view
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Keeper, Peer};

    fn worker() -> HandingOver {
        HandingOver::new(Slack::new(4), Duration::from_millis(500))
    }

    fn at(now_ms: u64, active: u32) -> Situation {
        Situation {
            load: Load {
                active,
                capacity: 1000,
            },
            seated: true,
            ..Situation::at(now_ms)
        }
    }

    fn called(now: Situation) -> Situation {
        Situation {
            called: true,
            ..now
        }
    }

    /// What is seen where the least of the others has so many connections.
    fn least(load: u32) -> View {
        View {
            keeper: Keeper::Nobody,
            least: Some(Peer { seat: 7, load }),
            called: false,
        }
    }

    fn never() -> bool {
        panic!("the lock was asked for")
    }

    fn unseen() -> View {
        panic!("somebody looked")
    }

    /// One that has held the lock with this load, seeing another that has none.
    fn holder(active: u32) -> HandingOver {
        let mut worker = worker();
        let plan = worker.plan(&at(0, active), || true, || least(0));
        assert!(plan.holds_lock);
        worker
    }

    #[test]
    fn near_the_least_load_the_holder_accepts_until_it_is_above() {
        let plan = worker().plan(&at(0, 3), || true, || least(0));
        assert!(plan.holds_lock);
        assert_eq!((plan.accepts_at_most, plan.calls), (Some(2), None));
    }

    #[test]
    fn above_the_limit_the_holder_gives_way_and_calls_the_least_loaded_once() {
        let mut worker = holder(4);
        let plan = worker.plan(&at(1, 5), never, || least(0));
        assert!(!plan.listening);
        assert_eq!(plan.calls, Some(7));
        let plan = worker.plan(&at(2, 5), never, unseen);
        assert_eq!(plan, Plan::away(Some(499)));
    }

    #[test]
    fn who_is_crowded_gives_way_if_it_has_no_seat_and_only_then() {
        for seated in [false, true] {
            let now = Situation {
                seated,
                ..at(0, 900)
            };
            let plan = worker().plan(&now, || true, View::alone);
            assert_eq!(plan.listening, seated);
        }
    }

    #[test]
    fn a_holder_that_has_become_full_calls_another() {
        let mut worker = holder(4);
        let plan = worker.plan(&at(1, 1000), never, || least(999));
        assert_eq!((plan.listening, plan.calls), (false, Some(7)));
    }

    #[test]
    fn whoever_is_refused_calls_nobody_since_another_listens() {
        let mut worker = holder(4);
        let plan = worker.plan(&at(1, 4), || false, unseen);
        assert_eq!((plan.listening, plan.calls), (false, None));
    }

    #[test]
    fn whoever_is_called_tries_the_lock_however_loaded() {
        let mut worker = holder(4);
        assert!(!worker.plan(&at(1, 50), never, || least(0)).listening);
        let plan = worker.plan(&called(at(2, 50)), || true, || least(0));
        assert!(plan.holds_lock);
    }

    #[test]
    fn whoever_is_called_and_has_no_place_passes_that_on() {
        let mut worker = worker();
        let full = at(0, 1000);
        let plan = worker.plan(&full, never, || least(0));
        assert_eq!(plan, Plan::away(None));
        let plan = worker.plan(&called(full), never, || least(0));
        assert_eq!((plan.listening, plan.calls), (false, Some(7)));
    }

    #[test]
    fn who_sees_nobody_to_leave_the_lock_to_keeps_it_and_accepts_without_limit() {
        let mut worker = worker();
        for active in 0..100 {
            let now = at(u64::from(active), active);
            let plan = worker.plan(&now, || true, View::alone);
            assert!(plan.holds_lock);
            assert_eq!((plan.accepts_at_most, plan.calls), (None, None));
        }
    }

    #[test]
    fn a_look_in_search_of_who_was_left_takes_in_all_of_them_and_ends_without_a_call() {
        let mut worker = worker();
        let plan = worker.plan(&at(0, 50), never, || least(0));
        assert!(!plan.listening);
        let plan = worker.plan(&at(500, 50), || false, unseen);
        assert_eq!(plan, Plan::look());
        let plan = worker.plan(&at(501, 51), never, || least(0));
        assert_eq!((plan.listening, plan.calls), (false, None));
    }

    #[test]
    fn a_look_that_finds_more_than_there_is_room_for_calls_another() {
        let mut worker = worker();
        assert!(!worker.plan(&at(0, 50), never, || least(0)).listening);
        assert_eq!(worker.plan(&at(500, 50), || false, unseen), Plan::look());
        let left = Situation {
            left_waiting: true,
            ..at(501, 1000)
        };
        let plan = worker.plan(&left, never, || least(0));
        assert_eq!((plan.listening, plan.calls), (false, Some(7)));
    }

    #[test]
    fn a_call_that_the_look_alone_has_heard_is_answered_like_any_other() {
        let mut worker = holder(4);
        let look = || View {
            called: true,
            ..least(0)
        };
        assert!(worker.plan(&at(1, 50), || true, look).holds_lock);
        assert_eq!(
            worker.plan(&at(2, 50), never, unseen).calls,
            Some(7),
            "it is told once"
        );
    }

    #[test]
    fn a_turn_that_has_only_served_its_connections_looks_at_nobody() {
        let mut worker = holder(3);
        assert!(worker.plan(&at(100, 3), || true, unseen).holds_lock);
        let left = Situation {
            left_waiting: true,
            ..at(101, 3)
        };
        let plan = worker.plan(&left, || true, || least(3));
        assert_eq!(plan.accepts_at_most, Some(5), "that was a look");
    }
}
