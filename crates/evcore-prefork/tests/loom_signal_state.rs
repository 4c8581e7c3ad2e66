//! Tests every interleaving of a signal handler that makes a request, and a worker that sets the
//! descriptor by which handlers wake it. The shipped file `signal_state.rs` runs over loom's
//! atomics.
//!
//! The request or the worker itself must wake the worker. Each mutant has one wrong step, which
//! loom must find.

#![cfg(evcore_loom)]

#[path = "../src/signal_state.rs"]
#[allow(dead_code, reason = "the crate uses all of it")]
mod signal_state;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, Ordering, fence};
}

use std::sync::Arc;

use loom::thread;
use signal_state::{NO_FD, SignalState};
use sync::{AtomicI32, AtomicU8, AtomicU32, Ordering};

const FD: i32 = 5;

#[derive(Clone, Copy)]
struct Steps {
    request: fn(&SignalState) -> Option<i32>,
    set_wake_fd: fn(&SignalState) -> bool,
}

const SOUND: Steps = Steps {
    request: |state| state.request_stop(2),
    set_wake_fd: |state| state.set_wake_fd(FD),
};

fn state() -> SignalState {
    SignalState {
        stop: AtomicU8::new(0),
        reopen_count: AtomicU32::new(0),
        wake_fd: AtomicI32::new(NO_FD),
    }
}

fn the_worker_is_woken(steps: Steps) {
    loom::model(move || {
        let state = Arc::new(state());
        let handler = {
            let state = Arc::clone(&state);
            thread::spawn(move || (steps.request)(&state))
        };
        let wakes_itself = (steps.set_wake_fd)(&state);
        let woken = handler.join().unwrap();
        assert!(woken.is_none() || woken == Some(FD));
        assert!(wakes_itself || woken == Some(FD), "the worker is not woken");
    });
}

#[test]
fn a_stop_is_never_missed() {
    the_worker_is_woken(SOUND);
}

#[test]
fn a_reopen_is_never_missed() {
    the_worker_is_woken(Steps {
        request: |state| state.request_reopen(),
        ..SOUND
    });
}

#[test]
fn of_two_stops_the_harder_is_kept_and_both_wake() {
    loom::model(|| {
        let state = Arc::new(state());
        let handlers = [1, 2].map(|severity| {
            let state = Arc::clone(&state);
            thread::spawn(move || state.request_stop(severity))
        });
        let wakes_itself = state.set_wake_fd(FD);
        for handler in handlers {
            assert!(handler.join().unwrap() == Some(FD) || wakes_itself);
        }
        assert_eq!(state.severity(), 2);
    });
}

#[test]
#[should_panic = "the worker is not woken"]
fn mutant_request_without_the_fence_is_caught() {
    the_worker_is_woken(Steps {
        request: |state| {
            state.stop.fetch_max(2, Ordering::Release);
            let fd = state.wake_fd.load(Ordering::Acquire);
            (fd != NO_FD).then_some(fd)
        },
        ..SOUND
    });
}

#[test]
#[should_panic = "the worker is not woken"]
fn mutant_load_before_the_request_is_caught() {
    the_worker_is_woken(Steps {
        request: |state| {
            let fd = state.wake_fd();
            state.stop.fetch_max(2, Ordering::Release);
            fd
        },
        ..SOUND
    });
}

#[test]
#[should_panic = "the worker is not woken"]
fn mutant_set_wake_fd_without_the_fence_is_caught() {
    the_worker_is_woken(Steps {
        set_wake_fd: |state| {
            state.wake_fd.store(FD, Ordering::Release);
            state.severity() != 0
        },
        ..SOUND
    });
}
