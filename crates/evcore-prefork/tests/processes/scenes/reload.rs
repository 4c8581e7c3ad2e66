//! New workers for old.

use std::{cell::Cell, time::Duration};

use evcore_prefork::{DO_NOT_RESTART, Reload, Stop, Supervisor, Worker};

use super::{Loop, run, serve, talkative, wait_for_a_byte};

pub(super) fn play(scene: &str) -> bool {
    match scene {
        "ready on a byte" => by_generation(2, |generation, worker| match generation {
            0 => serve(worker),
            _ => serve_on_a_byte(worker),
        }),
        "silent" => run(
            talkative(1).ready_timeout(Duration::from_millis(50)),
            serve_silently,
        ),
        "the new refuse" => by_generation(2, |generation, worker| match generation {
            1 => DO_NOT_RESTART,
            _ => serve(worker),
        }),
        "the old linger" => by_generation(1, |generation, worker| match generation {
            0 => linger_for_a_byte(worker),
            _ => serve(worker),
        }),
        "seats" => run(talkative(2), |worker| {
            println!("seat {} of {}", worker.seat(), worker.index());
            serve(worker)
        }),
        _ => return false,
    }
    true
}

/// Workers that know how many reloads there were before them.
fn by_generation(workers: usize, work: fn(u32, Worker) -> i32) {
    let reloads = Cell::new(0);
    let supervisor: Supervisor<'_> =
        talkative(workers)
            .ready_timeout(Duration::MAX)
            .on_reload(|reload| {
                println!("reload {reload:?}");
                reloads.set(reloads.get() + u32::from(reload == Reload::Begins));
            });
    // A worker has the count as it was when it was forked.
    run(supervisor, |worker| work(reloads.get(), worker));
}

/// Serves when somebody has given it a byte.
fn serve_on_a_byte(worker: Worker) -> i32 {
    println!("waits {} {}", worker.index(), worker.pid());
    wait_for_a_byte();
    serve(worker)
}

/// Never says that it serves.
fn serve_silently(worker: Worker) -> i32 {
    Loop::silent(worker).until(Stop::Graceful);
    0
}

/// Has work under way, when it is to go, until somebody gives it a byte.
fn linger_for_a_byte(worker: Worker) -> i32 {
    Loop::new(worker).until(Stop::Graceful);
    wait_for_a_byte();
    println!("finished");
    0
}
