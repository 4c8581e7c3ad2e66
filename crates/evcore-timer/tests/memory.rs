//! Tests that a call allocates at most a few blocks, for any ids in any order.

use std::collections::HashSet;

use evcore_testing::{CountingAllocator, allocations, bytes_in_use};
use evcore_timer::{Coalesced, Lazy, TimerHeap, TimerQueue, TimerTree, TimerWheel};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The bytes of the largest block of a table, and of a map's entry for the block.
const BLOCK_BYTES: usize = 4_096 + 512;

const ID_MAX: u32 = TimerWheel::ID_MAX;

/// The numbers of allocations and of bytes that `work` adds.
fn allocated_by(work: impl FnOnce()) -> (usize, usize) {
    let before = (allocations(), bytes_in_use());
    work();
    (
        allocations() - before.0,
        bytes_in_use().wrapping_sub(before.1),
    )
}

/// Arms this id before all others, and expects at most two blocks for each table.
fn assert_first_id_is_cheap(mut timers: impl TimerQueue, id: u32, tables: usize) {
    let (_, bytes) = allocated_by(|| timers.arm(id, 10));
    assert!(
        bytes <= tables * 2 * BLOCK_BYTES,
        "the first id is {id}: {bytes} bytes in {timers:?}"
    );
    assert_eq!(timers.deadline(id), Some(10));
    assert_eq!(timers.pop_expired(10), Some((id, 10)));
}

#[test]
fn the_first_id_may_be_any_and_takes_a_few_blocks() {
    for id in [1_000_000, ID_MAX] {
        assert_first_id_is_cheap(TimerWheel::new(), id, 2);
        assert_first_id_is_cheap(TimerTree::new(), id, 2);
        assert_first_id_is_cheap(TimerHeap::new(), id, 2);
        assert_first_id_is_cheap(Lazy::new(TimerWheel::new()), id, 3);
        assert_first_id_is_cheap(Coalesced::new(TimerTree::new(), 300), id, 2);
    }
}

#[test]
fn the_period_of_any_id_takes_a_few_blocks() {
    let mut timers = TimerHeap::new();
    let (_, bytes) = allocated_by(|| timers.arm_periodic(ID_MAX, 10, 5));
    assert!(bytes <= 3 * 2 * BLOCK_BYTES, "{bytes} bytes");
    assert_eq!(timers.period(ID_MAX), Some(5));
}

#[test]
fn the_first_period_takes_a_few_blocks_whatever_was_armed() {
    let mut timers = TimerHeap::new();
    (0..100_000).for_each(|id| timers.arm(id, 10));
    let (_, bytes) = allocated_by(|| timers.arm_periodic(99_999, 10, 5));
    assert!(bytes <= 3 * BLOCK_BYTES, "{bytes} bytes");
}

/// Arms these ids in turn. Expects few allocations in each call, and at most some three times as
/// many blocks as the ids are in.
fn assert_each_call_is_bounded(ids: impl Iterator<Item = u32>) {
    const IDS_PER_BLOCK: u32 = 512;
    let ids: Vec<u32> = ids.collect();
    let blocks: HashSet<u32> = ids.iter().map(|id| id / IDS_PER_BLOCK).collect();
    let mut timers = Lazy::new(TimerWheel::new());
    let start = bytes_in_use();
    for &id in &ids {
        let (calls, _) = allocated_by(|| timers.arm(id, 1_000_000_000));
        assert!(calls <= 20, "id {id}: {calls} allocations");
    }
    let bytes = bytes_in_use().wrapping_sub(start);
    // Both the queue and `Lazy` have a table by id. The chunks of the wheel take some 6 bytes a
    // timer.
    let most = 2 * (3 * blocks.len() + 8) * BLOCK_BYTES + 8 * ids.len();
    assert!(bytes <= most, "{} blocks: {bytes} bytes", blocks.len());
    let deadline = |id: &u32| timers.deadline(*id);
    assert!(ids.iter().map(deadline).all(|at| at == Some(1_000_000_000)));
}

#[test]
fn no_call_allocates_much_in_whatever_order_ids_are_used() {
    assert_each_call_is_bounded(0..50_000);
    assert_each_call_is_bounded((0..50_000).rev());
    assert_each_call_is_bounded(1_000_000..1_020_000);
    assert_each_call_is_bounded((0..2_000).map(|n| n * 65_537 % ID_MAX));
    assert_each_call_is_bounded((0..1_000).map(|n| n * 7_919 % 1_000_000));
}
