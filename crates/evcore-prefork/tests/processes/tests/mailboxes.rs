//! Clients that move from worker to worker: on request, at a reload, and at an upgrade.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use super::tests;
use crate::server_process::Server;

tests! {
    a_worker_gives_its_clients_to_another_slot
    a_thread_gives_its_clients_to_another_slot
    a_worker_killed_before_it_accepts_loses_only_its_own_clients
    a_reload_keeps_all_clients
    clients_sent_to_a_killed_worker_go_to_its_replacement
    an_upgrade_keeps_all_clients
    an_upgrade_to_fewer_workers_keeps_all_clients
    undoing_an_upgrade_to_more_workers_keeps_all_clients
    an_upgrade_to_another_version_leaves_clients_where_they_are
    a_worker_has_the_mailboxes_and_reads_only_its_own
    a_new_binary_without_mailboxes_closes_those_it_inherits
}

const CLIENTS: usize = 60;

struct Clients(Vec<TcpStream>);

impl Clients {
    fn connect(server: &mut Server) -> Self {
        Self::connect_to(&server.expect("listens")[0])
    }

    /// Connects clients until one set of them has clients at each worker.
    fn connect_to_both(server: &mut Server) -> Self {
        let address = server.expect("listens").remove(0);
        let mut sets = (0..100).map(|_| Self::connect_to(&address));
        let has_both = |set: &Self| {
            let slots = slots(&set.ask_all());
            [Some(0), Some(1)].iter().all(|slot| slots.contains(slot))
        };
        sets.find(has_both).expect("both workers accept")
    }

    fn connect_to(address: &str) -> Self {
        let connect = |_| {
            let stream = TcpStream::connect(address).unwrap();
            let patience = Some(Duration::from_secs(60));
            stream.set_read_timeout(patience).unwrap();
            stream
        };
        Self((0..CLIENTS).map(connect).collect())
    }

    /// The slot and process id of the worker that answers a command; `None` if the connection has
    /// ended.
    fn ask(&self, client: usize, command: &str) -> Option<(usize, i32)> {
        let mut stream = &self.0[client];
        let sent = stream.write_all(format!("{command}\n").as_bytes());
        let mut line = String::new();
        let received = sent.and_then(|()| BufReader::new(stream).read_line(&mut line));
        match received {
            Ok(1..) => {
                let (slot, pid) = line.trim().split_once(' ').unwrap();
                Some((slot.parse().unwrap(), pid.parse().unwrap()))
            }
            Ok(0) => None,
            Err(error) => {
                assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "no answer");
                None
            }
        }
    }

    fn ask_all(&self) -> Vec<Option<(usize, i32)>> {
        (0..self.0.len())
            .map(|client| self.ask(client, "who"))
            .collect()
    }

    /// Makes sure that a slot has clients, and returns one of them.
    fn one_of(&self, slot: usize) -> usize {
        let of_slot = |answer: &Option<(usize, i32)>| answer.is_some_and(|(at, _)| at == slot);
        let all = self.ask_all();
        if let Some(one) = all.iter().position(of_slot) {
            return one;
        }
        // All clients are at the other slot.
        self.ask(0, &format!("give {slot}"));
        0
    }
}

fn slots(answers: &[Option<(usize, i32)>]) -> Vec<Option<usize>> {
    answers
        .iter()
        .map(|answer| answer.map(|(slot, _)| slot))
        .collect()
}

fn stop(server: &mut Server) {
    server.signal_master(Signal::TERM);
    server.expect_end();
}

fn a_worker_gives_its_clients_to_another_slot() {
    gives_to_another_slot("mailboxes");
}

fn a_thread_gives_its_clients_to_another_slot() {
    gives_to_another_slot("mailboxes of threads");
}

fn gives_to_another_slot(main: &str) {
    let mut server = Server::start(main);
    let clients = Clients::connect(&mut server);
    for _ in 0..20 {
        for (from, to) in [(0, 1), (1, 0)] {
            let one = clients.one_of(from);
            clients.ask(one, &format!("give {to}"));
            assert_eq!(slots(&clients.ask_all()), vec![Some(to); CLIENTS]);
        }
    }
    stop(&mut server);
}

fn a_worker_killed_before_it_accepts_loses_only_its_own_clients() {
    let mut server = Server::start("mailboxes");
    let clients = Clients::connect_to_both(&mut server);
    let victim = clients.one_of(1);
    let (_, pid) = clients.ask(victim, "die").unwrap();
    let before = clients.ask_all();
    let at_other = |slot: &Option<usize>| *slot == Some(0);
    let giver = slots(&before).iter().position(at_other).unwrap();
    clients.ask(giver, "give 1");
    server.expect(&format!("ended 1 {pid}"));
    // The clients that were given have gone back to their worker.
    for (client, (before, after)) in before.iter().zip(clients.ask_all()).enumerate() {
        match before.unwrap() {
            (0, giver) => assert_eq!(after, Some((0, giver)), "client {client}"),
            _ => assert_eq!(after, None, "client {client}"),
        }
    }
    stop(&mut server);
}

