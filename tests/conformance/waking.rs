//! The waker: kept for the next wait, merged, never lost.

use std::sync::atomic::{AtomicU32, Ordering};

use evcore_poller::{Error, Events, Interest, Mode};

use crate::stage::{PATIENCE, Stage, WRITABLE};

crate::scenarios! {
    a_wake_before_the_wait_is_kept,
    many_wakes_before_a_wait_are_one,
    a_wake_is_not_an_event,
    a_wake_and_events_come_together,
    a_buffer_of_one_starves_neither_wakes_nor_events,
    a_wake_that_is_seen_is_over,
    a_wake_comes_with_the_first_wait_among_hundreds_of_events,
    a_wake_comes_with_the_first_wait_beside_closed_descriptors,
    a_waker_outlives_its_poller;
    of kernels alone:
    eight_bytes_written_by_hand_wake_too,
    a_million_wakes_from_four_threads,
    a_pollers_own_waker_cannot_be_registered,
}

fn a_wake_before_the_wait_is_kept(stage: &mut Stage) {
    stage.poller.waker().wake();
    stage.wait(Some(PATIENCE));
    assert!(stage.events.was_woken(), "{}", stage.name);
}

fn many_wakes_before_a_wait_are_one(stage: &mut Stage) {
    let waker = stage.poller.waker();
    for _ in 0..3 {
        for _ in 0..1000 {
            waker.clone().wake();
        }
        stage.wait(Some(PATIENCE));
        assert!(stage.events.was_woken(), "{}", stage.name);
        stage.now();
        assert!(!stage.events.was_woken(), "{}: one wake", stage.name);
    }
}

fn a_wake_is_not_an_event(stage: &mut Stage) {
    stage.poller.waker().wake();
    stage.expect_nothing();
    assert!(stage.events.was_woken(), "{}", stage.name);
}

fn a_wake_and_events_come_together(stage: &mut Stage) {
    let (_near, far) = stage.pair();
    stage.add(&far, 1, Interest::WRITE, Mode::Level);
    stage.poller.waker().wake();
    stage.expect(&[(1, WRITABLE)]);
    assert!(stage.events.was_woken(), "{}", stage.name);
    stage.expect(&[(1, WRITABLE)]);
    assert!(!stage.events.was_woken(), "{}", stage.name);
}

fn a_buffer_of_one_starves_neither_wakes_nor_events(stage: &mut Stage) {
    let (_near, far) = stage.pair();
    stage.add(&far, 1, Interest::WRITE, Mode::Level);
    stage.events = Events::with_capacity(1);
    let (mut woken, mut written) = (0, 0);
    for _ in 0..20 {
        stage.poller.waker().wake();
        written += stage.now().len();
        woken += usize::from(stage.events.was_woken());
    }
    assert!(
        woken >= 9 && written >= 9,
        "{}: of 20 waits {woken} saw a wake and {written} an event",
        stage.name
    );
}

fn a_wake_that_is_seen_is_over(stage: &mut Stage) {
    let waker = stage.poller.waker();
    for _ in 0..100 {
        waker.wake();
        stage.now();
        assert!(stage.events.was_woken(), "{}", stage.name);
        stage.now();
        assert!(!stage.events.was_woken(), "{}", stage.name);
    }
}

/// A kernel that lists the waker behind all that is ready would come to it only after 100 waits.
fn a_wake_comes_with_the_first_wait_among_hundreds_of_events(stage: &mut Stage) {
    let count = if stage.ground.backend().has_sets() {
        200
    } else {
        400
    };
    let crowd = stage.ground.crowd(count);
    for (member, key) in crowd.members().into_iter().zip(0..) {
        stage.add(member, key, Interest::WRITE, Mode::Level);
    }
    stage.events = Events::with_capacity(4);
    let waker = stage.poller.waker();
    for _ in 0..3 {
        waker.wake();
        stage.now();
        assert!(stage.events.was_woken(), "{}: it comes late", stage.name);
        // As many waits as it takes the kernel to go through the whole list.
        for wait in 0..count / 4 + 2 {
            assert_eq!(stage.now().len(), 4, "{}: all are ready", stage.name);
            let again = stage.events.was_woken();
            assert!(!again, "{}: seen again, wait {wait}", stage.name);
        }
    }
}

/// Each is reported once, as an error, or is silent; in either case the wake is not held up.
fn a_wake_comes_with_the_first_wait_beside_closed_descriptors(stage: &mut Stage) {
    stage.add_closed(10, 0..4, Interest::READ);
    stage.events = Events::with_capacity(1);
    stage.poller.waker().wake();
    stage.now();
    assert!(stage.events.was_woken(), "{}: it comes late", stage.name);
    for _ in 0..6 {
        stage.now();
        assert!(!stage.events.was_woken(), "{}: seen again", stage.name);
    }
}

fn eight_bytes_written_by_hand_wake_too(stage: &mut Stage) {
    let waker = stage.poller.waker();
    for _ in 0..3 {
        rustix::io::write(&waker, &1u64.to_ne_bytes()).expect("write");
        stage.wait(Some(PATIENCE));
        assert!(stage.events.was_woken(), "{}", stage.name);
        stage.now();
        assert!(!stage.events.was_woken(), "{}", stage.name);
    }
}

fn a_million_wakes_from_four_threads(stage: &mut Stage) {
    const THREADS: u32 = 4;
    const EACH: u32 = 250_000;
    let (noted, waker) = (AtomicU32::new(0), stage.poller.waker());
    std::thread::scope(|threads| {
        for _ in 0..THREADS {
            threads.spawn(|| {
                for _ in 0..EACH {
                    // Relaxed: that it is seen after the wait is the waker's to see to.
                    noted.fetch_add(1, Ordering::Relaxed);
                    waker.wake();
                }
            });
        }
        while noted.load(Ordering::Relaxed) < THREADS * EACH {
            stage.wait(Some(PATIENCE));
            assert!(stage.events.was_woken(), "{}: a wake was lost", stage.name);
        }
    });
}

fn a_waker_outlives_its_poller(stage: &mut Stage) {
    let poller = stage.ground.poller();
    let waker = poller.waker();
    drop(poller);
    waker.wake();
    waker.wake();
    stage.now();
    assert!(
        !stage.events.was_woken(),
        "{}: it was another's",
        stage.name
    );
}

/// Where it is one descriptor. (Where it is a pair of sockets, the end that is had here is not the
/// one that is watched, and can be as any other.)
fn a_pollers_own_waker_cannot_be_registered(stage: &mut Stage) {
    let waker = stage.poller.waker();
    if cfg!(any(target_os = "linux", target_os = "android")) {
        let refused = stage.poller.add(&waker, 1, Interest::WRITE, Mode::Level);
        assert!(
            matches!(refused, Err(Error::AlreadyWatched { .. })),
            "{}: {refused:?}",
            stage.name
        );
    }
    waker.wake();
    stage.expect_nothing();
    assert!(stage.events.was_woken(), "{}: it is not deaf", stage.name);
}
