//! Tests the scoreboard with readers, and with two workers that use the same slot one after the
//! other. The shipped file runs over loom's atomics, with at most 3 preemptions.
//!
//! A worker publishes and dies. Its parent reaps it, which here is a join, and releases its gauges.
//! Then the replacement starts and continues the counters. Meanwhile another process reads. Each
//! mutant does one step wrongly or at the wrong time, and must be caught.

#![cfg(evcore_loom)]

#[path = "../src/line.rs"]
mod line;
#[path = "../src/scoreboard.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate uses and exports it")]
mod scoreboard;
#[path = "../src/worker_id.rs"]
#[allow(dead_code, unreachable_pub, reason = "the crate uses and exports it")]
mod worker_id;

mod sync {
    pub(crate) use loom::sync::atomic::AtomicU64;
}

/// Plain memory, which the threads of a model share anyway.
mod shared_memory {
    use std::{array, io, ops::Deref};

    use crate::{line::Line, sync::AtomicU64};

    #[derive(Debug)]
    pub(crate) struct SharedSlice<T>(Vec<T>);

    impl<const N: usize> SharedSlice<Line<N>> {
        #[allow(clippy::unnecessary_wraps, reason = "the real one can fail")]
        pub(crate) fn new(len: usize) -> io::Result<Self> {
            let line = |_| Line(array::from_fn(|_| AtomicU64::new(0)));
            Ok(Self((0..len).map(line).collect()))
        }
    }

    impl<T> Deref for SharedSlice<T> {
        type Target = [T];

        fn deref(&self) -> &[T] {
            &self.0
        }
    }
}

mod notify {
    pub(crate) trait Notify {}
}

/// The items of `group` that `scoreboard.rs` needs to compile.
#[allow(dead_code, reason = "no model has a group")]
mod group {
    use std::{fmt, marker::PhantomData, sync::Arc};

    use crate::worker_id::WorkerId;

    pub(crate) trait ReleaseDead: fmt::Debug + Send + Sync {
        fn release_dead(&self, dead: WorkerId);
    }

    pub(crate) struct WorkerGroup<N>(PhantomData<N>);

    impl<N> WorkerGroup<N> {
        pub(crate) fn workers(&self) -> usize {
            1
        }

        pub(crate) fn also_release(self, _other: Arc<dyn ReleaseDead>) -> Self {
            self
        }
    }
}

use loom::thread;
use worker_id::WorkerId;

/// A line has the number of open connections (a gauge) and of requests (a counter).
type Scoreboard = scoreboard::Scoreboard<2>;

fn me() -> WorkerId {
    WorkerId::from_slot(0)
}

/// The steps of the worker that dies, of its parent and of its replacement.
#[derive(Clone, Copy)]
struct Steps {
    publish: fn(&Scoreboard, [u64; 2]),
    release: fn(&Scoreboard),
    /// Returns the number of requests with which the replacement begins.
    resume: fn(&Scoreboard) -> u64,
    /// True if the parent releases the dead worker before it starts the replacement.
    releases_first: bool,
    /// True if the parent waits for the death.
    reaps: bool,
}

const SOUND: Steps = Steps {
    publish: |board, numbers| board.publish(me(), &numbers),
    release: |board| board.release_dead(me()),
    resume: |board| board.read(me())[1],
    releases_first: true,
    reaps: true,
};

impl Steps {
    /// The first worker publishes 3 and then 5 connections, and one more request each time. The
    /// second one publishes 7 and then 9. Two threads read once each, because loom misses races
    /// with a word that a thread has loaded before. The first thread reads at any time, the second
    /// one after the death of the first worker.
    fn check(self) {
        let mut model = loom::model::Builder::new();
        // All interleavings of the readers take minutes.
        model.preemption_bound = model.preemption_bound.or(Some(3));
        model.check(move || {
            let board = Scoreboard::new(1, 1).unwrap();
            let on = |work: fn(Self, &Scoreboard)| {
                let board = board.clone();
                thread::spawn(move || work(self, &board))
            };
            let reader = on(|_, board| assert_published(board, &[0, 3, 5, 7, 9], &[0, 1, 2, 3, 4]));
            let first = on(|steps, board| {
                (steps.publish)(board, [3, 1]);
                board.update(me(), [(0, 5), (1, 2)]);
            });
            if self.reaps {
                first.join().unwrap();
            }
            let late_reader = on(|_, board| assert_published(board, &[5, 0, 7, 9], &[2, 3, 4]));
            if self.releases_first {
                (self.release)(&board);
                let expected = [0, 2];
                assert_eq!(board.read(me()), expected, "after the death");
            }
            let second = on(|steps, board| {
                let requests = (steps.resume)(board);
                (steps.publish)(board, [7, requests + 1]);
                board.update(me(), [(0, 9), (1, requests + 2)]);
            });
            if !self.releases_first {
                (self.release)(&board);
            }
            second.join().unwrap();
            let expected = [9, 4];
            assert_eq!(board.read(me()), expected, "the second worker's numbers");
            reader.join().unwrap();
            late_reader.join().unwrap();
        });
    }
}

/// Reads once, and asserts that both numbers are among the published ones.
fn assert_published(board: &Scoreboard, open: &[u64], requests: &[u64]) {
    let numbers = board.read(me());
    let is_published = open.contains(&numbers[0]) && requests.contains(&numbers[1]);
    assert!(
        is_published,
        "{numbers:?}: not published, or published too early"
    );
}

#[test]
fn gauges_end_with_a_worker_and_counters_never_go_back() {
    SOUND.check();
}

#[test]
#[should_panic(expected = "the second worker's numbers")]
fn mutant_releasing_after_the_replacement_has_started_is_caught() {
    Steps {
        releases_first: false,
        ..SOUND
    }
    .check();
}

#[test]
#[should_panic(expected = "after the death")]
fn mutant_releasing_before_the_death_is_caught() {
    Steps {
        reaps: false,
        ..SOUND
    }
    .check();
}

#[test]
#[should_panic(expected = "after the death")]
fn mutant_releasing_counters_too_is_caught() {
    Steps {
        release: |board| board.publish(me(), &[0, 0]),
        ..SOUND
    }
    .check();
}

#[test]
#[should_panic(expected = "the second worker's numbers")]
fn mutant_a_replacement_that_begins_at_zero_is_caught() {
    Steps {
        resume: |_| 0,
        ..SOUND
    }
    .check();
}

#[test]
#[should_panic(expected = "not published, or published too early")]
fn mutant_a_number_is_cleared_before_it_is_stored() {
    Steps {
        publish: |board, numbers| {
            board.publish(me(), &[0, 0]);
            board.publish(me(), &numbers);
        },
        ..SOUND
    }
    .check();
}
