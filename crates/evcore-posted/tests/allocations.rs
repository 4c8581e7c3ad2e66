//! Tests that an inbox whose buffers have grown, and a queue made with room, allocate nothing.

use evcore_posted::{Inbox, PostedQueue, Sender, TurnQueue};
use evcore_testing::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Sends, drains a part, sends during the drain, and then drains everything.
fn round(inbox: &mut Inbox<u64>, sender: &Sender<u64>) {
    (0..100).for_each(|n| sender.send(n).unwrap());
    for n in inbox.drain().take(50) {
        sender.send(n).unwrap();
    }
    assert_eq!(inbox.drain().count(), 100);
}

#[test]
fn an_inbox_that_has_grown_allocates_nothing() {
    let mut inbox = Inbox::bounded(1_000, || {});
    let sender = inbox.sender();
    // Two rounds, because there are two buffers.
    (0..2).for_each(|_| round(&mut inbox, &sender));
    let grown = allocations();
    assert!(grown > 0, "the allocator counts");
    (0..100).for_each(|_| round(&mut inbox, &sender));
    assert_eq!(allocations(), grown);
}

#[test]
fn an_inbox_reserves_no_room_for_its_limit() {
    let before = allocations();
    let inbox = Inbox::<u64>::bounded(usize::MAX, || {});
    assert!(allocations() - before <= 2, "the shared state and `wake`");
    drop(inbox);
}

#[test]
fn with_capacity_makes_room_for_all_ids_below_it() {
    let mut posted = PostedQueue::with_capacity(100);
    let mut turns = TurnQueue::with_capacity(100);
    let before = allocations();
    for id in [99, 0, 50] {
        assert!(posted.post(id) && turns.post(id));
    }
    assert_eq!(allocations(), before);
    assert!(
        posted.post(100) && turns.post_next(100),
        "a higher id is accepted"
    );
    assert_eq!(allocations(), before + 2);
}
