//! Tests of a handover channel with both of its ends in one process. They check the owner of each
//! connection, and that no descriptor stays open.

#![cfg(target_os = "linux")]

mod malformed;
mod one_owner;
mod shortage;

use std::{
    fs,
    io::{Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

use evcore_handover::{
    Answer, BATCH_CONNECTIONS_MAX, Connection, Error, Mailbox, Receiver, Refusal, STATE_BYTES_MAX,
    Sender,
};
use rustix::{
    io::{FdFlags, fcntl_getfd},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

const VERSION: u32 = 7;

/// Lets one test run at a time, and checks that the test leaves as many descriptors open as before.
struct Exclusive {
    before: usize,
    _lock: MutexGuard<'static, ()>,
}

fn exclusive() -> Exclusive {
    static LOCK: Mutex<()> = Mutex::new(());
    let lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    Exclusive {
        before: open_descriptors(),
        _lock: lock,
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        if !thread::panicking() {
            assert_eq!(open_descriptors(), self.before, "descriptors are left open");
        }
    }
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn with_room_for<R>(free: u64, call: impl FnOnce() -> R) -> R {
    let limit = getrlimit(Resource::Nofile);
    let lowest = {
        let probe = UnixStream::pair().unwrap().0;
        u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&probe)).unwrap()
    };
    let current = Some(lowest + free);
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
    let result = call();
    setrlimit(Resource::Nofile, limit).unwrap();
    result
}

/// A connection, whose state is its number, and the client's end of it.
fn connection(number: usize) -> (Connection, UnixStream) {
    let (server, client) = UnixStream::pair().unwrap();
    (Connection::new(server, number.to_string()), client)
}

fn connections(numbers: std::ops::Range<usize>) -> (Vec<Connection>, Vec<UnixStream>) {
    numbers.map(connection).unzip()
}

fn number(connection: &Connection) -> usize {
    String::from_utf8_lossy(&connection.state).parse().unwrap()
}

fn numbers(connections: &[Connection]) -> Vec<usize> {
    connections.iter().map(number).collect()
}

fn is_at_end(client: &mut UnixStream) -> bool {
    client.set_nonblocking(true).unwrap();
    matches!(client.read(&mut [0]), Ok(0))
}

fn channel() -> (Sender, Receiver) {
    let (address, mut mailbox) = Mailbox::pair(VERSION).unwrap();
    let sender = Sender::open(&address, VERSION).unwrap();
    (sender, mailbox.next_receiver().unwrap().unwrap())
}

fn send(sender: &mut Sender, numbers: std::ops::Range<usize>) -> Vec<UnixStream> {
    let (mut connections, clients) = connections(numbers);
    let count = connections.len();
    assert_eq!(sender.send(&mut connections).unwrap(), count);
    assert!(connections.is_empty());
    clients
}

fn accept_one(receiver: &mut Receiver) -> Vec<Connection> {
    receiver.receive().unwrap().unwrap().accept().unwrap()
}

#[test]
fn a_thousand_connections_arrive_with_their_states() {
    let _exclusive = exclusive();
    let (mut sender, mut receiver) = channel();
    let (mut rest, mut clients) = connections(0..1_000);
    let (mut arrived, mut acknowledged) = (Vec::new(), 0);
    while acknowledged < 1_000 {
        sender.send(&mut rest).unwrap();
        while let Some(batch) = receiver.receive().unwrap() {
            assert!(batch.connections().len() <= BATCH_CONNECTIONS_MAX);
            arrived.extend(batch.accept().unwrap());
        }
        while let Some(answer) = sender.next_answer().unwrap() {
            let Answer::Acknowledged { connections, .. } = answer else {
                panic!("{answer:?}")
            };
            acknowledged += connections;
        }
    }
    assert_eq!(sender.unacknowledged(), 0);
    assert_eq!(numbers(&arrived), (0..1_000).collect::<Vec<_>>());
    for (connection, client) in arrived.iter().zip(&mut clients) {
        let mut server = UnixStream::from(connection.descriptor.try_clone().unwrap());
        server.write_all(&connection.state).unwrap();
        let mut bytes = [0; 4];
        let length = client.read(&mut bytes).unwrap();
        assert_eq!(bytes[..length], connection.state);
    }
    drop(arrived);
    assert!(clients.iter_mut().all(is_at_end), "a copy is left");
}

#[test]
fn the_two_connections_of_a_session_are_in_one_batch() {
    let _exclusive = exclusive();
    let (mut sender, mut receiver) = channel();
    // Every third session has no partner.
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    for number in 0..500 {
        let (mut session, peer) = connection(number);
        let other = UnixStream::pair().unwrap();
        session.partner = (number % 3 != 0).then(|| other.0.into());
        ours.push(session);
        peers.push((peer, other.1));
    }
    let (count, mut arrived, mut back) = (ours.len() + 333, Vec::new(), Vec::new());
    assert_eq!(sender.send(&mut ours).unwrap(), 500);
    assert_eq!(sender.unacknowledged(), count);
    for time in 0.. {
        let Some(batch) = receiver.receive().unwrap() else {
            break;
        };
        let descriptors = batch.connections().iter().flat_map(Connection::descriptors);
        assert!(descriptors.count() <= BATCH_CONNECTIONS_MAX);
        match time % 2 {
            0 => arrived.extend(batch.accept().unwrap()),
            _ => batch.refuse(),
        }
    }
    let mut acknowledged = 0;
    while let Some(answer) = sender.next_answer().unwrap() {
        match answer {
            Answer::Acknowledged { connections, .. } => acknowledged += connections,
            Answer::Refused { connections, .. } => back.extend(connections),
            other => panic!("{other:?}"),
        }
    }
    let streams = |all: &[Connection]| all.iter().flat_map(Connection::descriptors).count();
    assert_eq!(streams(&arrived), acknowledged);
    assert_eq!(streams(&back), count - acknowledged);
    for session in arrived.into_iter().chain(back) {
        let number = number(&session);
        let ends = [Some(session.descriptor), session.partner];
        let peers = &mut peers[number];
        for (end, peer) in ends.into_iter().zip([&mut peers.0, &mut peers.1]) {
            let Some(end) = end else {
                assert_eq!(number % 3, 0);
                continue;
            };
            UnixStream::from(end).write_all(&session.state).unwrap();
            let mut bytes = [0; 4];
            let length = peer.read(&mut bytes).unwrap();
            assert_eq!(bytes[..length], session.state);
        }
    }
}

#[test]
fn a_received_descriptor_is_closed_on_exec() {
    let _exclusive = exclusive();
    let (mut sender, mut receiver) = channel();
    let _clients = send(&mut sender, 0..2);
    let fds = [receiver.as_fd().try_clone_to_owned().unwrap()];
    let arrived = accept_one(&mut receiver);
    for fd in arrived.iter().map(AsFd::as_fd).chain([receiver.as_fd()]) {
        assert!(fcntl_getfd(fd).unwrap().contains(FdFlags::CLOEXEC));
    }
    drop(fds);
}

#[test]
fn a_refused_batch_comes_back_and_the_next_one_is_accepted() {
    let _exclusive = exclusive();
    let (mut sender, mut receiver) = channel();
    let mut clients = send(&mut sender, 0..3);
    let _more = send(&mut sender, 3..5);
    drop(receiver.receive().unwrap().unwrap());
    assert_eq!(numbers(&accept_one(&mut receiver)), [3, 4]);
    let answer = sender.next_answer().unwrap().unwrap();
    let Answer::Refused {
        batch,
        reason,
        connections,
    } = answer
    else {
        panic!("{answer:?}")
    };
    assert_eq!((batch, reason), (1, Refusal::Declined));
    assert_eq!(numbers(&connections), [0, 1, 2]);
    let answer = sender.next_answer().unwrap().unwrap();
    let Answer::Acknowledged { batch, connections } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!((batch, connections), (2, 2));
    assert!(!clients.iter_mut().any(is_at_end));
}

#[test]
fn a_dropped_receiver_gives_back_what_it_has_not_acknowledged() {
    let _exclusive = exclusive();
    let (mut sender, mut receiver) = channel();
    let _clients: Vec<_> = (0..3).map(|n| send(&mut sender, n..n + 1)).collect();
    let accepted = accept_one(&mut receiver);
    // One batch was received, and another one was not read.
    let _ = receiver.receive().unwrap().unwrap().connections();
    drop(receiver);
    assert_eq!(numbers(&sender.take_back()), [1, 2]);
    assert_eq!(numbers(&accepted), [0]);
}

#[test]
fn a_dead_receiver_is_an_error_after_its_last_answer() {
    let _exclusive = exclusive();
    let (mut sender, mut receiver) = channel();
    let _clients: Vec<_> = (0..2).map(|n| send(&mut sender, n..n + 1)).collect();
    drop(accept_one(&mut receiver));
    drop(receiver);
    assert!(matches!(
        sender.next_answer(),
        Ok(Some(Answer::Acknowledged { batch: 1, .. }))
    ));
    assert!(matches!(sender.next_answer(), Err(Error::Ended)));
    let (mut more, _client) = connections(2..3);
    assert!(matches!(sender.send(&mut more), Err(Error::Ended)));
    assert_eq!(numbers(&more), [2], "it stays with the caller");
    assert_eq!(numbers(&sender.take_back()), [1]);
}

#[test]
fn the_batches_of_a_dead_sender_belong_to_the_receiver() {
    let _exclusive = exclusive();
    let (mut sender, mut receiver) = channel();
    let mut clients: Vec<_> = (0..3).flat_map(|n| send(&mut sender, n..n + 1)).collect();
    let first = accept_one(&mut receiver);
    // The first answer stays unread, so the kernel reports `ECONNRESET` before the end of the
    // channel.
    drop(sender);
    let more = [accept_one(&mut receiver), accept_one(&mut receiver)];
    assert!(matches!(receiver.receive(), Err(Error::Ended)));
    assert_eq!(more.each_ref().map(|batch| number(&batch[0])), [1, 2]);
    assert!(!clients.iter_mut().any(is_at_end));
    drop((first, more));
    assert!(clients.iter_mut().all(is_at_end));
}

#[test]
fn a_batch_taken_back_cannot_be_accepted_any_more() {
    let _exclusive = exclusive();
    let (mut sender, mut receiver) = channel();
    let _clients: Vec<_> = (0..3).map(|n| send(&mut sender, n..n + 1)).collect();
    drop(accept_one(&mut receiver));
    let batch = receiver.receive().unwrap().unwrap();
    assert_eq!(numbers(&sender.take_back()), [1, 2]);
    let taken_back = batch.accept().unwrap_err();
    assert_eq!(numbers(&taken_back.connections), [1]);
    let batch = receiver.receive().unwrap().unwrap();
    assert_eq!(numbers(&batch.accept().unwrap_err().connections), [2]);
    assert!(matches!(receiver.receive(), Err(Error::Ended)));
}

#[test]
fn a_refusal_that_was_not_read_is_taken_back_too() {
    let _exclusive = exclusive();
    let (mut sender, mut receiver) = channel();
    let _clients: Vec<_> = (0..2).map(|n| send(&mut sender, n..n + 1)).collect();
    receiver.receive().unwrap().unwrap().refuse();
    assert_eq!(numbers(&sender.take_back()), [0, 1]);
}

#[test]
fn no_connection_of_an_unclaimed_channel_stays_in_the_mailbox() {
    let _exclusive = exclusive();
    let (address, mut mailbox) = Mailbox::pair(VERSION).unwrap();
    let mut sender = Sender::open(&address, VERSION).unwrap();
    let mut clients = send(&mut sender, 0..3);
    assert!(sender.next_answer().unwrap().is_none());
    assert!(!sender.is_claimed());
    drop(sender.take_back());
    assert!(clients.iter_mut().all(is_at_end), "a copy is left");
    let mut late = mailbox.next_receiver().unwrap().unwrap();
    assert!(matches!(late.receive(), Err(Error::Ended)));
}

#[test]
fn the_next_reader_of_a_mailbox_gets_what_the_first_has_left() {
    let _exclusive = exclusive();
    let (address, first) = Mailbox::pair(VERSION).unwrap();
    let copy = first.as_fd().try_clone_to_owned().unwrap();
    let mut senders = [1, 2].map(|n| (n, Sender::open(&address, VERSION).unwrap()));
    let _clients = senders
        .each_mut()
        .map(|(n, sender)| send(sender, *n..*n + 1));
    drop(first);
    let mut next = Mailbox::from_fd(copy, VERSION);
    for (n, sender) in &mut senders {
        let mut receiver = next.next_receiver().unwrap().unwrap();
        assert_eq!(numbers(&accept_one(&mut receiver)), [*n]);
        let answer = sender.next_answer().unwrap().unwrap();
        assert!(matches!(answer, Answer::Acknowledged { batch: 1, .. }));
        assert!(sender.is_claimed());
    }
    assert!(next.next_receiver().unwrap().is_none());
}

#[test]
fn another_version_is_refused_by_both_sides() {
    let _exclusive = exclusive();
    let (address, mut mailbox) = Mailbox::pair(VERSION).unwrap();
    let mut sender = Sender::open(&address, 3).unwrap();
    let _clients = send(&mut sender, 0..2);
    let error = mailbox.next_receiver().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the other process has connections of state version 3; this one understands version 7"
    );
    let error = sender.next_answer().unwrap_err();
    let (ours, theirs) = match error {
        Error::ForeignVersion { ours, theirs } => (ours, theirs),
        other => panic!("{other}"),
    };
    assert_eq!((ours, theirs), (3, VERSION));
    assert_eq!(numbers(&sender.take_back()), [0, 1]);
}

#[test]
fn a_sender_stops_at_16_unacknowledged_batches() {
    let _exclusive = exclusive();
    let (mut sender, mut receiver) = channel();
    let (mut rest, _clients) = connections(0..20);
    let mut sent = 0;
    while !rest.is_empty() {
        let mut one: Vec<_> = rest.drain(..1).collect();
        match sender.send(&mut one).unwrap() {
            1 => sent += 1,
            _ => {
                rest.insert(0, one.remove(0));
                break;
            }
        }
    }
    assert_eq!(sent, Sender::UNACKNOWLEDGED_BATCHES_MAX);
    assert_eq!(numbers(&rest), (sent..20).collect::<Vec<_>>());
    assert_eq!(sender.unacknowledged(), sent);
    // A receiver that accepts a batch makes room for another one.
    drop(accept_one(&mut receiver));
    assert!(matches!(
        sender.next_answer(),
        Ok(Some(Answer::Acknowledged { .. }))
    ));
    assert_eq!(sender.send(&mut rest).unwrap(), 4, "in one batch");
    assert_eq!(sender.take_back().len(), 19);
}

#[test]
fn a_full_socket_leaves_connections_with_the_caller() {
    let _exclusive = exclusive();
    let (mut sender, mut receiver) = channel();
    let big = |n: usize| {
        let (mut connection, client) = connection(n);
        let number = connection.state.clone();
        connection.state = vec![b'0'; STATE_BYTES_MAX - number.len()];
        connection.state.extend(number);
        (connection, client)
    };
    let (mut rest, _clients): (Vec<_>, Vec<_>) = (0..40).map(big).unzip();
    let (mut arrived, mut rounds) = (Vec::new(), 0);
    while arrived.len() < 40 {
        let sent = sender.send(&mut rest).unwrap();
        rounds += 1;
        assert!(
            sent < Sender::UNACKNOWLEDGED_BATCHES_MAX,
            "no socket is so big"
        );
        assert_eq!(arrived.len() + sender.unacknowledged() + rest.len(), 40);
        while let Some(batch) = receiver.receive().unwrap() {
            arrived.extend(batch.accept().unwrap());
        }
        while sender.next_answer().unwrap().is_some() {}
    }
    assert!(rounds > 2);
    assert_eq!(numbers(&arrived), (0..40).collect::<Vec<_>>());
}

#[test]
fn a_state_that_is_too_long_is_named_and_stays_first() {
    let _exclusive = exclusive();
    let (mut sender, _receiver) = channel();
    let (mut rest, _clients) = connections(0..3);
    rest[1].state = vec![0; STATE_BYTES_MAX + 1];
    let error = sender.send(&mut rest).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a connection's state has 61441 bytes; at most 61440 can be handed over"
    );
    assert_eq!(rest.len(), 2, "the first one was sent");
    rest.remove(0);
    assert_eq!(sender.send(&mut rest).unwrap(), 1);
}

