//! Kills of workers, of their stores and of the master.

use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};

use evcore_tests::{
    Client, Server, assert_within, eventually, process_state, signal_to, try_signal_to,
};
use rustix::process::Signal;

use super::{connect, kept_and_lost, kill, start};

fn workers_of(clients: &mut [Client]) -> Vec<u32> {
    clients.iter_mut().map(Client::worker).collect()
}

#[test]
fn idle_clients_of_a_killed_worker_see_no_close() {
    let server = start(2, &[]);
    let mut clients = connect(&server, 500);
    for _ in 0..3 {
        let before = workers_of(&mut clients);
        let victim = before[0];
        kill(victim);
        let after = workers_of(&mut clients);
        for (before, after) in before.iter().zip(after) {
            match *before == victim {
                true => assert_ne!(after, victim),
                false => assert_eq!(after, *before),
            }
        }
    }
    eventually("all are counted", || {
        kept_and_lost(&server).is_some_and(|(kept, lost)| kept >= 500 && lost == 0)
    });
}

#[test]
fn ten_thousand_idle_clients_are_served_again() {
    // On a busy machine, it takes longer than the default keep-alive timeout of 65 s until all have
    // connected.
    let long = ["--connections", "11000", "--keepalive-timeout", "600000"];
    let server = start(1, &long);
    let mut clients = connect(&server, 10_000);
    let worker = clients[0].worker();
    eventually("it sleeps", || process_state(worker) == Some('S'));
    signal_to(worker, Signal::KILL);
    let killed = Instant::now();
    // The store hands connections on in the order of their descriptors.
    let mut last = clients.split_off(9_999);
    assert_ne!(last[0].worker(), worker);
    println!(
        "10,000 idle clients: the last is served after {:?}",
        killed.elapsed()
    );
    assert_within("the last is served", Duration::from_millis(300), killed);
    assert!(!workers_of(&mut clients).contains(&worker));
    eventually("all are counted", || {
        kept_and_lost(&server) == Some((10_000, 0))
    });
}

#[test]
fn clients_with_a_request_under_way_are_closed() {
    let server = start(1, &[]);
    let mut idle = connect(&server, 50);
    let mut busy = connect(&server, 3);
    busy[0].send("GET / HT");
    busy[1].send("GET /sleep/60000 HTTP/1.1\r\nHost: a\r\n\r\n");
    busy[2].send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nfi");
    eventually("it has read them", || {
        let page = server.try_status_json();
        page.is_some_and(|page| page["waiting"].as_u64() == Some(50))
    });
    let worker = idle[0].worker();
    kill(worker);
    assert!(busy.iter_mut().all(Client::is_closed));
    assert!(!workers_of(&mut idle).contains(&worker));
    eventually("they are counted", || {
        kept_and_lost(&server).is_some_and(|(kept, lost)| kept == 50 && lost >= 3)
    });
    assert!(server.log().contains("has died: 50 connections go on"));
}

#[test]
fn a_request_that_waits_in_the_socket_is_answered() {
    let server = start(1, &[]);
    let mut clients = connect(&server, 50);
    let worker = clients[0].worker();
    eventually("it sleeps", || process_state(worker) == Some('S'));
    signal_to(worker, Signal::STOP);
    eventually("it is stopped", || process_state(worker) == Some('T'));
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    signal_to(worker, Signal::KILL);
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
}

/// Returns the sorted kinds of a process's descriptors, except the descriptor of its log, which a
/// process opens again when it logs something.
fn descriptors(pid: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let kind = |link: std::path::PathBuf| {
        let link = link.to_string_lossy().into_owned();
        link.split_once(":[")
            .map_or(link.clone(), |(kind, _)| kind.to_owned())
    };
    let log = fs::read_link(format!("/proc/{pid}/fd/2")).unwrap_or_default();
    let mut kinds: Vec<_> = links.filter(|link| *link != log).map(kind).collect();
    kinds.sort();
    kinds
}

/// The descriptors of the workers and the master. Each change is printed, so that the output of a
/// failed test shows it.
#[derive(Default)]
pub(super) struct DescriptorWatch {
    last: Vec<Vec<String>>,
    /// Number of samples since the last change.
    same: u32,
}

impl DescriptorWatch {
    /// Waits until the descriptors no longer change, and returns them.
    pub(super) fn quiet(&mut self, server: &Server, workers: usize) -> Vec<Vec<String>> {
        // While the server starts, or closes connections, some samples in a row may be the same.
        eventually("the server is quiet", || {
            self.sample(server).len() == workers + 1 && self.same >= 100
        });
        self.last.clone()
    }

