//! Signals that arrive during a wait.
//!
//! A thread sends SIGUSR1 to the waiting thread repeatedly until the wait is over. The handler only
//! counts, and is installed without `SA_RESTART`, so that signals interrupt the wait.

#![allow(
    unsafe_code,
    reason = "a signal handler is installed, and one thread is signalled"
)]

use std::{
    io::Write,
    sync::{
        Once,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use evcore_poller::{Error, Events, Interest, Mode};
use evcore_tests::SetOnDrop;

use crate::{
    fixture::{DEADLINE, Fixture, READABLE, Trace},
    kernel::pair,
};

crate::scenarios! {
    of kernels alone:
    a_wait_goes_on_to_its_deadline_through_signals,
    a_wait_without_a_timeout_goes_on_through_signals,
    a_wait_goes_on_through_signals_to_what_becomes_ready,
    a_wait_returns_on_a_signal_if_asked_to,
}

static CAUGHT: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_signal: libc::c_int) {
    CAUGHT.fetch_add(1, Ordering::Relaxed);
}

fn install_handler() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let handler: extern "C" fn(libc::c_int) = count;
        // SAFETY: all zeroes is a `sigaction`: no flags, an empty mask, the default handler.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as libc::sighandler_t;
        // SAFETY: `action` is a whole `sigaction`, and its handler touches one atomic number.
        let result = unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) };
        assert_eq!(result, 0, "sigaction");
    });
}

/// Runs `wait` while signals arrive at the calling thread. The first one arrives before the wait.
fn under_signals<T>(wait: impl FnOnce() -> T) -> T {
    install_handler();
    // SAFETY: the call has no preconditions.
    let waiting = unsafe { libc::pthread_self() };
    let (over, caught_before) = (AtomicBool::new(false), CAUGHT.load(Ordering::Relaxed));
    std::thread::scope(|threads| {
        // The flag is set even if `wait` panics.
        let _over = SetOnDrop(&over);
        threads.spawn(|| {
            let start = Instant::now();
            while !over.load(Ordering::Relaxed) {
                assert!(start.elapsed() < DEADLINE, "the wait begins again forever");
                // SAFETY: the thread lives, because it waits at the end of this scope for this
                // loop.
                let result = unsafe { libc::pthread_kill(waiting, libc::SIGUSR1) };
                assert_eq!(result, 0, "pthread_kill");
                std::thread::yield_now();
            }
        });
        until_caught(caught_before + 1);
        wait()
    })
}

fn until_caught(count: u32) {
    while CAUGHT.load(Ordering::Relaxed) < count {
        std::thread::yield_now();
    }
}

/// Waits without a timeout under signals, and calls `last` after a hundred of them.
fn wait_until(fixture: &mut Fixture, last: impl FnOnce() + Send) -> Trace {
    under_signals(|| {
        std::thread::scope(|threads| {
            let enough = CAUGHT.load(Ordering::Relaxed) + 100;
            threads.spawn(move || {
                until_caught(enough);
                last();
            });
            fixture.wait(None)
        })
    })
}

fn a_wait_goes_on_to_its_deadline_through_signals(fixture: &mut Fixture) {
    let (_near, far) = pair();
    fixture.add(&far, 1, Interest::READ, Mode::Level);
    let timeout = Duration::from_millis(50);
    let (trace, waited) = under_signals(|| {
        let start = Instant::now();
        (fixture.wait(Some(timeout)), start.elapsed())
    });
    assert_eq!(trace, [], "{}", fixture.name);
    assert!(waited >= timeout, "{}: only {waited:?}", fixture.name);
}

fn a_wait_without_a_timeout_goes_on_through_signals(fixture: &mut Fixture) {
    let waker = fixture.poller.waker();
    assert_eq!(wait_until(fixture, || waker.wake()), [], "{}", fixture.name);
    assert!(fixture.events.was_woken(), "{}", fixture.name);
}

fn a_wait_goes_on_through_signals_to_what_becomes_ready(fixture: &mut Fixture) {
    let (mut near, far) = pair();
    fixture.add(&far, 1, Interest::READ, Mode::Level);
    let trace = wait_until(fixture, || near.write_all(b"a").expect("write"));
    assert_eq!(trace, [(1, READABLE)], "{}", fixture.name);
}

fn a_wait_returns_on_a_signal_if_asked_to(fixture: &mut Fixture) {
    fixture.events = Events::raw(64);
    let (_near, far) = pair();
    fixture.add(&far, 1, Interest::READ, Mode::Level);
    // The interest changes before some of the waits, because some backends pass changes to the
    // kernel in the call that waits.
    for (interest, timeout) in [
        (Interest::READ, None),
        (Interest::NONE, Some(DEADLINE)),
        (Interest::READ, Some(DEADLINE)),
        (Interest::READ, Some(DEADLINE)),
    ] {
        fixture.poller.modify(1, interest).expect("registered");
        let seen = under_signals(|| fixture.poller.wait(&mut fixture.events, timeout));
        assert!(
            matches!(seen, Err(Error::Interrupted)),
            "{}: {seen:?}",
            fixture.name
        );
        assert!(fixture.events.is_empty(), "{}", fixture.name);
    }
    fixture.poller.waker().wake();
    fixture.wait(None);
    assert!(
        fixture.events.was_woken(),
        "{}: it goes on as before",
        fixture.name
    );
}
