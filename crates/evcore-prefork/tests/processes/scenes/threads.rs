//! Workers as threads.

use std::{
    panic,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use evcore_prefork::{DO_NOT_RESTART, Threads, Worker};

use super::{linger, serve, wait_for_a_byte};

pub(super) fn play(scene: &str) -> bool {
    match scene {
        "threads" => run(talkative(3), serve),
        "who asked a thread" => run(
            Threads::new(2).on_exit(|dead| println!("ended {:?} {dead}", dead.stop)),
            |worker| match worker.seat() {
                0 => 0,
                _ => serve(worker),
            },
        ),
        "threads that linger" => run(talkative(1), linger),
        "a thread that panics" => panics_at_first(),
        "a deaf thread" => run(
            talkative(1).stop_timeout(Duration::from_millis(50)),
            never_end,
        ),
        "threads that wait for a byte" => run(
            talkative(1).stop_timeout(Duration::from_millis(50)),
            |worker| {
                linger(worker);
                wait_for_a_byte();
                0
            },
        ),
        "threads that refuse" => run(talkative(2), |_| DO_NOT_RESTART),
        "an old thread that lingers" => lingers_at_first(),
        _ => return false,
    }
    true
}

/// Prints what the hooks are told.
pub(super) fn talkative<'a>(workers: usize) -> Threads<'a> {
    Threads::new(workers)
        .on_start(|index| println!("started {index}"))
        .on_ready(|index| println!("serves {index}"))
        .on_exit(|dead| println!("ended {} {}", dead.index, dead.end))
        .on_stuck(|index| println!("stuck {index}"))
        .on_reload(|reload| println!("reload {reload:?}"))
        .on_reopen(|| println!("reopened in the master"))
}

pub(super) fn run(threads: Threads<'_>, work: impl Fn(Worker) -> i32 + Send + Sync + 'static) {
    match threads.run(work) {
        Ok(outcome) => println!("outcome {outcome:?}"),
        Err(error) => println!("error {error}"),
    }
}

fn panics_at_first() {
    panic::set_hook(Box::new(|_| {}));
    let started = AtomicUsize::new(0);
    run(talkative(2), move |worker| {
        assert!(started.fetch_add(1, Ordering::Relaxed) > 0, "the first");
        serve(worker)
    });
}

fn lingers_at_first() {
    let started = AtomicUsize::new(0);
    run(talkative(1), move |worker| {
        let is_first = started.fetch_add(1, Ordering::Relaxed) == 0;
        serve(worker);
        if is_first {
            wait_for_a_byte();
            println!("finished");
        }
        0
    });
}

fn never_end(worker: Worker) -> i32 {
    linger(worker);
    loop {
        thread::park();
    }
}
