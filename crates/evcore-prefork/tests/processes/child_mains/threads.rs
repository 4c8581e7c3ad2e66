//! Servers under test whose workers are threads.

use std::{
    panic,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use evcore_prefork::{DO_NOT_RESTART, Supervisor, Worker};

use super::{linger, logging, never_end, serve, wait_for_a_byte};

pub(super) fn run_main(name: &str) -> bool {
    match name {
        "threads" => run(logging(3), serve),
        "threads with requested stops" => run(
            Supervisor::new(2).on_exit(|exit| println!("ended {:?} {exit}", exit.stop)),
            |worker| match worker.slot() {
                0 => 0,
                _ => serve(worker),
            },
        ),
        "threads that linger" => run(logging(1), linger),
        "a thread that panics" => panics_at_first(),
        "a thread that ignores stops" => run(
            logging(1).stop_timeout(Duration::from_millis(50)),
            never_end,
        ),
        "threads that wait for a byte" => run(
            logging(1).stop_timeout(Duration::from_millis(50)),
            |worker| {
                linger(worker);
                wait_for_a_byte();
                0
            },
        ),
        "threads that refuse" => run(logging(2), |_| DO_NOT_RESTART),
        "an old thread that lingers" => lingers_at_first(),
        _ => return false,
    }
    true
}

pub(super) fn run(
    supervisor: Supervisor<'_>,
    work: impl Fn(Worker) -> i32 + Send + Sync + 'static,
) {
    match supervisor.run_threads(work) {
        Ok(outcome) => println!("outcome {outcome:?}"),
        Err(error) => println!("error {error}"),
    }
}

fn panics_at_first() {
    panic::set_hook(Box::new(|_| {}));
    let started = AtomicUsize::new(0);
    run(logging(2), move |worker| {
        assert!(started.fetch_add(1, Ordering::Relaxed) > 0, "the first");
        serve(worker)
    });
}

fn lingers_at_first() {
    let started = AtomicUsize::new(0);
    run(logging(1), move |worker| {
        let is_first = started.fetch_add(1, Ordering::Relaxed) == 0;
        serve(worker);
        if is_first {
            wait_for_a_byte();
            println!("finished");
        }
        0
    });
}
