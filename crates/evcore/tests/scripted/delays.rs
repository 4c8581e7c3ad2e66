//! However short the delay of a policy is, nobody spins.

use std::time::Duration;

use evcore::balancer::{Keeper, Policy};

use crate::{place::Place, stage::Stage};

const MS: Duration = Duration::from_millis(1);

/// What keeps a worker from just listening.
#[derive(Clone, Copy, Debug)]
struct Plight {
    policy: Policy,
    exclusive: bool,
    lock_is_free: bool,
    /// Of 64 places.
    connections: usize,
    keeper: Keeper,
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
            keeper: Keeper::Nobody,
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
    fn above(self, keeper: Keeper) -> Self {
        Self {
            connections: 60,
            keeper,
            least: Some(0),
            ..self
        }
    }

    fn stage(self) -> Stage {
        let place = Place::new();
        place.show(self.keeper, self.least);
        let mut stage = Stage::built(1, |builder, script| {
            if self.exclusive {
                script.make_exclusive();
            }
            script.set_lock_free(self.lock_is_free);
            let builder = builder.backend(script.clone()).connections(64);
            let builder = builder.policy(self.policy).lock(script.clone());
            builder.seat(place)
        });
        for _ in 0..self.connections {
            stage.join();
        }
        stage
    }
}

fn plights() -> [Plight; 11] {
    let mutex = Plight::of(Policy::mutex(), false);
    let exclusive = Plight::of(Policy::exclusive(), true);
    let least_loaded = Plight::of(Policy::least_loaded(), true);
    let by_lock = Plight::of(Policy::least_loaded(), false);
    [
        mutex.refused(),
        mutex.above(Keeper::Nobody),
        mutex.above(Keeper::Nobody).refused(),
        exclusive,
        exclusive.above(Keeper::Nobody),
        least_loaded,
        least_loaded.above(Keeper::Me),
        least_loaded.above(Keeper::Other),
        by_lock.refused(),
        by_lock.above(Keeper::Nobody),
        by_lock.above(Keeper::Nobody).refused(),
    ]
}

#[test]
fn with_a_delay_of_nothing_no_turn_waits_less_than_a_millisecond_but_a_look() {
    for plight in plights() {
        let mut stage = plight.stage();
        let mut waited_before = true;
        for _ in 0..1000 {
            // Nothing happens, so each wait lasts as long as it may.
            let timeout = stage.ev.prepare().unwrap();
            let timeout = timeout.unwrap_or_else(|| panic!("without an end: {plight:?}"));
            stage.time.advance(timeout);
            stage.ev.collect(Some(timeout)).unwrap();
            assert_eq!(stage.rest(), []);
            // A look at who waits is a turn of no time, and one alone.
            let waited = timeout >= MS;
            assert!(waited || waited_before, "{plight:?}");
            waited_before = waited;
        }
    }
}
