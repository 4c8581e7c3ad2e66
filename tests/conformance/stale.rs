//! Descriptors that were closed before they were removed from the poller, or whose numbers are
//! reused, or whose duplicates are still open. If a wait gets only stale events, the poller
//! rebuilds its set of watched descriptors: it registers the present ones in a new set.

use std::{
    io::Write,
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use evcore_poller::{Error, Interest, Mode};

use crate::{
    fixture::{DEADLINE, Fixture, READABLE, WRITABLE},
    kernel,
};

crate::scenarios! {
    a_reused_number_is_refused_until_its_old_key_is_removed,
    a_reused_number_is_silent_or_watched_by_mistake,
    removing_the_old_key_leaves_the_new_registration;
    of kernels alone:
    a_key_removed_before_close_is_silent_despite_a_duplicate,
    a_closed_and_removed_key_is_silent_despite_a_duplicate,
    a_rebuilt_set_reports_the_other_registrations,
    a_fired_one_shot_is_silent_in_a_rebuilt_set,
    a_descriptor_not_closed_after_all_can_be_added_again,
    a_reported_wake_is_not_repeated_by_a_rebuilt_set,
    no_wake_is_lost_while_the_set_is_rebuilt,
}

fn a_reused_number_is_refused_until_its_old_key_is_removed(fixture: &mut Fixture) {
    let (_near, fd) = fixture.pair();
    fixture.add(&fd, 1, Interest::READ, Mode::Level);
    let (_other, fd) = fixture.platform.succeed(fd);
    let refused = fixture.poller.add(&fd, 2, Interest::WRITE, Mode::Level);
    assert!(
        matches!(refused, Err(Error::AlreadyWatched { .. })),
        "{}: {refused:?}",
        fixture.name
    );
    fixture.poller.remove_before_close(1).expect("registered");
    fixture.add(&fd, 2, Interest::WRITE, Mode::Level);
    fixture.expect(&[(2, WRITABLE)]);
}

fn a_reused_number_is_silent_or_watched_by_mistake(fixture: &mut Fixture) {
    let (_near, fd) = fixture.pair();
    fixture.add(&fd, 1, Interest::READ, Mode::Level);
    fixture.expect_nothing();
    let (mut other, _fd) = fixture.platform.succeed(fd);
    other.write_all(b"a").expect("write");
    if fixture.platform.backend().confuses_reused_numbers() {
        fixture.expect(&[(1, READABLE)]);
    } else {
        fixture.expect_nothing();
    }
    // The kernel may report an error, but the key is removed in any case.
    let _ = fixture.poller.remove(1);
    fixture.expect_nothing();
}

fn removing_the_old_key_leaves_the_new_registration(fixture: &mut Fixture) {
    let (_near, fd) = fixture.pair();
    fixture.add(&fd, 1, Interest::READ, Mode::Level);
    let (_other, fd) = fixture.platform.succeed(fd);
    let _ = fixture.poller.remove(1);
    fixture.add(&fd, 2, Interest::WRITE, Mode::Level);
    assert!(fixture.poller.remove(1).is_err(), "{}", fixture.name);
    fixture.expect(&[(2, WRITABLE)]);
}

/// A readable socket that is registered under key 1, its peer, and a duplicate of the socket.
fn readable(fixture: &mut Fixture) -> (UnixStream, [UnixStream; 2]) {
    let (mut near, far) = kernel::pair();
    near.write_all(b"a").expect("write");
    fixture.add(&far, 1, Interest::READ, Mode::Level);
    fixture.expect(&[(1, READABLE)]);
    let duplicate = far.try_clone().expect("a duplicate");
    (far, [near, duplicate])
}

fn a_key_removed_before_close_is_silent_despite_a_duplicate(fixture: &mut Fixture) {
    let (far, _alive) = readable(fixture);
    fixture.poller.remove_before_close(1).expect("registered");
    drop(far);
    fixture.expect_silence();
}

fn a_closed_and_removed_key_is_silent_despite_a_duplicate(fixture: &mut Fixture) {
    let (far, _alive) = readable(fixture);
    drop(far);
    let _ = fixture.poller.remove(1);
    fixture.expect_silence();
}

fn a_rebuilt_set_reports_the_other_registrations(fixture: &mut Fixture) {
    let (far, _alive) = readable(fixture);
    let ((mut near, level), (mut other, edge)) = (kernel::pair(), kernel::pair());
    fixture.add(&level, 2, Interest::READ, Mode::Level);
    fixture.add(&edge, 3, Interest::READ, Mode::Edge);
    fixture.poller.remove_before_close(1).expect("registered");
    drop(far);
    fixture.expect_silence();
    near.write_all(b"a").expect("write");
    fixture.expect(&[(2, READABLE)]);
    other.write_all(b"a").expect("write");
    fixture.expect(&[(2, READABLE), (3, READABLE)]);
    fixture.expect(&[(2, READABLE)]);
    fixture.poller.waker().wake();
    fixture.modify(2, Interest::NONE);
    fixture.expect_nothing();
    assert!(fixture.events.was_woken(), "{}", fixture.name);
}

fn a_fired_one_shot_is_silent_in_a_rebuilt_set(fixture: &mut Fixture) {
    let (mut near, once) = kernel::pair();
    near.write_all(b"a").expect("write");
    fixture.add(&once, 2, Interest::READ, Mode::Oneshot);
    fixture.expect(&[(2, READABLE)]);
    let (far, _alive) = readable(fixture);
    fixture.poller.remove_before_close(1).expect("registered");
    drop(far);
    fixture.expect_silence();
    fixture.modify(2, Interest::READ);
    fixture.expect(&[(2, READABLE)]);
    fixture.expect_nothing();
}

/// epoll's waker is an eventfd whose counter stays above zero. A rebuilt epoll set must not report
/// the counter as another wake.
fn a_reported_wake_is_not_repeated_by_a_rebuilt_set(fixture: &mut Fixture) {
    for _ in 0..3 {
        fixture.poller.waker().wake();
        fixture.now();
        assert!(fixture.events.was_woken(), "{}", fixture.name);
        let (far, _alive) = readable(fixture);
        fixture.poller.remove_before_close(1).expect("registered");
        drop(far);
        let timeout = Duration::from_millis(5);
        let start = fixture.platform.time();
        assert_eq!(fixture.wait(Some(timeout)), [], "{}", fixture.name);
        assert!(
            !fixture.events.was_woken(),
            "{}: nobody woke it",
            fixture.name
        );
        let waited = fixture.platform.time() - start;
        assert!(waited >= timeout, "{}: only {waited:?}", fixture.name);
    }
}

/// A thread increments a counter and wakes the poller, while each wait has to drop a stale
/// registration.
fn no_wake_is_lost_while_the_set_is_rebuilt(fixture: &mut Fixture) {
    const WAKES: u32 = 20_000;
    let (noted, waker) = (AtomicU32::new(0), fixture.poller.waker());
    let (mut near, far) = kernel::pair();
    near.write_all(b"a").expect("write");
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..WAKES {
                // Relaxed is enough, because the waker must order this store before the end of the
                // wait.
                noted.fetch_add(1, Ordering::Relaxed);
                waker.wake();
            }
        });
        while noted.load(Ordering::Relaxed) < WAKES {
            let duplicate = far.try_clone().expect("a duplicate");
            fixture.add(&duplicate, 1, Interest::READ, Mode::Level);
            fixture.poller.remove_before_close(1).expect("registered");
            drop(duplicate);
            assert_eq!(fixture.wait(Some(DEADLINE)), [], "{}", fixture.name);
            assert!(
                fixture.events.was_woken(),
                "{}: a wake was lost",
                fixture.name
            );
        }
    });
}

/// The descriptor is closed, and its number is taken by a duplicate, so number and file stay the
/// same.
fn a_descriptor_not_closed_after_all_can_be_added_again(fixture: &mut Fixture) {
    let (near, far) = kernel::pair();
    let mut fd = OwnedFd::from(far);
    let duplicate = fd.try_clone().expect("a duplicate");
    for (key, interest, ready) in [
        (1, Interest::READ, READABLE),
        (2, Interest::WRITE, WRITABLE),
        (3, Interest::READ, READABLE),
    ] {
        (&near).write_all(b"a").expect("write");
        if key == 3 && fixture.poller.backend().capabilities().exclusive {
            fixture.add(&fd, key, interest, Mode::Exclusive);
        } else {
            fixture.add(&fd, key, interest, Mode::Level);
        }
        fixture.expect(&[(key, ready)]);
        fixture.poller.remove_before_close(key).expect("registered");
        rustix::io::dup2(&duplicate, &mut fd).expect("the number is taken over");
    }
    fixture.add(&fd, 4, Interest::WRITE, Mode::Level);
    fixture.expect(&[(4, WRITABLE)]);
}
