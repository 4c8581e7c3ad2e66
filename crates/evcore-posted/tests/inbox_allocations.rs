//! Once an inbox has grown, nothing is allocated.

use evcore_posted::{Inbox, Sender};
use evcore_testing::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Sends, takes some, sends during that, leaves some, and then takes all.
fn round(inbox: &mut Inbox<u64>, sender: &Sender<u64>) {
    (0..100).for_each(|n| sender.send(n).unwrap());
    for n in inbox.drain().take(50) {
        sender.send(n).unwrap();
    }
    assert_eq!(inbox.drain().count(), 100);
}

#[test]
fn in_the_steady_state_nothing_is_allocated() {
    let mut inbox = Inbox::bounded(1_000, || {});
    let sender = inbox.sender();
    // Twice, since two buffers take turns.
    (0..2).for_each(|_| round(&mut inbox, &sender));
    let grown = allocations();
    assert!(grown > 0, "the counter counts");
    (0..100).for_each(|_| round(&mut inbox, &sender));
    assert_eq!(allocations(), grown);
}