fn clients_sent_to_a_killed_worker_go_to_its_replacement() {
    let mut server = Server::start("mailboxes");
    let clients = Clients::connect(&mut server);
    let one = clients.one_of(0);
    clients.ask(one, "give 1");
    assert_eq!(slots(&clients.ask_all()), vec![Some(1); CLIENTS]);
    server.expect_in_all("started 0 ", 1);
    let idle = server.pid_in_all("started 0 ");
    // The paused worker is killed before it runs again.
    kill_process(idle, Signal::STOP).unwrap();
    clients.ask(one, "give 0");
    kill_process(idle, Signal::KILL).unwrap();
    let answers = clients.ask_all();
    assert_eq!(slots(&answers), vec![Some(0); CLIENTS]);
    assert!(
        answers
            .iter()
            .all(|answer| answer.unwrap().1 != idle.as_raw_pid())
    );
    stop(&mut server);
}

fn a_reload_keeps_all_clients() {
    let mut server = Server::start("mailboxes");
    let clients = Clients::connect(&mut server);
    let mut before = clients.ask_all();
    for _ in 0..10 {
        server.signal_master(Signal::HUP);
        server.expect("reload Done");
        server.expect_times("ended", 2);
        let after = clients.ask_all();
        for (before, after) in before.iter().zip(&after) {
            let ((old_slot, old), (slot, new)) = (before.unwrap(), after.unwrap());
            // A generation has two slots with successive numbers, one for each index.
            assert_eq!(
                slot % 2,
                old_slot % 2,
                "the successor has the index of the old worker"
            );
            assert_ne!(old, new);
        }
        before = after;
    }
    stop(&mut server);
}

/// Starts a new binary. Returns its master's process id when all its workers are ready.
fn upgrade(server: &mut Server, workers: usize, workers_of_new: usize) -> Pid {
    server.expect_in_all("ready", workers);
    server.signal_master(Signal::USR2);
    let started = "upgrade the new binary is process ";
    server.expect_in_all(started, 1);
    server.expect_in_all("ready", workers + workers_of_new);
    server.pid_in_all(started)
}

fn all_move_at_an_upgrade(main: &str, workers: usize, workers_of_new: usize) {
    let mut server = Server::start(main);
    let clients = Clients::connect(&mut server);
    let before = clients.ask_all();
    let new_master = upgrade(&mut server, workers, workers_of_new);
    server.signal_master(Signal::QUIT);
    server.expect("outcome Stopped(Graceful)");
    let after = clients.ask_all();
    for (before, after) in before.iter().zip(&after) {
        assert_ne!(before.unwrap().1, after.unwrap().1);
    }
    kill_process(new_master, Signal::TERM).unwrap();
    server.expect_end();
}

fn an_upgrade_keeps_all_clients() {
    all_move_at_an_upgrade("mailboxes", 2, 2);
}

fn an_upgrade_to_fewer_workers_keeps_all_clients() {
    all_move_at_an_upgrade("mailboxes, then fewer workers", 3, 1);
}

/// The old binary has no mailbox for the indices that only the new one has.
fn undoing_an_upgrade_to_more_workers_keeps_all_clients() {
    let mut server = Server::start("mailboxes, then more workers");
    let listens = server.expect("listens").to_vec();
    let new_master = upgrade(&mut server, 2, 4);
    let clients = Clients::connect_to(&listens[0]);
    clients.ask_all();
    kill_process(new_master, Signal::QUIT).unwrap();
    server.expect("upgrade the new binary has ended");
    assert!(clients.ask_all().into_iter().all(|answer| answer.is_some()));
    stop(&mut server);
}

fn an_upgrade_to_another_version_leaves_clients_where_they_are() {
    let mut server = Server::start("mailboxes, then another version");
    let clients = Clients::connect(&mut server);
    let before = clients.ask_all();
    let new_master = upgrade(&mut server, 2, 2);
    server.signal_master(Signal::QUIT);
    let error = server.expect("back").join(" ");
    assert!(
        error.ends_with("state version 2; this one understands version 1"),
        "{error}"
    );
    assert_eq!(clients.ask_all(), before);
    drop(clients);
    server.expect("outcome Stopped(Graceful)");
    kill_process(new_master, Signal::TERM).unwrap();
    server.expect_end();
}

fn a_worker_has_the_mailboxes_and_reads_only_its_own() {
    let mut server = Server::start("descriptors of mailboxes");
    for _ in 0..3 {
        // The liveness pipe, the sending ends of twelve slots, two sending ends for each of three
        // indices, and the three ends that the worker reads.
        server.expect("more in the worker: 22");
    }
    server.expect("more afterwards: 0");
}

fn a_new_binary_without_mailboxes_closes_those_it_inherits() {
    let mut server = Server::start("mailboxes, then none");
    server.expect_in_all("ready", 2);
    server.signal_master(Signal::USR2);
    let started = "upgrade the new binary is process ";
    server.expect_in_all(started, 1);
    server.expect_in_all("of 4 inherited are open: 0", 1);
    let new_master = server.pid_in_all(started);
    kill_process(new_master, Signal::TERM).unwrap();
    server.expect("upgrade the new binary has ended");
    stop(&mut server);
}
