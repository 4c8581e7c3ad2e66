//! However short the delay of a policy is, nobody spins.

use std::time::Duration;

use evcore::balancer::{Leader, Policy};

use crate::{fake_member::FakeMember, fixture::Fixture};

const MS: Duration = Duration::from_millis(1);

/// What keeps a worker from just listening.
#[derive(Clone, Copy, Debug)]
struct Plight {
    policy: Policy,
    exclusive: bool,
    lock_is_free: bool,
    /// Of 64 places.
    connections: usize,
    leader: Leader,
    least: Option<u32>,
}

impl Plight {
    /// Nothing keeps it.
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

    /// Another has the lock.
    fn refused(self) -> Self {
        Self {
            lock_is_free: false,
            ..self
        }
    }

    /// It has so many more connections than another worker.
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

fn plights() -> [Plight; 11] {
    let mutex = Plight::of(Policy::mutex(), false);
    let exclusive = Plight::of(Policy::exclusive(), true);
    let least_loaded = Plight::of(Policy::least_loaded(), true);
    let by_lock = Plight::of(Policy::least_loaded(), false);
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
    for plight in plights() {
        let mut fixture = plight.fixture();
        let mut waited_before = true;
        for _ in 0..1000 {
            // Nothing happens, so each wait lasts as long as it may.
            let timeout = fixture.ev.prepare().unwrap();
            let timeout = timeout.unwrap_or_else(|| panic!("without an end: {plight:?}"));
            fixture.time.advance(timeout);
            fixture.ev.poll(Some(timeout)).unwrap();
            assert_eq!(fixture.rest(), []);
            // A look at who waits is a turn of no time, and one alone.
            let waited = timeout >= MS;
            assert!(waited || waited_before, "{plight:?}");
            waited_before = waited;
        }
    }
}
