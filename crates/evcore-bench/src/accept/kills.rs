//! The time without an accept after the worker that would have accepted is killed or stopped.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::client::Client;
use crate::pace::{self, PATIENCE};
use crate::process;
use crate::report::Report;
use crate::run::Run;
use crate::server::{self, Server};

/// Number of workers: the more, the sooner one is old enough to be killed.
const WORKERS: usize = 8;

/// Number of workers that are killed and stopped: a thousand kills and a hundred stops over all
/// policies.
const KILLS: usize = 200;
const STOPS: usize = 20;

/// A worker that dies before this age is replaced after a pause, which is not what is measured.
const SETTLED_AFTER: Duration = Duration::from_millis(1_100);

/// Time for which a worker is stopped if no other accepts the client. Twice the delay of all peers.
const STOPPED: Duration = Duration::from_secs(1);

/// Measures all that replace a dead worker.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    crate::cpus::become_client();
    for program in server::programs(run, report, "kills") {
        eprintln!("kills: {}", program.name);
        let Some(server) = report.or_absent(&program.name, program.start(WORKERS)) else {
            continue;
        };
        let mut add = |table, took: Duration| {
            report.add(table, &program.name, "took", took.as_secs_f64() * 1e3);
        };
        // nginx is not judged, so a tenth and a quarter are enough.
        let (kills, stops) = match program.name.starts_with("httpd") {
            true => (KILLS, STOPS),
            false => (KILLS / 10, STOPS / 4),
        };
        for _ in 0..run.scaled(kills) {
            add("kill", kill_one(&server));
        }
        whole(&server);
        for _ in 0..run.scaled(stops) {
            add("stop", stop_one(&server));
        }
    }
}

/// Kills the one that would accept, and returns how long it took until another did.
fn kill_one(server: &Server) -> Duration {
    let killed = settled_front(server);
    process::signal(killed, Signal::KILL);
    let began = Instant::now();
    // A client of the killed worker loses its connection, and tries again as clients do.
    while accepting(server).is_err() && began.elapsed() < PATIENCE {}
    let took = began.elapsed();
    let is_gone = pace::until(|| !server.pids().contains(&killed));
    assert!(is_gone, "a killed worker ends");
    took
}

/// Stops the one that would accept until another did, and returns how long that took.
fn stop_one(server: &Server) -> Duration {
    let stopped = front(server);
    process::signal(stopped, Signal::STOP);
    let began = Instant::now();
    let mut client = Client::connect(server.address).expect("the kernel takes it");
    client.patience(STOPPED);
    let answer = client.worker();
    let took = began.elapsed();
    assert!(answer.is_ok() || took >= STOPPED, "lost: {answer:?}");
    process::signal(stopped, Signal::CONT);
    took
}

/// The process id of the worker that accepts a client: the one that accepts the next, if all sleep.
fn accepting(server: &Server) -> io::Result<u32> {
    Client::connect(server.address)?.worker()
}

/// The process id of the worker that would accept the next client.
fn front(server: &Server) -> u32 {
    server.wait_until_idle();
    let front = accepting(server).expect("all workers are there");
    server.wait_until_idle();
    front
}

/// As [`front`], of a server that is whole, and when that one has lived for long enough.
fn settled_front(server: &Server) -> u32 {
    loop {
        whole(server);
        let front = front(server);
        if process::age(front) >= SETTLED_AFTER {
            return front;
        }
        pace::pause(Duration::from_millis(20));
    }
}

fn whole(server: &Server) {
    let is_whole = pace::until(|| server.is_whole());
    assert!(is_whole, "the dead are not replaced");
}
