//! Every interleaving of one who tells a worker something with the worker that says what to ring
//! for it: the file that ships, over loom's atomics.
//!
//! At the end of both, the worker must have been rung, by the one or by itself. Each mutant leaves
//! one step out, and must be caught.

#![cfg(evcore_loom)]

#[path = "../src/told.rs"]
#[allow(dead_code, reason = "the crate uses all of it")]
mod told;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, Ordering, fence};
}

use std::sync::Arc;

use loom::thread;
use sync::{AtomicI32, AtomicU8, AtomicU32, Ordering};
use told::{NOWHERE, Told};

const FD: i32 = 5;

/// The steps of both sides: those that ship, or one of them done wrongly.
#[derive(Clone, Copy)]
struct Steps {
    tell: fn(&Told) -> Option<i32>,
    wake_by: fn(&Told) -> bool,
}

const SOUND: Steps = Steps {
    tell: |told| told.stop(2),
    wake_by: |told| told.wake_by(FD),
};

fn told() -> Told {
    Told {
        stop: AtomicU8::new(0),
        reopens: AtomicU32::new(0),
        wake: AtomicI32::new(NOWHERE),
    }
}

/// Somebody is rung, and it is the worker.
fn the_worker_is_rung(steps: Steps) {
    loom::model(move || {
        let here = Arc::new(told());
        let teller = {
            let here = Arc::clone(&here);
            thread::spawn(move || (steps.tell)(&here))
        };
        let rings_itself = (steps.wake_by)(&here);
        let rung = teller.join().unwrap();
        assert!(rung.is_none() || rung == Some(FD));
        assert!(rings_itself || rung == Some(FD), "nobody is rung");
    });
}

#[test]
fn a_stop_is_never_missed() {
    the_worker_is_rung(SOUND);
}

#[test]
fn a_reopening_is_never_missed() {
    the_worker_is_rung(Steps {
        tell: |told| told.reopen(),
        ..SOUND
    });
}

#[test]
fn of_two_stops_the_harder_is_kept_and_both_ring() {
    loom::model(|| {
        let here = Arc::new(told());
        let tellers = [1, 2].map(|severity| {
            let here = Arc::clone(&here);
            thread::spawn(move || here.stop(severity))
        });
        let rings_itself = here.wake_by(FD);
        for teller in tellers {
            assert!(teller.join().unwrap() == Some(FD) || rings_itself);
        }
        assert_eq!(here.severity(), 2);
    });
}

#[test]
#[should_panic = "nobody is rung"]
fn mutant_telling_without_the_fence_is_caught() {
    the_worker_is_rung(Steps {
        tell: |told| {
            told.stop.fetch_max(2, Ordering::Release);
            let fd = told.wake.load(Ordering::Acquire);
            (fd != NOWHERE).then_some(fd)
        },
        ..SOUND
    });
}

#[test]
#[should_panic = "nobody is rung"]
fn mutant_looking_before_the_note_is_caught() {
    the_worker_is_rung(Steps {
        tell: |told| {
            let fd = told.bell();
            told.stop.fetch_max(2, Ordering::Release);
            fd
        },
        ..SOUND
    });
}

#[test]
#[should_panic = "nobody is rung"]
fn mutant_waking_without_the_fence_is_caught() {
    the_worker_is_rung(Steps {
        wake_by: |told| {
            told.wake.store(FD, Ordering::Release);
            told.severity() != 0
        },
        ..SOUND
    });
}
