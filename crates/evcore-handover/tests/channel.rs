//! Both ends of a channel in one process: who owns what, and that no descriptor stays open.

#![cfg(target_os = "linux")]

use std::{
    fs, hint,
    io::{self, IoSlice, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use evcore_handover::{
    Answer, BATCH_CONNECTIONS_MAX, Connection, Error, Mailbox, Receiver, Refusal, STATE_BYTES_MAX,
    Sender,
};
use proptest::prelude::*;
use rustix::{
    io::{FdFlags, fcntl_getfd},
    net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, recv, sendmsg, socketpair,
    },
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

const VERSION: u32 = 7;

/// One test at a time, which leaves as many descriptors as it found.
struct Alone {
    before: usize,
    _lock: MutexGuard<'static, ()>,
}

fn alone() -> Alone {
    static LOCK: Mutex<()> = Mutex::new(());
    let lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    Alone {
        before: open_descriptors(),
        _lock: lock,
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if !thread::panicking() {
            assert_eq!(open_descriptors(), self.before, "descriptors are left open");
        }
    }
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A connection whose state is its number, and its client.
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
    let _alone = alone();
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
fn a_received_descriptor_is_closed_on_exec() {
    let _alone = alone();
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
    let _alone = alone();
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
    let _alone = alone();
    let (mut sender, mut receiver) = channel();
    let _clients: Vec<_> = (0..3).map(|n| send(&mut sender, n..n + 1)).collect();
    let accepted = accept_one(&mut receiver);
    // One batch was received, another one was not read at all.
    let _ = receiver.receive().unwrap().unwrap().connections();
    drop(receiver);
    assert_eq!(numbers(&sender.take_back()), [1, 2]);
    assert_eq!(numbers(&accepted), [0]);
}

#[test]
fn a_dead_receiver_is_an_error_after_its_last_answer() {
    let _alone = alone();
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
    let _alone = alone();
    let (mut sender, mut receiver) = channel();
    let mut clients: Vec<_> = (0..3).flat_map(|n| send(&mut sender, n..n + 1)).collect();
    let first = accept_one(&mut receiver);
    // The first answer is not read, which makes the kernel report the end by another error.
    drop(sender);
    let more = [accept_one(&mut receiver), accept_one(&mut receiver)];
    assert!(matches!(receiver.receive(), Err(Error::Ended)));
    assert_eq!(more.each_ref().map(|batch| number(&batch[0])), [1, 2]);
    assert!(!clients.iter_mut().any(is_at_end));
    drop((first, more));
    assert!(clients.iter_mut().all(is_at_end));
}

#[test]
fn what_is_taken_back_cannot_be_accepted_any_more() {
    let _alone = alone();
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
    let _alone = alone();
    let (mut sender, mut receiver) = channel();
    let _clients: Vec<_> = (0..2).map(|n| send(&mut sender, n..n + 1)).collect();
    receiver.receive().unwrap().unwrap().refuse();
    assert_eq!(numbers(&sender.take_back()), [0, 1]);
}

#[test]
fn nothing_of_an_unclaimed_channel_stays_in_the_mailbox() {
    let _alone = alone();
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
    let _alone = alone();
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
    let _alone = alone();
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
fn a_reader_that_never_acknowledges_loses_nothing() {
    let _alone = alone();
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
    // One that reads makes room for one.
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
    let _alone = alone();
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
    let _alone = alone();
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
    let _alone = alone();
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

/// What a sender does, by hand.
struct Impostor {
    mailbox: Mailbox,
    address: OwnedFd,
}

fn seqpacket() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

fn send_raw(socket: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds)));
    sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )
    .unwrap();
}

/// `evHO`, protocol 1, the kind, the count, the version, the number.
fn header(kind: u8, count: u16, version: u32, number: u64) -> Vec<u8> {
    let mut bytes = b"evHO\x01".to_vec();
    bytes.push(kind);
    bytes.extend(count.to_le_bytes());
    bytes.extend(version.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes
}

impl Impostor {
    fn new() -> Self {
        let (address, mailbox) = Mailbox::pair(VERSION).unwrap();
        Self { mailbox, address }
    }

    /// The sending end of a channel, the other end of its revocation, and the receiver.
    fn introduce(&mut self) -> (OwnedFd, OwnedFd, Receiver) {
        let ((channel, theirs), (revocation, their_revocation)) = (seqpacket(), seqpacket());
        let fds = [theirs.as_fd(), their_revocation.as_fd()];
        send_raw(&self.address, &header(1, 0, VERSION, 0), &fds);
        let receiver = self.mailbox.next_receiver().unwrap().unwrap();
        (channel, revocation, receiver)
    }
}

#[test]
fn a_malformed_introduction_is_refused_and_the_mailbox_goes_on() {
    let _alone = alone();
    let mut impostor = Impostor::new();
    let (a, b) = seqpacket();
    let fds = [a.as_fd(), b.as_fd(), a.as_fd()];
    for (bytes, fds, why) in [
        (b"?".to_vec(), &fds[..2], "it is shorter than a header"),
        (header(1, 0, VERSION, 0), &fds[..0], "two descriptors"),
        (header(1, 0, VERSION, 0), &fds[..1], "two descriptors"),
        (header(1, 0, VERSION, 0), &fds[..], "two descriptors"),
        (header(3, 1, VERSION, 1), &fds[..2], "lengths of its states"),
        (header(4, 0, VERSION, 1), &fds[..2], "not an introduction"),
        (vec![b'e'; 100], &fds[..2], "longer than an introduction"),
    ] {
        send_raw(&impostor.address, &bytes, fds);
        let error = impostor.mailbox.next_receiver().unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    let (_channel, _revocation, mut receiver) = impostor.introduce();
    assert!(receiver.receive().unwrap().is_none());
}

#[test]
fn a_malformed_batch_is_refused_whole_and_ends_the_channel() {
    let _alone = alone();
    let (a, b) = seqpacket();
    let fds = [a.as_fd(), b.as_fd()];
    let batch = |count: u16, version: u32, number: u64, length: u32, state: &[u8]| {
        let mut bytes = header(3, count, version, number);
        bytes.extend(length.to_le_bytes());
        bytes.extend(state);
        bytes
    };
    let refused = |number: u64| header(5, 3, 0, number);
    for (bytes, fds, why, answer) in [
        (b"x".to_vec(), &fds[..1], "shorter than a header", None),
        (
            batch(1, VERSION, 1, 1, b"s"),
            &fds[..],
            "one descriptor for each",
            Some(refused(1)),
        ),
        (
            batch(1, VERSION, 1, 1, b"s"),
            &fds[..0],
            "one descriptor for each",
            Some(refused(1)),
        ),
        (
            batch(1, VERSION, 1, 2, b"s"),
            &fds[..1],
            "shorter than their lengths",
            Some(refused(1)),
        ),
        (
            batch(1, VERSION, 1, 1, &[b's'; 70_000]),
            &fds[..1],
            "longer than the limit",
            Some(refused(1)),
        ),
        (
            batch(1, VERSION, 2, 1, b"s"),
            &fds[..1],
            "next number",
            Some(refused(2)),
        ),
        (
            batch(1, VERSION + 1, 1, 1, b"s"),
            &fds[..1],
            "state version 8",
            Some(refused(1)),
        ),
        (header(4, 0, VERSION, 1), &fds[..1], "not a batch", None),
    ] {
        let mut impostor = Impostor::new();
        let (channel, _revocation, mut receiver) = impostor.introduce();
        send_raw(&channel, &bytes, fds);
        let error = receiver.receive().unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        // A greeting, the refusal if the message has a number, and the end, while the receiver lives.
        let mut answers = Vec::new();
        loop {
            let mut buffer = [0; 64];
            let (length, _) = recv(&channel, &mut buffer, rustix::net::RecvFlags::empty()).unwrap();
            if length == 0 {
                break;
            }
            answers.push(buffer[..length].to_vec());
        }
        let expected: Vec<_> = [header(2, 0, VERSION, 0)]
            .into_iter()
            .chain(answer)
            .collect();
        assert_eq!(answers, expected, "{why}");
    }
}

#[test]
fn a_malformed_answer_ends_the_channel_and_nothing_is_lost() {
    let _alone = alone();
    for (bytes, why) in [
        (b"?".to_vec(), "shorter than a header"),
        (header(4, 0, 0, 2), "not the next one"),
        (header(5, 1, 0, 9), "not the next one"),
        (header(5, 77, 0, 1), "unknown reason"),
        (header(3, 0, 0, 1), "1 to 253"),
        (header(1, 0, VERSION, 0), "for a receiver"),
        (vec![b'e'; 99], "magic"),
    ] {
        let (address, mailbox) = seqpacket();
        let mut sender = Sender::open(&address, VERSION).unwrap();
        let _clients = send(&mut sender, 0..2);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = rustix::net::RecvAncillaryBuffer::new(&mut space);
        let mut buffer = [0; 64];
        let mut parts = [io::IoSliceMut::new(&mut buffer)];
        let flags = rustix::net::RecvFlags::CMSG_CLOEXEC;
        rustix::net::recvmsg(&mailbox, &mut parts, &mut control, flags).unwrap();
        let received = control.drain().flat_map(|part| match part {
            rustix::net::RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
            _ => Vec::new(),
        });
        let received: Vec<_> = received.collect();
        send_raw(&received[0], &bytes, &[]);
        let error = sender.next_answer().unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(numbers(&sender.take_back()), [0, 1]);
    }
}

#[test]
fn a_receiver_without_descriptors_refuses_and_leaks_none() {
    let _alone = alone();
    let (mut sender, mut receiver) = channel();
    let _first = send(&mut sender, 0..1);
    drop(accept_one(&mut receiver));
    let _clients = send(&mut sender, 1..9);
    let before = open_descriptors();
    let limit = getrlimit(Resource::Nofile);
    // Room for three of eight.
    let highest = {
        let probe = seqpacket().0;
        u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&probe)).unwrap()
    };
    let current = Some(highest + 3);
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
    let result = receiver.receive();
    setrlimit(Resource::Nofile, limit).unwrap();
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

/// The two sides decide at the same time, at moments that differ from round to round.
#[test]
fn taking_back_and_accepting_at_once_leaves_one_owner() {
    const BATCHES: usize = Sender::UNACKNOWLEDGED_BATCHES_MAX;
    let _alone = alone();
    let (mut taken_back, mut accepted) = (0, 0);
    for round in 0..300 {
        let (mut sender, mut receiver) = channel();
        let _clients: Vec<_> = (0..BATCHES).map(|n| send(&mut sender, n..n + 1)).collect();
        let accepts = &AtomicBool::new(false);
        let (mut back, mine) = thread::scope(|scope| {
            let accepting = scope.spawn(move || {
                let mut mine = Vec::new();
                while let Ok(Some(batch)) = receiver.receive() {
                    accepts.store(true, Ordering::Relaxed);
                    mine.extend(batch.accept().map(|all| numbers(&all)).unwrap_or_default());
                }
                mine
            });
            while !accepts.load(Ordering::Relaxed) {
                hint::spin_loop();
            }
            (0..round % 300 * 5).for_each(|_| hint::spin_loop());
            (numbers(&sender.take_back()), accepting.join().unwrap())
        });
        taken_back += back.len();
        accepted += mine.len();
        back.extend(mine);
        back.sort_unstable();
        assert_eq!(back, (0..BATCHES).collect::<Vec<_>>());
    }
    println!("{taken_back} connections were taken back, and {accepted} accepted");
}

#[derive(Clone, Debug)]
enum Call {
    Send(usize),
    Accept,
    Refuse,
    Answer,
    DropSender,
    DropReceiver,
    TakeBack,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        4 => (1_usize..4).prop_map(Call::Send),
        3 => Just(Call::Accept),
        2 => Just(Call::Refuse),
        3 => Just(Call::Answer),
        1 => Just(Call::DropSender),
        1 => Just(Call::DropReceiver),
        1 => Just(Call::TakeBack),
    ];
    prop::collection::vec(call, 1..40)
}

/// Where each connection is: with the program at one of the two ends, or in the channel.
#[derive(Default)]
struct Ends {
    next: usize,
    clients: Vec<UnixStream>,
    /// Came back, or was never sent.
    at_sender: Vec<Connection>,
    at_receiver: Vec<Connection>,
}

impl Ends {
    fn run(&mut self, calls: Vec<Call>) {
        let (address, mut mailbox) = Mailbox::pair(VERSION).unwrap();
        let mut sender = Some(Sender::open(&address, VERSION).unwrap());
        let mut receiver = mailbox.next_receiver().unwrap();
        for call in calls {
            match (call, &mut sender, &mut receiver) {
                (Call::Send(count), Some(sender), _) => {
                    let (mut new, clients) = connections(self.next..self.next + count);
                    self.next += count;
                    self.clients.extend(clients);
                    let _ = sender.send(&mut new);
                    self.at_sender.extend(new);
                }
                (Call::Accept, _, Some(receiver)) => {
                    if let Ok(Some(batch)) = receiver.receive() {
                        self.at_receiver.extend(batch.accept().unwrap_or_default());
                    }
                }
                (Call::Refuse, sender, Some(receiver)) => {
                    if let Ok(Some(batch)) = receiver.receive() {
                        // Without a sender a refusal closes: so it does not happen in this test.
                        match sender {
                            Some(_) => batch.refuse(),
                            None => {
                                self.at_receiver.extend(batch.accept().unwrap_or_default());
                            }
                        }
                    }
                }
                (Call::Answer, Some(sender), _) => {
                    if let Ok(Some(Answer::Refused { connections, .. })) = sender.next_answer() {
                        self.at_sender.extend(connections);
                    }
                }
                (Call::TakeBack, ..) => {
                    let back = sender.take().map(Sender::take_back);
                    self.at_sender.extend(back.unwrap_or_default());
                }
                // What is sent lives on in the receiver, unless a refusal is under way.
                (Call::DropSender, slot, Some(receiver)) => {
                    if let Some(sender) = slot {
                        while let Ok(Some(answer)) = sender.next_answer() {
                            if let Answer::Refused { connections, .. } = answer {
                                self.at_sender.extend(connections);
                            }
                        }
                    }
                    *slot = None;
                    while let Ok(Some(batch)) = receiver.receive() {
                        self.at_receiver.extend(batch.accept().unwrap_or_default());
                    }
                }
                (Call::DropReceiver, Some(_), slot) => *slot = None,
                _ => {}
            }
        }
        // The end of every life: one side has each connection.
        self.at_sender
            .extend(sender.map(Sender::take_back).unwrap_or_default());
        while let Some(Ok(Some(batch))) = receiver.as_mut().map(Receiver::receive) {
            self.at_receiver.extend(batch.accept().unwrap_or_default());
        }
    }
}

proptest! {
    #[test]
    fn each_connection_has_one_owner_after_any_calls(calls in calls()) {
        let _alone = alone();
        let mut ends = Ends::default();
        ends.run(calls);
        let mut all = numbers(&ends.at_sender);
        all.extend(numbers(&ends.at_receiver));
        all.sort_unstable();
        prop_assert_eq!(all, (0..ends.next).collect::<Vec<_>>());
        // Nothing is open in a third place, and all is open still.
        prop_assert!(!ends.clients.iter_mut().any(is_at_end));
        ends.at_sender.clear();
        ends.at_receiver.clear();
        prop_assert!(ends.clients.iter_mut().all(is_at_end));
    }
}
