//! Tests that compare each queue with a naive queue, the oracle, while the ids are far apart.
//!
//! A third of the scripts' ids are in adjacent blocks of the tables, and the others are millions
//! apart.

use proptest::prelude::*;

use crate::{
    heap::TimerHeap,
    lazy::Lazy,
    oracle::{IDS, TestedQueue, assert_agrees, config, scripts},
    queue::TimerQueue,
    tree::TimerTree,
    wheel::TimerWheel,
};

/// Replaces each id by one that is far from most others.
#[derive(Debug)]
struct FarApart<Q>(Q);

fn far(id: u32) -> u32 {
    if id % 3 == 0 {
        id * 300
    } else {
        TimerWheel::ID_MAX - id * 5_000_000
    }
}

fn near(far_id: u32) -> u32 {
    (0..IDS)
        .find(|&id| far(id) == far_id)
        .expect("an id of the script")
}

impl<Q: TestedQueue> TestedQueue for FarApart<Q> {
    const EQUALS_IN_ORDER: bool = Q::EQUALS_IN_ORDER;
    const EXACT_WAKE_UPS: bool = Q::EXACT_WAKE_UPS;

    fn verify(&self) {
        self.0.verify();
    }

    fn arm_periodic(&mut self, id: u32, first: u64, period: u64) -> bool {
        self.0.arm_periodic(far(id), first, period)
    }
}

impl<Q: TimerQueue> TimerQueue for FarApart<Q> {
    fn arm(&mut self, id: u32, deadline: u64) {
        self.0.arm(far(id), deadline);
    }

    fn disarm(&mut self, id: u32) -> bool {
        self.0.disarm(far(id))
    }

    fn pop_expired(&mut self, now: u64) -> Option<(u32, u64)> {
        let (id, deadline) = self.0.pop_expired(now)?;
        Some((near(id), deadline))
    }

    fn reinsert_in_phase(&mut self, id: u32, deadline: u64) {
        self.0.reinsert_in_phase(far(id), deadline);
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn deadline(&self, id: u32) -> Option<u64> {
        self.0.deadline(far(id))
    }

    fn next_deadline(&mut self) -> Option<u64> {
        self.0.next_deadline()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn has_more(&self) -> bool {
        self.0.has_more()
    }
}

proptest! {
    // A fourth of the usual cases, because the tables are large and each step checks all of them.
    #![proptest_config(ProptestConfig { cases: config().cases / 4, ..config() })]

    #[test]
    fn any_script_over_the_wheel_agrees_with_the_oracle(script in scripts()) {
        assert_agrees(FarApart(TimerWheel::with_pauses()), &script);
    }

    #[test]
    fn any_script_over_the_tree_agrees_with_the_oracle(script in scripts()) {
        assert_agrees(FarApart(TimerTree::with_pauses()), &script);
    }

    #[test]
    fn any_script_over_the_heap_agrees_with_the_oracle(script in scripts()) {
        assert_agrees(FarApart(TimerHeap::with_pauses()), &script);
    }

    #[test]
    fn any_script_over_lazy_agrees_with_the_oracle(script in scripts()) {
        assert_agrees(FarApart(Lazy::new(TimerWheel::new())), &script);
    }
}