    pub(super) fn sample(&mut self, server: &Server) -> &[Vec<String>] {
        let processes = server.worker_pids().into_iter().chain([server.pid()]);
        let now: Vec<_> = processes.map(descriptors).collect();
        self.same += 1;
        if now != self.last {
            println!("{now:?}");
            (self.last, self.same) = (now, 1);
        }
        &self.last
    }
}

#[test]
fn no_descriptor_and_no_process_is_left_after_kills() {
    let server = start(2, &[]);
    drop(connect(&server, 60));
    let mut watch = DescriptorWatch::default();
    let before = watch.quiet(&server, 2);
    for _ in 0..5 {
        let mut clients = connect(&server, 60);
        let victim = clients[0].worker();
        let stores: BTreeSet<u32> = server.store_pids().into_iter().collect();
        kill(victim);
        workers_of(&mut clients);
        drop(clients);
        eventually("one store has gone, and there is another", || {
            let now: BTreeSet<u32> = server.store_pids().into_iter().collect();
            now.len() == 2 && stores.difference(&now).count() == 1
        });
        eventually("all have the descriptors of the start", || {
            watch.sample(&server) == before
        });
    }
}

#[test]
fn without_stores_all_clients_of_a_killed_worker_are_counted_as_lost() {
    let server = Server::start(&["--workers", "1"]);
    let mut clients = connect(&server, 20);
    kill(clients[0].worker());
    assert!(clients.iter_mut().all(Client::is_closed));
    eventually("all are counted", || {
        kept_and_lost(&server) == Some((0, 20))
    });
}

#[test]
fn without_its_store_a_worker_that_dies_loses_its_clients() {
    let server = start(1, &[]);
    let mut clients = connect(&server, 50);
    let worker = clients[0].worker();
    signal_to(server.store_pids()[0], Signal::KILL);
    eventually("it is reaped", || server.store_pids().is_empty());
    assert_eq!(workers_of(&mut clients), vec![worker; 50]);
    kill(worker);
    assert!(clients.iter_mut().all(Client::is_closed));
    let mut clients = connect(&server, 50);
    let worker = clients[0].worker();
    kill(worker);
    assert!(!workers_of(&mut clients).contains(&worker));
}

#[test]
fn nothing_outlives_a_master_that_is_killed_after_its_worker() {
    for _ in 0..5 {
        let mut server = start(2, &[]);
        let mut clients = connect(&server, 100);
        let all: Vec<u32> = [server.worker_pids(), server.store_pids()].concat();
        kill(clients[0].worker());
        signal_to(server.pid(), Signal::KILL);
        server.wait();
        assert!(clients.iter_mut().all(Client::is_closed));
        eventually("no process is left", || {
            all.iter()
                .all(|pid| matches!(process_state(*pid), None | Some('Z')))
        });
    }
}

#[test]
fn a_kill_during_a_reload_loses_only_clients_of_the_dead() {
    let server = start(2, &[]);
    let mut clients = connect(&server, 200);
    let (mut of_victims, mut lost_early) = (0, 0);
    for round in 0..10 {
        let before = workers_of(&mut clients);
        let old = server.worker_pids();
        let victim = old[round % old.len()];
        server.signal(Signal::HUP);
        // The kill comes while the new workers start, or while the old workers leave.
        if round % 3 > 0 {
            let done = round + 1;
            eventually("the new workers serve", || server.reloads() == done);
        }
        let _ = try_signal_to(victim, Signal::KILL);
        eventually("the old workers have gone", || {
            let now = server.worker_pids();
            now.len() == 2 && !now.iter().any(|worker| old.contains(worker))
        });
        let mut lost = 0;
        // In an early round the kill comes while the new workers start, so the victim's store keeps
        // the connections that have not moved yet.
        let is_early = round % 3 == 0;
        let victims = before.iter().filter(|worker| **worker == victim).count();
        of_victims += if is_early { victims } else { 0 };
        for (client, before) in clients.iter_mut().zip(before) {
            if client.try_worker().is_err() {
                assert_eq!(before, victim);
                lost += 1;
                *client = server.connect();
                client.worker();
            }
        }
        // A store keeps only the connections that its worker has marked as idle. A connection that
        // is moving may not be marked by any worker, so it may be lost.
        println!("round {round}: {lost} of 200 lost");
        lost_early += if is_early { lost } else { 0 };
    }
    assert!(2 * lost_early <= of_victims, "{lost_early} of {of_victims}");
    eventually("two workers with stores are left", || {
        server.store_pids().len() == 2 && server.worker_pids().len() == 2
    });
}

