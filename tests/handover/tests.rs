//! Tests of connections that move to the successor of their worker, and the clients that the tests
//! use.

use std::{
    collections::BTreeSet,
    env,
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::net::UnixStream,
    process::Command,
};

use evcore_poller::BackendKind;
use evcore_tests::{
    NamedTest, PATIENCE, Scratch, Server, eventually, is_permitted, named_tests, signal_to,
    try_signal_to,
};
use rustix::process::Signal;

use super::lines::FLAG;

pub(super) const ALL: &[NamedTest] = named_tests! {
    clients_stay_connected_through_reloads_on_each_poller
    clients_of_a_unix_socket_move_too
    an_upgrade_and_the_way_back_keep_all_clients
    clients_of_an_old_generation_follow_a_new_binary
    clients_of_another_state_version_stay_where_they_are
    a_reload_while_two_binaries_serve_moves_no_client_to_the_other
    a_successor_without_room_refuses_and_the_clients_come_back
    a_successor_that_does_not_answer_gets_no_client
    the_replacement_of_a_killed_successor_takes_the_clients
    a_client_on_its_way_to_a_killed_successor_goes_to_the_next
    a_client_on_its_way_to_a_hung_successor_comes_back
    a_connection_that_stays_is_served_until_it_ends
    a_stop_without_a_successor_moves_nothing
};

const CLIENTS: usize = 100;

struct Settings<'a> {
    address: &'a str,
    workers: usize,
    connections: usize,
    poller: BackendKind,
    /// The state versions of the first binary, and of later ones.
    versions: [u32; 2],
}

impl Default for Settings<'_> {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:0",
            workers: 1,
            connections: 1000,
            poller: BackendKind::Epoll,
            versions: [1, 1],
        }
    }
}

impl Settings<'_> {
    fn start(&self) -> Server {
        let mut command = Command::new(env::current_exe().unwrap());
        let numbers = [self.workers, self.connections].map(|number| number.to_string());
        command.args([FLAG, self.address]).args(numbers);
        command.arg(self.poller.to_string());
        command.args(self.versions.map(|version| version.to_string()));
        let server = Server::from_command(command, 1);
        wait_for(&server, " serves", self.workers);
        server
    }
}

fn count(server: &Server, text: &str) -> usize {
    server.log().matches(text).count()
}

fn wait_for(server: &Server, text: &str, times: usize) {
    eventually(text, || count(server, text) >= times);
}

fn wait_for_ends(server: &Server, workers: &[u32]) {
    eventually("the old workers end", || {
        let living = server.worker_pids();
        !workers.iter().any(|worker| living.contains(worker))
    });
}

/// The process id of the master of a new binary, which is not a child of the test. Dropping this
/// value ends the master.
struct NewBinary(u32);

impl Drop for NewBinary {
    fn drop(&mut self) {
        let _ = try_signal_to(self.0, Signal::TERM);
    }
}

/// Starts a new binary by USR2, and waits until its workers serve.
fn upgrade(server: &Server, workers: usize) -> NewBinary {
    let new = NewBinary(server.start_binary());
    wait_for(server, " serves", 2 * workers);
    new
}

/// A client, with the number of lines that it has begun.
struct Client<S> {
    stream: S,
    name: usize,
    sent: usize,
}

impl<S: Read + Write> Client<S> {
    fn begin(&mut self) {
        self.sent += 1;
        let first = format!("line {} of ", self.sent);
        self.stream.write_all(first.as_bytes()).unwrap();
    }

    /// Sends the rest of the line, and returns the process id of the worker that answers.
    fn end(&mut self) -> u32 {
        let rest = format!("client {}\n", self.name);
        self.stream.write_all(rest.as_bytes()).unwrap();
        let (worker, line) = self.read_line();
        assert_eq!(line, format!("line {} of {rest}", self.sent));
        worker
    }

    fn ask(&mut self) -> u32 {
        self.begin();
        self.end()
    }

    /// Sends the command `stay` or `go`. Returns the process id of the worker that answers.
    fn command(&mut self, word: &str) -> u32 {
        self.stream
            .write_all(format!("{word}\n").as_bytes())
            .unwrap();
        let (worker, line) = self.read_line();
        assert_eq!(line.trim_end(), word);
        worker
    }

