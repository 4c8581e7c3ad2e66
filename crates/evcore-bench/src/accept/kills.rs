//! How long no worker accepts after the one that would have is killed or stopped.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::client::Client;
use super::rounds::Rounds;
use super::scenario::{Scenario, record_absence};
use super::server::Server;
use super::{pace, process};

/// How many workers there are: the more, the sooner one is old enough to be killed.
const WORKERS: usize = 8;

/// How many are killed and stopped, and in a thorough run.
const KILLS: usize = 20;
const THOROUGH_KILLS: usize = 1_000;
const STOPS: usize = 10;
const THOROUGH_STOPS: usize = 100;

/// A worker that dies before this age is replaced after a pause, which is not what is measured.
const SETTLED_AFTER: Duration = Duration::from_millis(1_100);

/// How long a worker is stopped if no other accepts the client. Twice the delay of all
/// peers.
const STOPPED: Duration = Duration::from_secs(1);

/// How long a client tries: longer than any that is served.
const PATIENCE: Duration = Duration::from_secs(10);

/// Measures all that replace a dead worker, and prints the records.
pub(crate) fn measure(words: &[&str]) {
    let scenario = Scenario::of(words);
    let (kills, stops) = if scenario.full {
        (THOROUGH_KILLS, THOROUGH_STOPS)
    } else {
        (KILLS, STOPS)
    };
    let mut found = Rounds::default();
    for peer in scenario.with_master() {
        let name = &peer.name;
        eprintln!("kills: {name}");
        let server = match peer.start(scenario.launch, WORKERS) {
            Ok(server) => server,
            Err(why) => {
                record_absence(&peer, &why);
                continue;
            }
        };
        let mut add = |workload, took: Duration| {
            let figure = [("took_us", took.as_secs_f64() * 1e6)];
            found.add(workload, WORKERS, name, figure);
        };
        let mut ages = Ages::default();
        for _ in 0..kills {
            add("kills/kill", kill_one(&server, &mut ages));
        }
        whole(&server);
        for _ in 0..stops {
            add("kills/stop", stop_one(&server));
        }
    }
    found.print();
}

/// Kills the one that would accept, and returns how long it took until another did.
fn kill_one(server: &Server, ages: &mut Ages) -> Duration {
    let killed = settled_front(server, ages);
    process::signal(killed, Signal::KILL);
    let began = Instant::now();
    // A client of the killed worker loses its connection, and tries again as clients do.
    while front(server).is_err() && began.elapsed() < PATIENCE {}
    let took = began.elapsed();
    let is_gone = pace::until(|| !server.pids().contains(&killed));
    assert!(is_gone, "a killed worker ends");
    took
}

/// Stops the one that would accept until another did, and returns how long that took.
fn stop_one(server: &Server) -> Duration {
    server.wait_until_idle();
    let stopped = front(server).expect("all workers are there");
    server.wait_until_idle();
    process::signal(stopped, Signal::STOP);
    let began = Instant::now();
    let mut client = Client::connect(server.address).expect("the kernel takes it");
    client.patience(STOPPED);
    let answered = client.worker().is_ok();
    process::signal(stopped, Signal::CONT);
    client.patience(PATIENCE);
    if !answered {
        client.answer().expect("a continued worker responds");
    }
    began.elapsed()
}

/// The process id of the worker that accepted the last client, and would accept the next.
fn front(server: &Server) -> io::Result<u32> {
    Ok(Client::connect(server.address)?.worker()?.worker)
}

/// As [`front`], of a server that is whole, and when that one has lived for long enough.
fn settled_front(server: &Server, ages: &mut Ages) -> u32 {
    loop {
        whole(server);
        ages.see(&server.pids());
        server.wait_until_idle();
        let front = front(server).expect("all workers are there");
        server.wait_until_idle();
        if ages.is_settled(front) {
            return front;
        }
        pace::pause(Duration::from_millis(20));
    }
}

fn whole(server: &Server) {
    assert!(
        pace::until(|| server.is_whole()),
        "the dead are not replaced"
    );
}

/// When each worker was seen first.
#[derive(Default)]
struct Ages(HashMap<u32, Instant>);

impl Ages {
    fn see(&mut self, pids: &[u32]) {
        self.0.retain(|pid, _| pids.contains(pid));
        for pid in pids {
            self.0.entry(*pid).or_insert_with(Instant::now);
        }
    }

    fn is_settled(&self, pid: u32) -> bool {
        let seen = self.0.get(&pid);
        seen.is_some_and(|seen| seen.elapsed() >= SETTLED_AFTER)
    }
}