#[test]
fn a_worker_that_hangs_is_killed_and_its_idle_clients_go_on() {
    let server = start(1, &["--hang-timeout", "300"]);
    let mut clients = connect(&server, 50);
    let mut hanging = connect(&server, 1);
    let worker = clients[0].worker();
    // Iterations of the event loop that end in time, and waits, do not count as a hang.
    assert_eq!(clients[0].get("/sleep/700").status, 200);
    assert_eq!(clients[0].get("/block/50").status, 200);
    assert_eq!(clients[0].worker(), worker);
    hanging[0].send("GET /block/60000 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(hanging[0].is_closed());
    assert!(!workers_of(&mut clients).contains(&worker));
    assert!(
        server
            .log()
            .contains("is killed, because its turn has lasted")
    );
}

#[test]
fn a_kill_during_an_upgrade_loses_only_clients_of_the_dead() {
    let mut server = start(2, &[]);
    let address = server.address();
    let mut clients = connect(&server, 200);
    let before = workers_of(&mut clients);
    let old = server.worker_pids();
    let new = StoppedOnDrop(server.start_binary());
    // The kill comes before the new binary serves, or while the old workers leave.
    let victim = before[0];
    server.signal(Signal::QUIT);
    let _ = try_signal_to(victim, Signal::KILL);
    assert!(server.wait().success(), "{}", server.log());
    let mut lost = 0;
    for (client, before) in clients.iter_mut().zip(before) {
        match client.try_worker() {
            Ok(worker) => assert!(!old.contains(&worker), "the old binary has ended"),
            Err(_) => {
                assert_eq!(before, victim);
                lost += 1;
                *client = Client::connect(address);
                client.worker();
            }
        }
    }
    println!("{lost} of 200 lost");
    drop(new);
}

/// The bit of QUIT in a set of signals.
const QUIT: u64 = 1 << 2;

/// Returns the set of signals that a process has not handled yet.
fn pending(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut lines = status.lines();
    let set = lines.find_map(|line| line.strip_prefix("ShdPnd:"));
    set.map_or(0, |set| u64::from_str_radix(set.trim(), 16).expect("a set"))
}

/// The worker is suspended before its master stops, so the worker does not look for its successor.
#[test]
fn a_worker_that_is_stuck_when_another_binary_takes_over_keeps_its_idle_clients() {
    let mut server = start(1, &[]);
    let mut clients = connect(&server, 50);
    let worker = clients[0].worker();
    eventually("it sleeps", || process_state(worker) == Some('S'));
    signal_to(worker, Signal::STOP);
    let new = StoppedOnDrop(server.start_binary());
    eventually("the new binary serves", || {
        server.log().matches("listening on").count() == 2
    });
    server.signal(Signal::QUIT);
    eventually("its master has sent it QUIT", || {
        pending(worker) & QUIT != 0
    });
    signal_to(worker, Signal::KILL);
    let killed = Instant::now();
    assert!(server.wait().success(), "{}", server.log());
    assert_within("the old binary ends", Duration::from_secs(5), killed);
    assert!(!workers_of(&mut clients).contains(&worker));
    drop(new);
}

/// The master does not replace the worker before the other binary takes over.
#[test]
fn a_worker_that_dies_just_before_another_binary_takes_over_keeps_its_idle_clients() {
    let mut server = start(1, &[]);
    let mut clients = connect(&server, 50);
    let worker = clients[0].worker();
    let new = StoppedOnDrop(server.start_binary());
    eventually("the new binary serves", || {
        server.log().matches("listening on").count() == 2
    });
    // When the suspended master continues, it sees the death and QUIT at the same time.
    signal_to(server.pid(), Signal::STOP);
    eventually("it is stopped", || process_state(server.pid()) == Some('T'));
    kill(worker);
    server.signal(Signal::QUIT);
    let killed = Instant::now();
    signal_to(server.pid(), Signal::CONT);
    assert!(server.wait().success(), "{}", server.log());
    assert_within("the old binary ends", Duration::from_secs(5), killed);
    assert!(!workers_of(&mut clients).contains(&worker));
    drop(new);
}

/// The master of a new binary, which gets TERM at the end of a test.
struct StoppedOnDrop(u32);

impl Drop for StoppedOnDrop {
    fn drop(&mut self) {
        let _ = try_signal_to(self.0, Signal::TERM);
    }
}