#[test]
fn a_full_mailbox_is_an_error_and_takes_no_descriptor() {
    let _exclusive = exclusive();
    let (address, mut mailbox) = Mailbox::pair(VERSION).unwrap();
    let mut senders = Vec::new();
    let error = loop {
        match Sender::open(&address, VERSION) {
            Ok(sender) => senders.push(sender),
            Err(error) => break error,
        }
        assert!(senders.len() < 10_000);
    };
    assert!(matches!(error, Error::MailboxFull), "{error}");
    // A reader makes room.
    while mailbox.next_receiver().unwrap().is_some() {}
    assert!(Sender::open(&address, VERSION).is_ok());
}

#[test]
fn a_receiver_without_descriptors_refuses_and_leaks_none() {
    let _exclusive = exclusive();
    let (mut sender, mut receiver) = channel();
    let _first = send(&mut sender, 0..1);
    drop(accept_one(&mut receiver));
    let _clients = send(&mut sender, 1..9);
    let before = open_descriptors();
    // There is room for three of the eight descriptors.
    let result = with_room_for(3, || receiver.receive());
    assert!(matches!(result, Err(Error::NoDescriptors)), "{result:?}");
    assert_eq!(open_descriptors(), before);
    assert!(matches!(
        sender.next_answer(),
        Ok(Some(Answer::Acknowledged { batch: 1, .. }))
    ));
    let answer = sender.next_answer().unwrap().unwrap();
    let Answer::Refused {
        reason,
        connections,
        ..
    } = answer
    else {
        panic!("{answer:?}")
    };
    assert_eq!(reason, Refusal::NoDescriptors);
    assert_eq!(numbers(&connections), (1..9).collect::<Vec<_>>());
    assert!(matches!(sender.next_answer(), Err(Error::Ended)));
}

#[test]
fn a_mailbox_without_descriptors_ends_the_channel() {
    let _exclusive = exclusive();
    let (address, mut mailbox) = Mailbox::pair(VERSION).unwrap();
    let mut sender = Sender::open(&address, VERSION).unwrap();
    let _clients = send(&mut sender, 0..3);
    let result = with_room_for(1, || mailbox.next_receiver());
    assert!(matches!(result, Err(Error::NoDescriptors)), "{result:?}");
    assert!(matches!(sender.next_answer(), Err(Error::Ended)));
    assert_eq!(numbers(&sender.take_back()), [0, 1, 2]);
}
