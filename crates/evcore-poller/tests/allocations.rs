//! Once the tables have grown, nothing is allocated, on any backend.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use evcore_poller::{BackendKind, Events, Interest, Mode, Poller};
use evcore_testing::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Registers each pair's second end, waits for it in several ways, and removes it.
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
    for key in (0..).take(pairs.len()) {
        poller.reregister(key).expect("registered");
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
    for kind in &BackendKind::usable() {
        let mut pairs: Vec<_> = (0..30)
            .map(|_| UnixStream::pair().expect("a pair of sockets"))
            .collect();
        let mut poller = Poller::with(*kind).expect("the system has this backend");
        let mut events = Events::bounded(64);
        turn(&mut poller, &mut events, &mut pairs);

        let before = allocations();
        for _ in 0..100 {
            turn(&mut poller, &mut events, &mut pairs);
        }
        let allocated = allocations() - before;
        assert_eq!(allocated, 0, "{kind}");
    }
}
