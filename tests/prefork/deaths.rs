//! Workers that are killed are replaced, and clients of other workers are not affected.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use evcore_tests::{Client, Server, SetOnDrop, assert_within, eventually, signal_to};
use rustix::process::Signal;

/// A connection to each of the two workers. While one worker is blocked, the other accepts.
fn one_of_each(server: &Server) -> (Client, Client) {
    let mut first = server.connect();
    let pid = first.worker();
    let mut second = None;
    eventually("both workers have a connection", || {
        first.send("GET /block/100 HTTP/1.1\r\nHost: test\r\n\r\n");
        let mut client = server.connect();
        // The first worker may have accepted this client just before the block began.
        if client.worker() != pid {
            second = Some(client);
        }
        assert_eq!(first.response().status, 200);
        second.is_some()
    });
    (first, second.expect("just found"))
}

/// The time after which a worker that was not allowed to accept tries again.
const DELAY: Duration = Duration::from_millis(20);

fn start(poller: &str) -> Server {
    start_with(poller, "least-loaded")
}

fn start_with(poller: &str, policy: &str) -> Server {
    let delay = DELAY.as_millis().to_string();
    let delay = ["--accept-delay", &delay];
    let others = ["--workers", "2", "--poller", poller, "--accept", policy];
    Server::start(&[&delay[..], &others].concat())
}

#[test]
fn clients_of_other_workers_do_not_notice_a_kill() {
    for poller in ["epoll", "poll", "select"] {
        let server = start(poller);
        let (mut victim, mut other) = one_of_each(&server);
        let killed = victim.worker();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _end = SetOnDrop(&is_over);
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    let asked = Instant::now();
                    assert_eq!(other.get("/").status, 200);
                    assert_within("the other worker answers", Duration::ZERO, asked);
                }
            });
            signal_to(killed, Signal::KILL);
            assert!(
                victim.try_response().is_err(),
                "the connections of a killed worker end"
            );
            eventually("it is replaced", || {
                let pids = server.worker_pids();
                pids.len() == 2 && !pids.contains(&killed)
            });
            // The replacement serves when the other worker is busy.
            let (_, mut second) = one_of_each(&server);
            assert_ne!(second.worker(), killed);
        });
        eventually("the master reports it", || server.log().contains("SIGKILL"));
    }
}

#[test]
fn the_accept_mutex_is_not_stuck_with_a_dead_worker() {
    for poller in ["epoll", "poll", "select"] {
        let server = start_with(poller, "mutex");
        for _ in 0..5 {
            // A worker that has just accepted usually gets the lock again, and holds it while it
            // waits.
            let killed = server.connect().worker();
            signal_to(killed, Signal::KILL);
            let killed_at = Instant::now();
            assert_eq!(server.connect().get("/").status, 200);
            assert_within("another worker accepts", DELAY, killed_at);
        }
    }
}

#[test]
fn an_unexpected_exit_with_status_0_is_logged() {
    let mut server = start("auto");
    signal_to(server.connect().worker(), Signal::QUIT);
    eventually("the master reports it", || {
        server.log().contains("ended unexpectedly: exit status: 0")
    });
    // A requested end is not logged.
    server.signal(Signal::HUP);
    eventually("it reloads", || server.reloads() > 0);
    server.signal(Signal::QUIT);
    assert!(server.wait().success());
    assert_eq!(server.log().matches("ended").count(), 1, "{}", server.log());
}

/// After this many crashes in a slot, the master waits for 10 seconds before it replaces the slot's
/// worker, if another worker lives.
const KILLS: usize = 8;

/// The longest pause before a replacement while no worker serves.
const UNSERVED_MAX: Duration = Duration::from_millis(500);

/// Kills this many workers, each as soon as it appears, except those in `spared`.
fn kill_as_they_appear(server: &Server, kills: usize, spared: &[u32]) {
    let mut killed = BTreeSet::from_iter(spared.iter().copied());
    while killed.len() < spared.len() + kills {
        for pid in server.worker_pids() {
            if killed.insert(pid) {
                signal_to(pid, Signal::KILL);
            }
        }
    }
}

#[test]
fn after_a_crash_loop_the_next_worker_serves_in_time() {
    for workers in [1, 2] {
        let server = Server::start(&["--workers", &workers.to_string()]);
        kill_as_they_appear(&server, KILLS * workers, &[]);
        let unserved = Instant::now();
        eventually("a worker answers", || server.connect().try_get("/").is_ok());
        assert_within("a worker answers", UNSERVED_MAX, unserved);
    }
}

#[test]
fn a_reuseport_listener_is_served_again_in_time() {
    let server = Server::start(&["--workers", "2", "--accept", "reuseport"]);
    let spared = server.connect().worker();
    kill_as_they_appear(&server, KILLS, &[spared]);
    let unserved = Instant::now();
    // The kernel gives some of these clients to each listener. A client that the last killed worker
    // had accepted is lost.
    let answers = (0..32).map(|_| server.connect().try_get("/"));
    assert!(answers.filter(Result::is_ok).count() >= 31);
    assert_within("all listeners are served", UNSERVED_MAX, unserved);
}

#[test]
fn the_counters_of_a_dead_worker_stay_and_its_gauges_do_not() {
    let server = start("auto");
    let mut clients: Vec<_> = (0..10).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/").status, 200);
    }
    // A worker publishes its numbers at the end of each iteration of its event loop.
    server.wait_for_status("all is counted", |status| {
        status.accepts == 11 && status.requests > 10 && status.waiting == 10
    });
    for pid in server.worker_pids() {
        signal_to(pid, Signal::KILL);
    }
    server.wait_for_status("only the client that asks is left", |status| {
        status.active == 1
    });
    // The numbers may not add up if they are read while their worker writes them.
    server.wait_for_status("what was counted is kept, and adds up", |status| {
        status.accepts > 11
            && status.requests > 10
            && status.waiting + status.reading + status.writing == status.active
    });
}

#[test]
fn workers_stop_when_their_master_is_killed() {
    let server = start("auto");
    let mut client = server.connect();
    assert_eq!(client.get("/").status, 200);
    server.signal(Signal::KILL);
    assert!(client.is_closed() || client.try_response().is_err());
}
