//! Descriptor stores: the clients that they keep when a worker dies, and the end of the stores
//! themselves.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    time::Duration,
};

use evcore_testing::eventually;
use rustix::process::{Pid, Signal, kill_process};

use super::tests;
use crate::server_process::Server;

tests! {
    the_idle_clients_of_a_killed_worker_go_to_its_replacement
    a_worker_that_exits_on_its_own_leaves_its_idle_clients
    a_worker_that_returns_closes_its_clients
    a_worker_whose_store_was_killed_goes_on_without_one
    stores_end_with_their_master
    stores_end_with_the_server
    no_old_store_survives_a_reload
    a_replacement_that_is_killed_leaves_the_clients_to_the_next
    a_waiting_store_takes_no_cpu_time_and_little_memory
}

const CLIENTS: usize = 60;

fn connect(server: &mut Server) -> Vec<TcpStream> {
    let address = server.expect("listens")[0].clone();
    let connect = |_| {
        let stream = TcpStream::connect(&address).unwrap();
        let patience = Some(Duration::from_secs(60));
        stream.set_read_timeout(patience).unwrap();
        stream
    };
    (0..CLIENTS).map(connect).collect()
}

/// The process id of the worker that answers a command; `None` if the connection has ended.
fn ask(mut client: &TcpStream, command: &str) -> Option<Pid> {
    let sent = client.write_all(format!("{command}\n").as_bytes());
    let mut line = String::new();
    match sent.and_then(|()| BufReader::new(client).read_line(&mut line)) {
        Ok(1..) => Pid::from_raw(line.trim().parse().unwrap()),
        Ok(_) => None,
        Err(error) => {
            assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "no answer");
            None
        }
    }
}

fn ask_all(clients: &[TcpStream]) -> Vec<Option<Pid>> {
    clients.iter().map(|client| ask(client, "who")).collect()
}

/// Waits until a process sleeps, kills it, and waits until it has died.
///
/// A worker marks a connection as idle after the last byte of an answer, and then sleeps. So a
/// worker that sleeps has marked all its idle connections. A killed worker could still read a
/// request until it has died.
fn kill(process: Pid) {
    let path = format!("/proc/{}/stat", process.as_raw_pid());
    let is = |state: &str| fs::read_to_string(&path).is_ok_and(|stat| stat.contains(state));
    eventually("the process sleeps", || is(") S"));
    kill_process(process, Signal::KILL).unwrap();
    eventually("the process has died", || {
        is(") Z") || fs::metadata(&path).is_err()
    });
}

/// The stores among the children of a process.
fn stores(master: Pid) -> Vec<Pid> {
    let master = master.as_raw_pid();
    let path = format!("/proc/{master}/task/{master}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    let children = children.split_whitespace().filter(|child| {
        let name = fs::read_to_string(format!("/proc/{child}/comm"));
        name.is_ok_and(|name| name.trim() == "descriptor store".get(..15).unwrap())
    });
    children
        .map(|child| Pid::from_raw(child.parse().unwrap()).unwrap())
        .collect()
}

fn wait_for_stores(server: &Server, count: usize) -> Vec<Pid> {
    let mut all = Vec::new();
    eventually("the master has the expected number of stores", || {
        all = stores(server.pid());
        all.len() == count
    });
    all
}

fn stop(server: &mut Server) {
    server.signal_master(Signal::TERM);
    server.expect("outcome Stopped(Fast)");
    server.expect_end();
}

fn the_idle_clients_of_a_killed_worker_go_to_its_replacement() {
    let mut server = Server::start("descriptor store");
    let clients = connect(&mut server);
    for _ in 0..5 {
        let before = ask_all(&clients);
        let victim = before[0].unwrap();
        kill(victim);
        let after = ask_all(&clients);
        for (before, after) in before.iter().zip(&after) {
            match before.unwrap() == victim {
                true => assert!(after.is_some_and(|now| now != victim)),
                false => assert_eq!(before, after),
            }
        }
        wait_for_stores(&server, 2);
    }
    // A busy connection is lost.
    let victim = ask(&clients[0], "hold").unwrap();
    kill(victim);
    let after = ask_all(&clients);
    assert_eq!(after[0], None);
    assert!(
        after[1..]
            .iter()
            .all(|now| now.is_some_and(|now| now != victim))
    );
    stop(&mut server);
}

