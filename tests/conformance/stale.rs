//! Descriptors that were closed without a word, whose numbers come back, or whose duplicates live.

use std::{
    io::Write,
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use evcore_poller::{Error, Interest, Mode};

use crate::{
    kernel,
    stage::{PATIENCE, READABLE, Stage, WRITABLE},
};

crate::scenarios! {
    a_number_that_came_back_is_refused_until_its_old_key_is_gone,
    a_number_that_came_back_is_silent_or_is_taken_for_what_it_was,
    removing_the_old_key_leaves_the_new_owner_alone;
    of kernels alone:
    what_was_forgotten_is_silent_although_a_duplicate_lives,
    what_was_closed_and_removed_is_silent_although_a_duplicate_lives,
    the_others_are_heard_after_the_silence,
    a_one_shot_that_reported_is_silent_after_the_silence,
    what_was_forgotten_and_lives_on_under_its_number_is_added_again,
    a_wake_that_was_seen_is_not_seen_again_after_the_silence,
    no_wake_is_lost_while_the_forgotten_are_silenced,
}

fn a_number_that_came_back_is_refused_until_its_old_key_is_gone(stage: &mut Stage) {
    let (_near, fd) = stage.pair();
    stage.add(&fd, 1, Interest::READ, Mode::Level);
    let (_other, fd) = stage.ground.succeed(fd);
    let refused = stage.poller.add(&fd, 2, Interest::WRITE, Mode::Level);
    assert!(
        matches!(refused, Err(Error::AlreadyWatched { .. })),
        "{}: {refused:?}",
        stage.name
    );
    stage.poller.remove_before_close(1).expect("registered");
    stage.add(&fd, 2, Interest::WRITE, Mode::Level);
    stage.expect(&[(2, WRITABLE)]);
}

fn a_number_that_came_back_is_silent_or_is_taken_for_what_it_was(stage: &mut Stage) {
    let (_near, fd) = stage.pair();
    stage.add(&fd, 1, Interest::READ, Mode::Level);
    stage.expect_nothing();
    let (mut other, _fd) = stage.ground.succeed(fd);
    other.write_all(b"a").expect("write");
    if stage.ground.backend().knows_numbers_alone() {
        stage.expect(&[(1, READABLE)]);
    } else {
        stage.expect_nothing();
    }
    // Whether it is an error is up to the kernel; the key is gone all the same.
    let _ = stage.poller.remove(1);
    stage.expect_nothing();
}

fn removing_the_old_key_leaves_the_new_owner_alone(stage: &mut Stage) {
    let (_near, fd) = stage.pair();
    stage.add(&fd, 1, Interest::READ, Mode::Level);
    let (_other, fd) = stage.ground.succeed(fd);
    let _ = stage.poller.remove(1);
    stage.add(&fd, 2, Interest::WRITE, Mode::Level);
    assert!(stage.poller.remove(1).is_err(), "{}", stage.name);
    stage.expect(&[(2, WRITABLE)]);
}

/// A readable socket, registered under key 1, and a duplicate of it that is not.
fn readable(stage: &mut Stage) -> (UnixStream, [UnixStream; 2]) {
    let (mut near, far) = kernel::pair();
    near.write_all(b"a").expect("write");
    stage.add(&far, 1, Interest::READ, Mode::Level);
    stage.expect(&[(1, READABLE)]);
    let duplicate = far.try_clone().expect("a duplicate");
    (far, [near, duplicate])
}

fn what_was_forgotten_is_silent_although_a_duplicate_lives(stage: &mut Stage) {
    let (far, _alive) = readable(stage);
    stage.poller.remove_before_close(1).expect("registered");
    drop(far);
    stage.expect_silence();
}

fn what_was_closed_and_removed_is_silent_although_a_duplicate_lives(stage: &mut Stage) {
    let (far, _alive) = readable(stage);
    drop(far);
    let _ = stage.poller.remove(1);
    stage.expect_silence();
}

fn the_others_are_heard_after_the_silence(stage: &mut Stage) {
    let (far, _alive) = readable(stage);
    let ((mut near, level), (mut other, edge)) = (kernel::pair(), kernel::pair());
    stage.add(&level, 2, Interest::READ, Mode::Level);
    stage.add(&edge, 3, Interest::READ, Mode::Edge);
    stage.poller.remove_before_close(1).expect("registered");
    drop(far);
    stage.expect_silence();
    near.write_all(b"a").expect("write");
    stage.expect(&[(2, READABLE)]);
    other.write_all(b"a").expect("write");
    stage.expect(&[(2, READABLE), (3, READABLE)]);
    stage.expect(&[(2, READABLE)]);
    stage.poller.waker().wake();
    stage.modify(2, Interest::NONE);
    stage.expect_nothing();
    assert!(stage.events.was_woken(), "{}", stage.name);
}

fn a_one_shot_that_reported_is_silent_after_the_silence(stage: &mut Stage) {
    let (mut near, once) = kernel::pair();
    near.write_all(b"a").expect("write");
    stage.add(&once, 2, Interest::READ, Mode::Oneshot);
    stage.expect(&[(2, READABLE)]);
    let (far, _alive) = readable(stage);
    stage.poller.remove_before_close(1).expect("registered");
    drop(far);
    stage.expect_silence();
    stage.modify(2, Interest::READ);
    stage.expect(&[(2, READABLE)]);
    stage.expect_nothing();
}

/// The counter of epoll's eventfd must not make a new set report a wake again.
fn a_wake_that_was_seen_is_not_seen_again_after_the_silence(stage: &mut Stage) {
    for _ in 0..3 {
        stage.poller.waker().wake();
        stage.now();
        assert!(stage.events.was_woken(), "{}", stage.name);
        let (far, _alive) = readable(stage);
        stage.poller.remove_before_close(1).expect("registered");
        drop(far);
        let timeout = Duration::from_millis(5);
        let start = stage.ground.time();
        assert_eq!(stage.wait(Some(timeout)), [], "{}", stage.name);
        assert!(!stage.events.was_woken(), "{}: nobody woke it", stage.name);
        let waited = stage.ground.time() - start;
        assert!(waited >= timeout, "{}: only {waited:?}", stage.name);
    }
}

/// A thread notes and wakes, while each wait has something to be rid of.
fn no_wake_is_lost_while_the_forgotten_are_silenced(stage: &mut Stage) {
    const WAKES: u32 = 20_000;
    let (noted, waker) = (AtomicU32::new(0), stage.poller.waker());
    let (mut near, far) = kernel::pair();
    near.write_all(b"a").expect("write");
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..WAKES {
                // Relaxed: that it is seen after the wait is up to the waker.
                noted.fetch_add(1, Ordering::Relaxed);
                waker.wake();
            }
        });
        while noted.load(Ordering::Relaxed) < WAKES {
            let duplicate = far.try_clone().expect("a duplicate");
            stage.add(&duplicate, 1, Interest::READ, Mode::Level);
            stage.poller.remove_before_close(1).expect("registered");
            drop(duplicate);
            assert_eq!(stage.wait(Some(PATIENCE)), [], "{}", stage.name);
            assert!(stage.events.was_woken(), "{}: a wake was lost", stage.name);
        }
    });
}

/// Closed, and opened again as a duplicate of itself: number and file are those of before.
fn what_was_forgotten_and_lives_on_under_its_number_is_added_again(stage: &mut Stage) {
    let (near, far) = kernel::pair();
    let mut fd = OwnedFd::from(far);
    let duplicate = fd.try_clone().expect("a duplicate");
    for (key, interest, ready) in [
        (1, Interest::READ, READABLE),
        (2, Interest::WRITE, WRITABLE),
        (3, Interest::READ, READABLE),
    ] {
        (&near).write_all(b"a").expect("write");
        if key == 3 && stage.poller.backend().capabilities().exclusive {
            stage.add_exclusive(&fd, key, interest, Mode::Level);
        } else {
            stage.add(&fd, key, interest, Mode::Level);
        }
        stage.expect(&[(key, ready)]);
        stage.poller.remove_before_close(key).expect("registered");
        rustix::io::dup2(&duplicate, &mut fd).expect("the number is taken over");
    }
    stage.add(&fd, 4, Interest::WRITE, Mode::Level);
    stage.expect(&[(4, WRITABLE)]);
}
