//! No worker spins under a policy with a short delay. A worker that does not listen looks for
//! waiting clients once in each delay. A *plan* is the balancer's decision for some iterations of
//! the loop.

use std::time::Duration;

use evcore::{
    Timer,
    balancer::{Leader, Policy},
};

use crate::{fake_backend::Recorded, fake_member::FakeMember, fixture::Fixture};

const MS: Duration = Duration::from_millis(1);

/// A policy, and the state of the group that may keep a worker from listening.
#[derive(Clone, Copy, Debug)]
struct Case {
    policy: Policy,
    exclusive: bool,
    lock_is_free: bool,
    /// Number of connections of the worker, which has 64 slots.
    connections: usize,
    leader: Leader,
    least: Option<u32>,
}

impl Case {
    /// A case in which nothing keeps the worker from listening.
    fn of(policy: Policy, exclusive: bool) -> Self {
        Self {
            policy: policy.with_delay(Duration::ZERO),
            exclusive,
            lock_is_free: true,
            connections: 0,
            leader: Leader::None,
            least: None,
        }
    }

    fn refused(self) -> Self {
        Self {
            lock_is_free: false,
            ..self
        }
    }

    /// The case in which the worker has 60 connections, and another worker has none.
    fn above(self, leader: Leader) -> Self {
        Self {
            connections: 60,
            leader,
            least: Some(0),
            ..self
        }
    }

    fn fixture(self) -> Fixture {
        let member = FakeMember::new();
        member.show(self.leader, self.least);
        let mut fixture = Fixture::built(1, |builder, backend| {
            if self.exclusive {
                backend.make_exclusive();
            }
            backend.set_lock_free(self.lock_is_free);
            let builder = builder.backend(backend.clone()).connections(64);
            builder.policy(self.policy).group(member.with_lock(backend))
        });
        for _ in 0..self.connections {
            fixture.join();
        }
        fixture
    }
}

fn cases() -> [Case; 11] {
    let mutex = Case::of(Policy::mutex(), false);
    let exclusive = Case::of(Policy::exclusive(), true);
    let least_loaded = Case::of(Policy::least_loaded(), true);
    let by_lock = Case::of(Policy::least_loaded(), false);
    [
        mutex.refused(),
        mutex.above(Leader::None),
        mutex.above(Leader::None).refused(),
        exclusive,
        exclusive.above(Leader::None),
        least_loaded,
        least_loaded.above(Leader::Me),
        least_loaded.above(Leader::Other),
        by_lock.refused(),
        by_lock.above(Leader::None),
        by_lock.above(Leader::None).refused(),
    ]
}

#[test]
fn with_a_delay_of_zero_no_worker_spins() {
    for case in cases() {
        let mut fixture = case.fixture();
        let mut waited_before = true;
        for _ in 0..1000 {
            // Nothing happens, so each wait lasts as long as it may.
            let timeout = fixture.ev.prepare().unwrap().timeout;
            let timeout = timeout.unwrap_or_else(|| panic!("the wait has no limit: {case:?}"));
            fixture.time.advance(timeout);
            fixture.ev.wait_at_most(Some(timeout)).unwrap();
            assert_eq!(fixture.rest(), []);
            // A probe, which looks for waiting clients, is one turn without a wait. Two such turns
            // in a row would be a spin.
            let waited = timeout >= MS;
            assert!(waited || waited_before, "{case:?}");
            waited_before = waited;
        }
    }
}

#[test]
fn a_plan_that_ends_during_a_turn_is_not_kept_with_timers() {
    let mut fixture = Fixture::built(1, |builder, backend| {
        backend.make_exclusive();
        let policy = Policy::exclusive().with_delay(20 * MS);
        builder.backend(backend.clone()).policy(policy)
    });
    let token = fixture.begin();
    fixture.arm_ms(token, Timer::READ, 1_000);
    fixture.turn();
    fixture.backend.record();
    // The handlers of a turn take as long as the plan.
    fixture.pass_ms(20);
    fixture.turn();
    assert_eq!(fixture.backend.timeouts(), [Some(20 * MS)], "a new plan");
}

#[test]
fn a_plan_that_ends_during_a_turn_is_not_kept_without_timers() {
    let mut fixture = Fixture::built(1, |builder, backend| {
        backend.make_exclusive();
        let policy = Policy::exclusive().with_delay(20 * MS);
        builder.backend(backend.clone()).policy(policy)
    });
    fixture.turn();
    fixture.backend.record();
    // The handlers of a turn take a part of the plan's time, and then the rest of it.
    fixture.pass_ms(15);
    fixture.wait();
    assert_eq!(fixture.backend.timeouts(), [Some(5 * MS)], "the same plan");
    fixture.pass_ms(10);
    fixture.turn();
    let listener = fixture.listener_fd(0);
    let again = [
        Recorded::Remove(listener),
        Recorded::Add(listener),
        Recorded::Wait(Some(20 * MS)),
    ];
    assert_eq!(fixture.backend.record(), again, "a new plan");
}
