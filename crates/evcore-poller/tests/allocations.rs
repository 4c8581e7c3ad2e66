//! Once the tables have grown, nothing is allocated, on any backend.

#![allow(unsafe_code, reason = "an allocator that counts is an allocator")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    io::{Read, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use evcore_poller::{Events, Interest, Kind, Mode, Poller};

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

/// A life of every kind of call.
fn turn(poller: &mut Poller, events: &mut Events, pairs: &mut [(UnixStream, UnixStream)]) {
    let modes = [Mode::Level, Mode::Edge, Mode::Oneshot].into_iter().cycle();
    for ((key, (_, far)), mode) in (0..).zip(&*pairs).zip(modes) {
        poller.add(far, key, Interest::READ, mode).expect("add");
    }
    for (near, _) in &mut *pairs {
        near.write_all(b"a").expect("write");
    }
    poller.wait(events, Some(Duration::ZERO)).expect("a wait");
    assert_eq!(events.len(), pairs.len());
    for event in &*events {
        let (_, far) = &mut pairs[usize::try_from(event.key).expect("a small id")];
        far.read_exact(&mut [0]).expect("read");
        poller.rearm(event.key, Interest::READ).expect("registered");
    }
    for interest in [Interest::NONE, Interest::BOTH] {
        for key in (0..).take(pairs.len()) {
            poller.modify(key, interest).expect("registered");
        }
        poller.waker().wake();
        poller.wait(events, None).expect("a wait");
    }
    assert_eq!(events.len(), pairs.len());
    for key in (0..).take(pairs.len()) {
        poller.remove(key).expect("registered");
    }
}

#[test]
fn a_steady_state_allocates_nothing() {
    for kind in Kind::available() {
        let mut pairs: Vec<_> = (0..30)
            .map(|_| UnixStream::pair().expect("a pair of sockets"))
            .collect();
        let mut poller = Poller::with(*kind).expect("the system has this backend");
        let mut events = Events::with_capacity(64);
        turn(&mut poller, &mut events, &mut pairs);

        let before = ALLOCATIONS.get();
        for _ in 0..100 {
            turn(&mut poller, &mut events, &mut pairs);
        }
        let allocated = ALLOCATIONS.get() - before;
        assert_eq!(allocated, 0, "{kind}");
    }
}
