//! The waker: wakes are kept for the next wait, merged, and never lost.

use std::{
    os::fd::BorrowedFd,
    sync::atomic::{AtomicU32, Ordering},
};

use evcore_poller::{Error, Events, Interest, Mode, Waker};

use crate::fixture::{DEADLINE, Fixture, WRITABLE};

crate::scenarios! {
    a_wake_before_the_wait_is_kept,
    many_wakes_before_a_wait_are_one,
    a_wake_is_not_an_event,
    a_wake_and_events_come_together,
    a_buffer_of_one_starves_neither_wakes_nor_events,
    a_wake_is_reported_once,
    a_wake_comes_with_the_first_wait_among_hundreds_of_events,
    a_wake_comes_with_the_first_wait_despite_closed_descriptors,
    a_waker_outlives_its_poller;
    of kernels alone:
    eight_bytes_written_by_hand_wake_too,
    a_million_wakes_from_four_threads,
    a_pollers_own_waker_cannot_be_registered,
}

fn a_wake_before_the_wait_is_kept(fixture: &mut Fixture) {
    fixture.poller.waker().wake();
    fixture.wait(Some(DEADLINE));
    assert!(fixture.events.was_woken(), "{}", fixture.name);
}

fn many_wakes_before_a_wait_are_one(fixture: &mut Fixture) {
    let waker = fixture.poller.waker();
    for _ in 0..3 {
        for _ in 0..1000 {
            waker.clone().wake();
        }
        fixture.wait(Some(DEADLINE));
        assert!(fixture.events.was_woken(), "{}", fixture.name);
        fixture.now();
        assert!(!fixture.events.was_woken(), "{}: one wake", fixture.name);
    }
}

fn a_wake_is_not_an_event(fixture: &mut Fixture) {
    fixture.poller.waker().wake();
    fixture.expect_nothing();
    assert!(fixture.events.was_woken(), "{}", fixture.name);
}

fn a_wake_and_events_come_together(fixture: &mut Fixture) {
    let (_near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::WRITE, Mode::Level);
    fixture.poller.waker().wake();
    fixture.expect(&[(1, WRITABLE)]);
    assert!(fixture.events.was_woken(), "{}", fixture.name);
    fixture.expect(&[(1, WRITABLE)]);
    assert!(!fixture.events.was_woken(), "{}", fixture.name);
}

fn a_buffer_of_one_starves_neither_wakes_nor_events(fixture: &mut Fixture) {
    let (_near, far) = fixture.pair();
    fixture.add(&far, 1, Interest::WRITE, Mode::Level);
    fixture.events = Events::bounded(1);
    let (mut woken, mut written) = (0, 0);
    for _ in 0..20 {
        fixture.poller.waker().wake();
        written += fixture.now().len();
        woken += usize::from(fixture.events.was_woken());
    }
    assert!(
        woken >= 9 && written >= 9,
        "{}: of 20 waits {woken} saw a wake and {written} an event",
        fixture.name
    );
}

fn a_wake_is_reported_once(fixture: &mut Fixture) {
    let waker = fixture.poller.waker();
    for _ in 0..100 {
        waker.wake();
        fixture.now();
        assert!(fixture.events.was_woken(), "{}", fixture.name);
        fixture.now();
        assert!(!fixture.events.was_woken(), "{}", fixture.name);
    }
}

/// A kernel that lists the waker behind all ready descriptors would report it only after many
/// waits.
fn a_wake_comes_with_the_first_wait_among_hundreds_of_events(fixture: &mut Fixture) {
    let count = if fixture.platform.backend().has_sets() {
        200
    } else {
        400
    };
    let many_sockets = fixture.platform.many_sockets(count);
    for (member, key) in many_sockets.members().into_iter().zip(0..) {
        fixture.add(member, key, Interest::WRITE, Mode::Level);
    }
    fixture.events = Events::bounded(4);
    let waker = fixture.poller.waker();
    for _ in 0..3 {
        waker.wake();
        fixture.now();
        assert!(
            fixture.events.was_woken(),
            "{}: it comes late",
            fixture.name
        );
        // This many waits go through the kernel's whole list.
        for wait in 0..count / 4 + 2 {
            assert_eq!(fixture.now().len(), 4, "{}: all are ready", fixture.name);
            let again = fixture.events.was_woken();
            assert!(!again, "{}: seen again, wait {wait}", fixture.name);
        }
    }
}

/// A closed descriptor is reported as an error, or not at all. In either case, the wake is not
/// delayed.
fn a_wake_comes_with_the_first_wait_despite_closed_descriptors(fixture: &mut Fixture) {
    fixture.add_closed(10, 0..4, Interest::READ);
    fixture.events = Events::bounded(1);
    fixture.poller.waker().wake();
    fixture.now();
    assert!(
        fixture.events.was_woken(),
        "{}: it comes late",
        fixture.name
    );
    for _ in 0..6 {
        fixture.now();
        assert!(!fixture.events.was_woken(), "{}: seen again", fixture.name);
    }
}

fn descriptor(waker: &Waker) -> BorrowedFd<'_> {
    waker.descriptor().expect("a kernel is behind the poller")
}

fn eight_bytes_written_by_hand_wake_too(fixture: &mut Fixture) {
    let waker = fixture.poller.waker();
    for _ in 0..3 {
        rustix::io::write(descriptor(&waker), &1u64.to_ne_bytes()).expect("write");
        fixture.wait(Some(DEADLINE));
        assert!(fixture.events.was_woken(), "{}", fixture.name);
        fixture.now();
        assert!(!fixture.events.was_woken(), "{}", fixture.name);
    }
}

fn a_million_wakes_from_four_threads(fixture: &mut Fixture) {
    const THREADS: u32 = 4;
    const EACH: u32 = 250_000;
    let (noted, waker) = (AtomicU32::new(0), fixture.poller.waker());
    std::thread::scope(|threads| {
        for _ in 0..THREADS {
            threads.spawn(|| {
                for _ in 0..EACH {
                    // Relaxed is enough, because the waker must order this store before the end of
                    // the wait.
                    noted.fetch_add(1, Ordering::Relaxed);
                    waker.wake();
                }
            });
        }
        while noted.load(Ordering::Relaxed) < THREADS * EACH {
            fixture.wait(Some(DEADLINE));
            assert!(
                fixture.events.was_woken(),
                "{}: a wake was lost",
                fixture.name
            );
        }
    });
}

fn a_waker_outlives_its_poller(fixture: &mut Fixture) {
    let poller = fixture.platform.poller();
    let waker = poller.waker();
    drop(poller);
    waker.wake();
    waker.wake();
    fixture.now();
    assert!(
        !fixture.events.was_woken(),
        "{}: the waker of another poller woke this one",
        fixture.name
    );
}

/// A waker is one descriptor on Linux. Elsewhere it may be a pair of sockets, whose writing end can
/// be registered.
fn a_pollers_own_waker_cannot_be_registered(fixture: &mut Fixture) {
    let waker = fixture.poller.waker();
    if cfg!(any(target_os = "linux", target_os = "android")) {
        let refused = fixture
            .poller
            .add(&descriptor(&waker), 1, Interest::WRITE, Mode::Level);
        assert!(
            matches!(refused, Err(Error::AlreadyWatched { .. })),
            "{}: {refused:?}",
            fixture.name
        );
    }
    waker.wake();
    fixture.expect_nothing();
    assert!(
        fixture.events.was_woken(),
        "{}: the waker does not work any more",
        fixture.name
    );
}