    fn read_line(&mut self) -> (u32, String) {
        let (mut answer, mut byte) = (String::new(), [0]);
        while !answer.ends_with('\n') {
            let n = self.stream.read(&mut byte).expect("an answer in time");
            assert_eq!(n, 1, "client {} was closed", self.name);
            answer.push(char::from(byte[0]));
        }
        let (worker, line) = answer.split_once(' ').unwrap();
        (worker.parse().unwrap(), line.to_owned())
    }
}

fn connect(server: &Server, count: usize) -> Vec<Client<TcpStream>> {
    let connect = |name| {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // Otherwise the second part of a line waits for the acknowledgement of the first.
        stream.set_nodelay(true).unwrap();
        Client {
            stream,
            name,
            sent: 0,
        }
    };
    let mut clients: Vec<_> = (0..count).map(connect).collect();
    ask_all(&mut clients);
    clients
}

/// Asks all clients, and returns the workers that serve them.
fn ask_all<S: Read + Write>(clients: &mut [Client<S>]) -> BTreeSet<u32> {
    clients.iter_mut().map(Client::ask).collect()
}

/// Calls `act` while every second client is in the middle of a line. Returns the workers that serve
/// the clients afterwards.
fn in_the_middle<S: Read + Write>(clients: &mut [Client<S>], act: impl FnOnce()) -> BTreeSet<u32> {
    clients.iter_mut().step_by(2).for_each(Client::begin);
    act();
    clients
        .iter_mut()
        .enumerate()
        .map(|(n, client)| {
            if n % 2 == 0 {
                client.end()
            } else {
                client.ask()
            }
        })
        .collect()
}

fn reload(server: &Server) {
    let old = server.worker_pids();
    server.signal(Signal::HUP);
    wait_for_ends(server, &old);
}

fn clients_stay_connected_through_reloads_on_each_poller() {
    let kinds = [BackendKind::Epoll, BackendKind::IoUring, BackendKind::Poll];
    for poller in kinds.into_iter().filter(|kind| is_permitted(*kind)) {
        let workers = 2;
        let settings = Settings {
            workers,
            poller,
            ..Settings::default()
        };
        let server = settings.start();
        let mut clients = connect(&server, CLIENTS);
        for _ in 0..5 {
            let now = in_the_middle(&mut clients, || reload(&server));
            let living = server.worker_pids();
            assert!(now.iter().all(|worker| living.contains(worker)), "{poller}");
        }
        assert_eq!(count(&server, "do not move"), 0, "{}", server.log());
    }
}

fn clients_of_a_unix_socket_move_too() {
    let scratch = Scratch::new("handover");
    let path = scratch.file("socket");
    let address = format!("unix:{}", path.display());
    let server = Settings {
        address: &address,
        ..Settings::default()
    }
    .start();
    let connect = |name| {
        let stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client {
            stream,
            name,
            sent: 0,
        }
    };
    let mut clients: Vec<_> = (0..20).map(connect).collect();
    ask_all(&mut clients);
    for _ in 0..3 {
        let now = in_the_middle(&mut clients, || reload(&server));
        assert!(now.into_iter().eq(server.worker_pids()));
    }
}

fn an_upgrade_and_the_way_back_keep_all_clients() {
    let server = Settings::default().start();
    let mut clients = connect(&server, CLIENTS);
    let old = server.worker_pids();
    let new = upgrade(&server, 1);
    // The old workers stop, and the old master stays.
    in_the_middle(&mut clients, || {
        server.signal(Signal::WINCH);
        wait_for_ends(&server, &old);
    });
    // The old master serves again, and the new binary ends.
    server.signal(Signal::HUP);
    wait_for(&server, " serves", 3);
    let back = in_the_middle(&mut clients, || {
        signal_to(new.0, Signal::QUIT);
        wait_for(&server, "the new binary has ended", 1);
    });
    assert!(
        back.into_iter()
            .all(|worker| server.worker_pids().contains(&worker))
    );

    // After one more upgrade, the old binary ends.
    let mut server = server;
    let new = upgrade(&server, 2);
    in_the_middle(&mut clients, || {
        server.signal(Signal::QUIT);
        assert!(server.wait().success());
    });
    signal_to(new.0, Signal::TERM);
    let mut rest = Vec::new();
    clients[0].stream.read_to_end(&mut rest).unwrap();
    assert_eq!(count(&server, "do not move"), 0, "{}", server.log());
}

