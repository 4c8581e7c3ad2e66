//! A group of idle workers does not wake up. It accepts the next client within the accept delay,
//! even if all workers except one are suspended or killed.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use evcore_tests::{Server, assert_within, eventually, signal_to};
use rustix::process::Signal;

use super::liveness::Stopped;

const DELAY: Duration = Duration::from_millis(20);
const WORKERS: usize = 4;

/// Time without a wake-up after which workers count as at rest. A worker that is not at rest wakes
/// once in a delay.
const OBSERVED: Duration = Duration::from_millis(20 * 20);

/// Starts workers on epoll. On other pollers no wake-up is exclusive, so under `least-loaded` a
/// worker tries to get the lock once in a delay.
fn start(policy: &str) -> Server {
    let delay = DELAY.as_millis().to_string();
    let server = Server::start(&[
        "--workers",
        "4",
        "--poller",
        "epoll",
        "--accept",
        policy,
        "--accept-delay",
        &delay,
    ]);
    let _ = server.wait_for_workers(WORKERS, &[]);
    server
}

/// Number of times that these processes have slept.
fn sleeps(pids: &[u32]) -> u64 {
    let of = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
        let switches = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        let count = switches.and_then(|count| count.trim().parse::<u64>().ok());
        count.expect("the kernel counts them")
    };
    pids.iter().map(of).sum()
}

#[expect(
    clippy::disallowed_methods,
    reason = "that nothing happens is what is observed"
)]
fn observe() {
    thread::sleep(OBSERVED);
}

/// Waits until no worker has woken up for a while, and returns the workers.
fn workers_at_rest(server: &Server, ended: &[u32]) -> Vec<u32> {
    let workers = server.wait_for_workers(WORKERS, ended);
    eventually("no worker wakes up", || {
        let before = sleeps(&workers);
        observe();
        sleeps(&workers) == before
    });
    workers
}

#[test]
fn an_idle_group_does_not_wake_up() {
    for policy in ["least-loaded", "exclusive", "off", "reuseport"] {
        let server = start(policy);
        workers_at_rest(&server, &[]);
        // The same holds while clients stay, and after they have left.
        let clients: Vec<_> = (0..7).map(|_| server.connect()).collect();
        workers_at_rest(&server, &[]);
        drop(clients);
        workers_at_rest(&server, &[]);
    }
}

/// As in nginx, each worker that waits for the lock wakes up once in a delay.
#[test]
fn under_mutex_waiting_workers_wake_at_most_once_in_a_delay() {
    let server = start("mutex");
    let workers = server.wait_for_workers(WORKERS, &[]);
    let (before, begun) = (sleeps(&workers), Instant::now());
    observe();
    let woken = sleeps(&workers) - before;
    let delays = begun.elapsed().as_millis() / DELAY.as_millis() + 2;
    let most = (WORKERS as u128 - 1) * delays;
    assert!(u128::from(woken) <= most, "{woken} in {delays} delays");
}

#[test]
fn the_only_worker_that_is_not_suspended_accepts() {
    for policy in ["least-loaded", "exclusive"] {
        let server = start(policy);
        for awake in 0..WORKERS {
            let mut workers = workers_at_rest(&server, &[]);
            let awake = workers.swap_remove(awake);
            let stopped: Vec<_> = workers.into_iter().map(Stopped::stop).collect();
            let stopped_at = Instant::now();
            let mut client = server.connect();
            assert_eq!(client.worker(), awake, "{policy}");
            assert_within(policy, DELAY, stopped_at);
            drop(stopped);
        }
    }
}

#[test]
fn after_kills_of_all_workers_except_one_a_client_is_served_in_time() {
    for policy in ["least-loaded", "exclusive"] {
        let server = start(policy);
        let mut killed = Vec::new();
        for _ in 0..3 {
            let mut workers = workers_at_rest(&server, &killed);
            workers.swap_remove(1);
            for worker in &workers {
                signal_to(*worker, Signal::KILL);
            }
            killed = workers;
            let killed_at = Instant::now();
            eventually("another worker accepts", || {
                server.connect().try_worker().is_ok()
            });
            assert_within(policy, DELAY, killed_at);
        }
    }
}
