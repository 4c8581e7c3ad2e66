//! Kills or stops the worker that would accept the next client, and measures the time until another
//! worker accepts one.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::client::Client;
use crate::pace::{self, PATIENCE};
use crate::process;
use crate::report::Report;
use crate::run::Run;
use crate::server::Server;

use super::placed;

/// Number of workers. With fewer workers, a round would wait longer for one that is old enough to
/// be killed.
const WORKERS: usize = 8;

/// Numbers of kills and of stops in a round.
const KILLS: usize = 6;
const STOPS: usize = 2;

/// The least age of a worker that is killed. A younger worker would be replaced only after a pause,
/// and this part does not measure that pause.
const SETTLED_AFTER: Duration = Duration::from_millis(1_100);

/// Time for which a worker is stopped if no other accepts the client: twice the accept delay of all
/// servers.
const STOPPED: Duration = Duration::from_secs(1);

/// Measures all servers that replace a dead worker. A value is the longest time of a round.
pub(crate) fn measure(run: &Run, report: &mut Report) {
    let mut placed = placed(run, report, "kills");
    run.rounds("kills", || {
        for (place, programs) in &mut placed {
            let column = if place.is_empty() {
                "first CPU"
            } else {
                "all CPUs"
            };
            programs.retain(|program| {
                let Some(server) = report.or_absent(&program.name, program.start(WORKERS)) else {
                    return false;
                };
                let longest = |times: usize, one: fn(&Server) -> Duration| {
                    let longest = (0..run.scaled(times)).map(|_| one(&server)).max();
                    longest.map_or(f64::NAN, |took| took.as_secs_f64() * 1e3)
                };
                report.add("kill", &program.name, column, longest(KILLS, kill_one));
                wait_until_whole(&server);
                report.add("stop", &program.name, column, longest(STOPS, stop_one));
                true
            });
        }
    });
}

/// Kills the worker that would accept next, and returns the time until another one accepted.
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

/// Stops the worker that would accept next, and returns the time until another worker has served a
/// client. The stopped worker continues after that, at the latest after [`STOPPED`].
fn stop_one(server: &Server) -> Duration {
    let stopped = next_to_accept(server);
    process::signal(stopped, Signal::STOP);
    let began = Instant::now();
    let mut client = Client::connect(server.address).expect("the kernel takes it");
    client.set_timeout(STOPPED);
    let answer = client.worker();
    let took = began.elapsed();
    assert!(answer.is_ok() || took >= STOPPED, "no answer: {answer:?}");
    process::signal(stopped, Signal::CONT);
    took
}

/// Connects a client, and returns the process id of the worker that accepts it. If all workers
/// sleep, that worker also accepts the next client.
fn accepting(server: &Server) -> io::Result<u32> {
    Client::connect(server.address)?.worker()
}

/// The process id of the worker that would accept the next client.
fn next_to_accept(server: &Server) -> u32 {
    server.wait_until_idle();
    let front = accepting(server).expect("all workers are there");
    server.wait_until_idle();
    front
}

/// Waits until the server has all its workers, and until the worker that would accept next has
/// lived for long enough. Returns that worker.
fn settled_front(server: &Server) -> u32 {
    loop {
        wait_until_whole(server);
        let front = next_to_accept(server);
        if process::age(front) >= SETTLED_AFTER {
            return front;
        }
        pace::pause(Duration::from_millis(20));
    }
}

fn wait_until_whole(server: &Server) {
    let is_whole = pace::until(|| server.is_whole());
    assert!(is_whole, "a worker that died was not replaced");
}