/// The second generation ends while the first one still has clients.
fn clients_of_an_old_generation_follow_a_new_binary() {
    let mut server = Settings::default().start();
    let mut clients = connect(&server, CLIENTS);
    let oldest = clients[0].ask();
    for client in &mut clients {
        assert_eq!(client.command("stay"), oldest);
    }
    server.signal(Signal::HUP);
    wait_for(&server, " serves", 2);
    let mut children = server.worker_pids();
    children.retain(|child| *child != oldest);
    let new = NewBinary(server.start_binary());
    wait_for(&server, " serves", 3);
    server.signal(Signal::QUIT);
    wait_for_ends(&server, &children);
    for client in &mut clients {
        assert_eq!(client.command("go"), oldest);
    }
    assert!(server.wait().success());
    assert!(!ask_all(&mut clients).contains(&oldest));
    assert_eq!(count(&server, "do not move"), 0, "{}", server.log());
    drop(new);
}

fn clients_of_another_state_version_stay_where_they_are() {
    let settings = Settings {
        versions: [1, 2],
        ..Settings::default()
    };
    let mut server = settings.start();
    let mut clients = connect(&server, CLIENTS);
    let old: BTreeSet<u32> = server.worker_pids().into_iter().collect();
    let new = upgrade(&server, 1);
    let now = in_the_middle(&mut clients, || {
        server.signal(Signal::QUIT);
        wait_for(&server, "understands version 2", 1);
        wait_for(&server, "understands version 1", 1);
    });
    assert_eq!(now, old);
    drop(clients);
    assert!(server.wait().success());
    drop(new);
}

/// The workers of the two binaries have states of different versions.
fn a_reload_while_two_binaries_serve_moves_no_client_to_the_other() {
    let settings = Settings {
        versions: [1, 2],
        ..Settings::default()
    };
    let server = settings.start();
    let mut clients = connect(&server, CLIENTS);
    let new = upgrade(&server, 1);
    let workers = || {
        let mut children = server.worker_pids();
        children.retain(|child| *child != new.0);
        children
    };
    for time in 1..=10 {
        let old = workers();
        let now = in_the_middle(&mut clients, || {
            server.signal(Signal::HUP);
            wait_for(&server, " serves", 2 + time);
            wait_for_ends(&server, &old);
        });
        assert!(now.into_iter().eq(workers()), "reload {time}");
    }
    assert_eq!(count(&server, "do not move"), 0, "{}", server.log());
}

/// The old worker is suspended by SIGSTOP while the new one gets clients of its own.
fn a_successor_without_room_refuses_and_the_clients_come_back() {
    let settings = Settings {
        connections: 60,
        ..Settings::default()
    };
    let server = settings.start();
    let mut clients = connect(&server, 40);
    let old = server.worker_pids();
    signal_to(old[0], Signal::STOP);
    server.signal(Signal::HUP);
    wait_for(&server, " serves", 2);
    let mut of_the_new_one = connect(&server, 30);
    let stays = in_the_middle(&mut clients, || {
        signal_to(old[0], Signal::CONT);
        eventually("the old worker keeps them or ends", || {
            count(&server, "no room") + count(&server, "worker ends") > 0
        });
    });
    assert!(stays.into_iter().eq(old.iter().copied()));
    ask_all(&mut of_the_new_one);
    drop(clients);
    wait_for_ends(&server, &old);
    wait_for(&server, "0 handed over, 0 arrived, 40 taken back", 1);
}

/// Reloads, and suspends the successor by SIGSTOP before the old worker begins to stop. Returns the
/// process ids of the old worker and of the successor.
fn with_a_stopped_successor(server: &Server) -> (u32, u32) {
    let old = server.worker_pids()[0];
    signal_to(old, Signal::STOP);
    server.signal(Signal::HUP);
    wait_for(server, " serves", 2);
    let mut workers = server.worker_pids().into_iter();
    let new = workers.find(|worker| *worker != old).unwrap();
    signal_to(new, Signal::STOP);
    signal_to(old, Signal::CONT);
    (old, new)
}

