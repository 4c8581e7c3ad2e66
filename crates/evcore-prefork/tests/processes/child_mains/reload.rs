//! Servers that the tests reload.

use std::{cell::Cell, time::Duration};

use evcore_prefork::{DO_NOT_RESTART, Reload, Stop, Supervisor, Worker};

use super::{Loop, logging, run, serve, wait_for_a_byte};

pub(super) fn run_main(name: &str) -> bool {
    match name {
        "ready on a byte" => by_generation(2, |generation, worker| match generation {
            0 => serve(worker),
            _ => serve_on_a_byte(worker),
        }),
        "silent" => run(
            logging(1).ready_timeout(Duration::from_millis(50)),
            serve_silently,
        ),
        "new workers refuse" => by_generation(2, |generation, worker| match generation {
            1 => DO_NOT_RESTART,
            _ => serve(worker),
        }),
        "old workers linger" => by_generation(1, |generation, worker| match generation {
            0 => linger_for_a_byte(worker),
            _ => serve(worker),
        }),
        "slots" => run(logging(2), |worker| {
            println!("slot {} of {}", worker.slot(), worker.index());
            serve(worker)
        }),
        _ => return false,
    }
    true
}

/// Runs workers that get the number of reloads so far.
fn by_generation(workers: usize, work: fn(u32, Worker) -> i32) {
    let reloads = Cell::new(0);
    let supervisor: Supervisor<'_> =
        logging(workers)
            .ready_timeout(Duration::MAX)
            .on_reload(|reload| {
                println!("reload {reload:?}");
                reloads.set(reloads.get() + u32::from(reload == Reload::Started));
            });
    // A worker process has a copy of the count as it was at the fork.
    run(supervisor, |worker| work(reloads.get(), worker));
}

fn serve_on_a_byte(worker: Worker) -> i32 {
    println!("waits {} {}", worker.index(), worker.pid());
    wait_for_a_byte();
    serve(worker)
}

fn serve_silently(worker: Worker) -> i32 {
    Loop::silent(worker).until(Stop::Graceful);
    0
}

fn linger_for_a_byte(worker: Worker) -> i32 {
    Loop::new(worker).until(Stop::Graceful);
    wait_for_a_byte();
    println!("finished");
    0
}