fn a_worker_that_exits_on_its_own_leaves_its_idle_clients() {
    let mut server = Server::start("one descriptor store");
    let clients = connect(&mut server);
    let before = ask_all(&clients)[0];
    // This client gets an answer, but its connection is marked as busy at the exit.
    assert_eq!(ask(&clients[0], "exit"), before);
    let after = ask_all(&clients);
    assert_eq!(after[0], None);
    assert!(after[1..].iter().all(|now| now.is_some() && *now != before));
    server.expect(&format!(
        "kept 0 {} {} connections go on, 1 are closed",
        before.unwrap().as_raw_pid(),
        CLIENTS - 1
    ));
    stop(&mut server);
}

fn a_worker_that_returns_closes_its_clients() {
    let mut server = Server::start("one descriptor store");
    let clients = connect(&mut server);
    ask_all(&clients);
    ask(&clients[0], "return").unwrap();
    assert_eq!(ask_all(&clients), [None; CLIENTS]);
    wait_for_stores(&server, 1);
    stop(&mut server);
    assert!(!server.seen().iter().any(|line| line.starts_with("kept")));
}

fn a_worker_whose_store_was_killed_goes_on_without_one() {
    let mut server = Server::start("one descriptor store");
    let clients = connect(&mut server);
    let before = ask_all(&clients);
    kill(wait_for_stores(&server, 1)[0]);
    wait_for_stores(&server, 0);
    assert_eq!(ask_all(&clients), before);
    kill(before[0].unwrap());
    assert_eq!(ask_all(&clients), [None; CLIENTS]);
    wait_for_stores(&server, 1);
    stop(&mut server);
}

fn stores_end_with_their_master() {
    let mut server = Server::start("descriptor store");
    let clients = connect(&mut server);
    ask_all(&clients);
    wait_for_stores(&server, 2);
    server.signal_master(Signal::KILL);
    server.expect_end();
    assert_eq!(ask_all(&clients), [None; CLIENTS]);
}

fn stores_end_with_the_server() {
    for signal in [Signal::TERM, Signal::QUIT] {
        let mut server = Server::start("descriptor store");
        let clients = connect(&mut server);
        let worker = ask_all(&clients)[0].unwrap();
        // The stop reaches all processes. The paused worker is killed before it handles the stop.
        kill_process(worker, Signal::STOP).unwrap();
        server.signal_group(signal);
        kill_process(worker, Signal::KILL).unwrap();
        server.expect("outcome");
        server.expect_end();
        assert_eq!(ask_all(&clients), [None; CLIENTS]);
    }
}

fn no_old_store_survives_a_reload() {
    let mut server = Server::start("descriptor store");
    server.expect_in_all("ready", 2);
    for _ in 0..5 {
        let old = wait_for_stores(&server, 2);
        server.signal_master(Signal::HUP);
        server.expect("reload Done");
        eventually("the old stores end", || {
            let now = stores(server.pid());
            now.len() == 2 && !now.iter().any(|store| old.contains(store))
        });
    }
    stop(&mut server);
}

fn a_replacement_that_is_killed_leaves_the_clients_to_the_next() {
    let mut server = Server::start("one descriptor store");
    let clients = connect(&mut server);
    let mut worker = ask_all(&clients)[0].unwrap();
    server.expect_in_all("ready", 1);
    for _ in 0..3 {
        kill(worker);
        server.expect("ready");
        // The worker may have all clients, some or none when it is killed.
        let line = server.seen().last().unwrap().clone();
        worker = Pid::from_raw(line.split(' ').nth(2).unwrap().parse().unwrap()).unwrap();
    }
    let after = ask_all(&clients);
    assert_eq!(after, [Some(worker); CLIENTS]);
    wait_for_stores(&server, 1);
    stop(&mut server);
}

fn a_waiting_store_takes_no_cpu_time_and_little_memory() {
    let mut server = Server::start("one descriptor store");
    let clients = connect(&mut server);
    ask_all(&clients);
    let store = wait_for_stores(&server, 1)[0].as_raw_pid();
    let switches = || {
        let status = fs::read_to_string(format!("/proc/{store}/status")).unwrap();
        let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
        lines.map(String::from).collect::<Vec<_>>()
    };
    let mut before = Vec::new();
    eventually("the store waits", || {
        let now = switches();
        std::mem::replace(&mut before, now) == before
    });
    (0..20).for_each(|_| _ = ask_all(&clients));
    assert_eq!(switches(), before, "the store has run");
    let rollup = fs::read_to_string(format!("/proc/{store}/smaps_rollup")).unwrap();
    let kib = |field: &str| -> u64 {
        let line = rollup.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let own = kib("Private_Dirty:") + kib("Private_Clean:");
    println!("a store: {own} KiB of its own, PSS {} KiB", kib("Pss:"));
    assert!(own < 1024, "{rollup}");
    stop(&mut server);
}
