//! Once an inbox has grown, nothing is allocated.

#![allow(unsafe_code, reason = "an allocator that counts is an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use evcore_posted::{Inbox, Sender};

struct Counting;

thread_local! {
    /// How often this thread has allocated. Made at compile time, so that it needs no allocation.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc`, which is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
    let mut inbox = Inbox::unbounded(|| {});
    let sender = inbox.sender();
    // Twice, since two buffers take turns.
    (0..2).for_each(|_| round(&mut inbox, &sender));
    let grown = ALLOCATIONS.get();
    assert!(grown > 0, "the counter counts");
    (0..100).for_each(|_| round(&mut inbox, &sender));
    assert_eq!(ALLOCATIONS.get(), grown);
}