fn a_successor_that_does_not_answer_gets_no_client() {
    let server = Settings::default().start();
    let mut clients = connect(&server, CLIENTS);
    let (old, new) = with_a_stopped_successor(&server);
    // The old worker serves its clients before it gives the successor up, and afterwards.
    assert_eq!(ask_all(&mut clients), BTreeSet::from([old]));
    let now = in_the_middle(&mut clients, || wait_for(&server, "does not answer", 1));
    assert_eq!(now, BTreeSet::from([old]));
    signal_to(new, Signal::CONT);
    assert_eq!(ask_all(&mut connect(&server, 5)), BTreeSet::from([new]));
    drop(clients);
    wait_for_ends(&server, &[old]);
}

fn the_replacement_of_a_killed_successor_takes_the_clients() {
    let server = Settings::default().start();
    let mut clients = connect(&server, CLIENTS);
    let (old, new) = with_a_stopped_successor(&server);
    let now = in_the_middle(&mut clients, || {
        signal_to(new, Signal::KILL);
        wait_for_ends(&server, &[old, new]);
    });
    assert!(now.into_iter().eq(server.worker_pids()));
}

/// Moves a client, in the middle of a line, into the channel to a successor that is suspended by
/// SIGSTOP. Returns the client, the old worker and the successor.
fn on_its_way_to_a_stopped_successor(server: &Server) -> (Client<TcpStream>, u32, u32) {
    let mut clients = connect(server, 2);
    let old = clients[0].command("stay");
    server.signal(Signal::HUP);
    eventually("the other client has moved", || clients[1].ask() != old);
    let new = clients[1].ask();
    signal_to(new, Signal::STOP);
    let mut client = clients.swap_remove(0);
    client.stream.write_all(b"go\n").unwrap();
    client.begin();
    assert_eq!(client.read_line(), (old, "go\n".to_owned()));
    (client, old, new)
}

fn a_client_on_its_way_to_a_killed_successor_goes_to_the_next() {
    let server = Settings::default().start();
    let (mut client, old, new) = on_its_way_to_a_stopped_successor(&server);
    signal_to(new, Signal::KILL);
    wait_for_ends(&server, &[old, new]);
    assert_eq!(server.worker_pids(), [client.end()]);
}

fn a_client_on_its_way_to_a_hung_successor_comes_back() {
    let server = Settings::default().start();
    let (mut client, old, new) = on_its_way_to_a_stopped_successor(&server);
    assert_eq!(client.end(), old);
    // A thread of this test reads the log, so the line may come later.
    wait_for(&server, "does not answer", 1);
    signal_to(new, Signal::CONT);
    assert_eq!(connect(&server, 1)[0].ask(), new);
    assert_eq!(client.ask(), old);
    drop(client);
    wait_for_ends(&server, &[old]);
    wait_for(
        &server,
        "worker ends: 1 handed over, 0 arrived, 1 taken back",
        1,
    );
}

fn a_connection_that_stays_is_served_until_it_ends() {
    let server = Settings::default().start();
    let mut clients = connect(&server, CLIENTS);
    let mut staying = clients.swap_remove(0);
    let old = staying.command("stay");
    server.signal(Signal::HUP);
    wait_for(&server, " serves", 2);
    eventually("the others have moved", || {
        !ask_all(&mut clients).contains(&old)
    });
    assert_eq!(staying.ask(), old);
    staying.stream.shutdown(Shutdown::Write).unwrap();
    wait_for_ends(&server, &[old]);
    ask_all(&mut clients);
}

fn a_stop_without_a_successor_moves_nothing() {
    let mut server = Settings::default().start();
    let mut clients = connect(&server, CLIENTS);
    server.signal(Signal::QUIT);
    eventually("it accepts no client", || {
        TcpStream::connect(server.address()).is_err()
    });
    ask_all(&mut clients);
    drop(clients);
    assert!(server.wait().success());
    wait_for(
        &server,
        "worker ends: 0 handed over, 0 arrived, 0 taken back",
        1,
    );
    assert_eq!(count(&server, "do not move"), 0, "{}", server.log());
}
