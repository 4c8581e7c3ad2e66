//! Tests of connections that move while the kernel has no room, or while the other worker is slow
//! or fails. The tests pass the time in as a number, so that none waits.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use evcore::balancer::{Give, WorkerId};
use evcore::clock::{Clock, ManualTimeSource};
use evcore::poller::{Source, Target};
use evcore::{Connections, EventLoop, Stream};
use evcore_handover::{
    Connection, Descriptor, Error, Mailbox, Packet, Received, Receiver, Sender, Unsent,
};
use evcore_prefork::{Stop, Successor};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::giving::Giving;
use crate::handing_on::HandingOn;
use crate::handover::Handover;
use crate::leaving::Leaving;
use crate::mailbox_ends::MailboxEnds;

const VERSION: u32 = 1;

thread_local! {
    /// True if the kernel has no room for a message with descriptors.
    static IS_FULL: Cell<bool> = const { Cell::new(false) };
}

fn set_full(is_full: bool) {
    IS_FULL.set(is_full);
}

/// A descriptor that cannot be sent while `IS_FULL` is true.
#[derive(Debug)]
struct Scarce(OwnedFd);

impl Descriptor for Scarce {
    type Borrowed<'a> = BorrowedFd<'a>;

    fn borrow(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn pair(mailbox: BorrowedFd<'_>) -> Result<(Self, Self), Error> {
        let (one, other) = <OwnedFd as Descriptor>::pair(mailbox)?;
        Ok((Self(one), Self(other)))
    }

    fn counter(mailbox: BorrowedFd<'_>) -> Result<Self, Error> {
        <OwnedFd as Descriptor>::counter(mailbox).map(Self)
    }

    fn count_up(counter: BorrowedFd<'_>) {
        <OwnedFd as Descriptor>::count_up(counter);
    }

    fn has_counted(counter: BorrowedFd<'_>) -> bool {
        <OwnedFd as Descriptor>::has_counted(counter)
    }

    fn send(
        socket: BorrowedFd<'_>,
        message: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), Unsent> {
        if IS_FULL.get() && !descriptors.is_empty() {
            return Err(Unsent::KernelFull);
        }
        <OwnedFd as Descriptor>::send(socket, message, descriptors)
    }

    fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Received<Packet<Self>>, Error> {
        Ok(match <OwnedFd as Descriptor>::receive(socket, buffer)? {
            Received::Message(packet) => Received::Message(Packet {
                length: packet.length,
                descriptors: packet.descriptors.into_iter().map(Self).collect(),
                cut: packet.cut,
            }),
            Received::Nothing => Received::Nothing,
            Received::End => Received::End,
        })
    }

    fn is_hung_up(socket: BorrowedFd<'_>) -> bool {
        <OwnedFd as Descriptor>::is_hung_up(socket)
    }

    fn stop_receiving(socket: BorrowedFd<'_>) {
        <OwnedFd as Descriptor>::stop_receiving(socket);
    }

    fn end(socket: BorrowedFd<'_>) {
        <OwnedFd as Descriptor>::end(socket);
    }
}

impl Source for Scarce {
    fn target(&self) -> Target<'_> {
        self.0.target()
    }
}

impl From<Stream> for Scarce {
    fn from(stream: Stream) -> Self {
        Self(stream.into())
    }
}

impl From<Scarce> for Stream {
    fn from(descriptor: Scarce) -> Self {
        descriptor.0.into()
    }
}

fn mailbox_pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

/// A worker that takes connections.
struct Taker {
    mailbox: Mailbox<Scarce>,
    receivers: Vec<Receiver<Scarce>>,
    greeted: usize,
    taken: Vec<Connection<Scarce>>,
}

impl Taker {
    /// Creates a taker. Also returns the sending end of the taker's mailbox.
    fn new() -> (OwnedFd, Self) {
        set_full(false);
        let (mailbox, own) = mailbox_pair();
        let taker = Self {
            mailbox: Mailbox::from_fd(Scarce(own), VERSION),
            receivers: Vec::new(),
            greeted: 0,
            taken: Vec::new(),
        };
        (mailbox, taker)
    }

    /// Takes the batches of the channels that it has greeted before, and then greets new channels.
    /// (The greeting is the first message of a receiver to its sender.)
    fn turn(&mut self) {
        let taken = &mut self.taken;
        self.receivers.retain_mut(|receiver| {
            loop {
                match receiver.receive() {
                    Ok(Some(batch)) => taken.extend(batch.accept().unwrap_or_default()),
                    Ok(None) => return true,
                    Err(_) => return false,
                }
            }
        });
        while let Ok(Some(receiver)) = self.mailbox.next_receiver() {
            self.greeted += 1;
            self.receivers.push(receiver);
        }
    }

    /// Drops its channels, as a death does. Its replacement has the same mailbox.
    fn die(&mut self) {
        self.receivers.clear();
    }
}

fn sockets(count: usize) -> (Vec<UnixStream>, Vec<UnixStream>) {
    let pair = |_| {
        let (client, server) = UnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        (client, server)
    };
    (0..count).map(pair).unzip()
}

fn descriptors(streams: Vec<UnixStream>) -> Vec<Scarce> {
    let streams = streams.into_iter();
    streams.map(|stream| Scarce(stream.into())).collect()
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_store_waits_for_a_successor_whose_turns_are_long() {
    const TURN: Duration = Duration::from_millis(2100);
    let (mailbox, mut taker) = Taker::new();
    let (_clients, servers) = sockets(300);
    let start = Instant::now();
    let mut store = HandingOn::new(descriptors(servers), VERSION, b"", start);
    let (mut due, mut takes_at) = (store.turn(mailbox.as_fd(), start), start + TURN);
    while let Some(at) = due {
        let now = at.min(takes_at);
        if takes_at <= at {
            taker.turn();
            takes_at += TURN;
        }
        due = store.turn(mailbox.as_fd(), now);
    }
    assert_eq!((store.end().0, taker.taken.len()), (300, 300));
}

#[test]
fn a_store_ends_if_the_kernel_never_has_room() {
    let (mailbox, mut taker) = Taker::new();
    let (_clients, servers) = sockets(3);
    let start = Instant::now();
    let mut store = HandingOn::new(descriptors(servers), VERSION, b"", start);
    let mut due = store.turn(mailbox.as_fd(), start);
    taker.turn();
    set_full(true);
    while let Some(at) = due {
        assert!(at < start + 60_000 * MS);
        due = store.turn(mailbox.as_fd(), at.max(start + MS));
    }
    assert_eq!(store.end().0, 0);
}

#[test]
fn a_store_whose_channels_end_at_once_opens_few() {
    let (mailbox, mut taker) = Taker::new();
    let (_clients, servers) = sockets(3);
    let start = Instant::now();
    let mut store = HandingOn::new(descriptors(servers), VERSION, b"", start);
    let (mut now, mut turns) = (start, 0);
    while now < start + 1000 * MS {
        let due = store.turn(mailbox.as_fd(), now).unwrap();
        taker.turn();
        taker.die();
        turns += 1;
        assert!(turns < 300, "at {:?}", now - start);
        // The descriptor is readable at once.
        now = if store.descriptor().is_some() {
            now
        } else {
            due.max(now)
        };
    }
    assert!(taker.greeted < 100, "{}", taker.greeted);
    while store.turn(mailbox.as_fd(), now).is_some() {
        taker.turn();
        now += MS;
    }
    assert_eq!(store.end().0, 3);
}

/// The sending end of the successors' mailbox, and the reading end of the worker's own.
struct ToSuccessor(OwnedFd, RefCell<Option<Scarce>>);

impl MailboxEnds for ToSuccessor {
    type Descriptor = Scarce;

    fn own(&self) -> io::Result<Vec<Scarce>> {
        Ok(self.1.take().into_iter().collect())
    }

    fn to_successor(&self, _: Successor) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn to_slot(&self, _: usize) -> Option<BorrowedFd<'_>> {
        None
    }
}

struct Replaced {
    ev: EventLoop,
    time: ManualTimeSource,
    handover: Handover<Stream, ToSuccessor>,
    mailbox: OwnedFd,
    stop: Option<Stop>,
    successor: Option<Successor>,
    connections: Connections<(), Stream>,
    has_reported: Rc<Cell<bool>>,
    _clients: Vec<UnixStream>,
}

impl Replaced {
    /// Creates a worker with this many connections. Also returns its successor.
    fn new(count: usize) -> (Self, Taker) {
        let time = ManualTimeSource::new();
        let clock = Clock::with_source(time.clone());
        let mut ev = EventLoop::builder().clock(clock).build().unwrap();
        let (mailbox, taker) = Taker::new();
        let has_reported = Rc::new(Cell::new(false));
        let reports = Rc::clone(&has_reported);
        let report = Box::new(move |_: &dyn std::fmt::Display| reports.set(true));
        let (to_own, own) = mailbox_pair();
        let mailboxes = ToSuccessor(mailbox, RefCell::new(Some(Scarce(own))));
        let handover = Handover::new(&mut ev, VERSION, mailboxes, report).unwrap();
        let (clients, servers) = sockets(count);
        let mut connections = Connections::new();
        for server in servers {
            let stream = Stream::from(OwnedFd::from(server));
            connections.add(&mut ev, stream, ()).unwrap();
        }
        let worker = Self {
            ev,
            time,
            mailbox: to_own,
            stop: Some(Stop::Graceful),
            successor: Some(Successor::Generation),
            handover,
            connections,
            has_reported,
            _clients: clients,
        };
        (worker, taker)
    }

    /// Takes a turn, a millisecond after the last one. Returns false once no connection leaves any
    /// more.
    fn turn(&mut self) -> bool {
        self.time.advance(MS);
        let successor = || self.successor;
        let (stop, timeout) = (self.stop, Duration::from_secs(30));
        let ends = self
            .handover
            .begin_turn(&mut self.ev, stop, successor, timeout);
        if ends.is_some() {
            return false;
        }
        self.ev.handle().wake();
        assert!(self.ev.wait().unwrap());
        while let Some(step) = self.ev.next_step() {
            if self.handover.owns(&step) {
                self.handover.handle(&mut self.ev, &step);
            }
        }
        let leaves = |_, _: &mut _| {
            let (state, partner) = (Vec::new(), None);
            Some(Leaving { state, partner })
        };
        self.handover
            .hand_over(&mut self.ev, &mut self.connections, leaves);
        while let Some(arrival) = self.handover.next_arrival(&mut self.ev) {
            self.connections.insert(arrival.stream, ());
        }
        true
    }
}

#[test]
fn a_worker_waits_for_room_in_the_kernel_before_its_connections_leave() {
    let (mut worker, mut successor) = Replaced::new(3);
    set_full(true);
    assert!((0..1000).all(|_| worker.turn()));
    set_full(false);
    while worker.turn() {
        successor.turn();
    }
    assert_eq!(successor.taken.len(), 3);
    assert!(!worker.has_reported.get());
}

/// Opens a channel by which another worker gives connections to this one, and makes this one greet.
fn another(worker: &mut Replaced) -> Sender<Scarce> {
    let stop = worker.stop.take();
    let mut sender = Sender::open_to(worker.mailbox.as_fd(), VERSION).unwrap();
    assert!(worker.turn());
    assert!(matches!(sender.next_answer(), Ok(None)) && sender.is_claimed());
    worker.stop = stop;
    sender
}

fn connections(count: usize) -> (Vec<UnixStream>, Vec<Connection<Scarce>>) {
    let (clients, servers) = sockets(count);
    let connection = |descriptor| Connection {
        descriptor,
        partner: None,
        state: Vec::new(),
    };
    (
        clients,
        descriptors(servers).into_iter().map(connection).collect(),
    )
}

#[test]
fn connections_that_come_during_a_restart_wait_for_the_next_start_too() {
    for count in [3, 0] {
        let (mut worker, mut next_start) = Replaced::new(count);
        (worker.stop, worker.successor) = (Some(Stop::Fast), Some(Successor::Restart));
        let mut other = another(&mut worker);
        let (_clients, mut gift) = connections(2);
        other.send(&mut gift).unwrap();
        let turns = (0..10).take_while(|_| worker.turn()).count();
        let handed_over = worker.handover.moves().handed_over;
        assert_eq!((turns, handed_over), (2, count as u64 + 2));
        drop(worker);
        next_start.turn();
        next_start.turn();
        assert_eq!(next_start.taken.len(), count + 2);
    }
}

#[test]
fn a_worker_whose_connections_end_takes_no_others() {
    let (mut worker, _successor) = Replaced::new(3);
    worker.successor = None;
    let mut other = another(&mut worker);
    assert!(!worker.turn());
    let (_clients, mut gift) = connections(2);
    assert!(matches!(other.send(&mut gift), Err(Error::Ended)));
    assert_eq!((gift.len(), other.take_back().len()), (2, 0));
}

#[test]
fn connections_of_a_restart_are_taken_by_a_later_reader() {
    let (mut worker, mut next_start) = Replaced::new(3);
    worker.successor = Some(Successor::Restart);
    let turns = (0..10).take_while(|_| worker.turn()).count();
    assert_eq!((turns, worker.handover.moves().handed_over), (1, 3));
    drop(worker);
    next_start.turn();
    next_start.turn();
    assert_eq!(next_start.taken.len(), 3);
}

#[test]
fn a_restart_for_which_the_kernel_has_no_room_gives_up_at_once() {
    let (mut worker, next_start) = Replaced::new(3);
    worker.successor = Some(Successor::Restart);
    set_full(true);
    let turns = (0..10).take_while(|_| worker.turn()).count();
    set_full(false);
    assert!(turns < 3 && worker.has_reported.get(), "{turns}");
    assert_eq!(worker.connections.iter_mut().count(), 3);
    assert_eq!(
        (worker.handover.moves().taken_back, next_start.taken.len()),
        (3, 0)
    );
}

#[test]
fn a_worker_gives_up_if_the_kernel_has_no_room_for_seconds() {
    for greeted in [0, 1] {
        let (mut worker, mut successor) = Replaced::new(3);
        for _ in 0..greeted {
            assert!(worker.turn());
            successor.turn();
        }
        set_full(true);
        let turns = (0..10_000).take_while(|_| worker.turn()).count();
        assert!((1900..2100).contains(&turns), "{turns}");
        assert!(worker.has_reported.get());
        assert_eq!(
            (successor.greeted, worker.connections.iter_mut().count()),
            (greeted, 3)
        );
    }
}

#[test]
fn a_worker_waits_for_room_in_the_kernel_when_its_successor_has_died() {
    let (mut worker, mut successor) = Replaced::new(3);
    for _ in 0..200 {
        assert!(worker.turn());
    }
    successor.turn();
    assert!(worker.turn() && worker.turn());
    successor.die();
    set_full(true);
    assert!((0..1000).all(|_| worker.turn()));
    set_full(false);
    while worker.turn() {
        successor.turn();
    }
    assert_eq!((successor.greeted, successor.taken.len()), (2, 3));
    assert!(!worker.has_reported.get());
}

#[test]
fn a_worker_whose_channels_end_at_once_opens_few() {
    let (mut worker, mut successor) = Replaced::new(3);
    for _ in 0..1000 {
        assert!(worker.turn());
        successor.turn();
        successor.die();
    }
    assert!(successor.greeted < 100, "{}", successor.greeted);
    while worker.turn() {
        successor.turn();
    }
    assert_eq!(successor.taken.len(), 3);
}

/// A gift of this many connections with long states, from a worker with ten connections to one that
/// has greeted.
fn gift(count: usize, now: Instant) -> (EventLoop, Giving<Scarce>, Taker, Vec<Connection<Scarce>>) {
    let mut ev = EventLoop::builder().build().unwrap();
    let give = Give {
        to: WorkerId::from_slot(1),
        connections: u32::try_from(count).unwrap(),
    };
    let (mailbox, mut taker) = Taker::new();
    let mut giving = Giving::open(give, 10, mailbox.as_fd(), VERSION, now).unwrap();
    taker.turn();
    giving.read(&mut ev, &mut Vec::new(), now).1.unwrap();
    let (_, servers) = sockets(count);
    let connection = |descriptor| Connection {
        descriptor,
        partner: None,
        state: vec![0; 30_000],
    };
    let connections = descriptors(servers).into_iter().map(connection);
    (ev, giving, taker, connections.collect())
}

#[test]
fn the_rest_of_a_gift_is_sent_when_there_is_room() {
    let now = Instant::now();
    let (mut ev, mut giving, mut taker, connections) = gift(40, now);
    giving.send(&mut ev, connections, now).unwrap();
    for _ in 0..40 {
        taker.turn();
        giving.read(&mut ev, &mut Vec::new(), now).1.unwrap();
        assert!(giving.begin_turn(now));
    }
    assert_eq!((giving.under_way(), taker.taken.len()), (0, 40));
}

#[test]
fn one_plan_covers_all_maps_in_one_turn() {
    let now = Instant::now();
    let (mut ev, mut giving, _taker, mut connections) = gift(3, now);
    giving.send(&mut ev, Vec::new(), now).unwrap();
    let last = connections.split_off(2);
    assert_eq!(giving.room(10), 3);
    giving.send(&mut ev, connections, now).unwrap();
    assert_eq!(giving.room(8), 1);
    giving.send(&mut ev, last, now).unwrap();
    assert_eq!(giving.room(7), 0);

    let (_ev, mut giving, _taker, _) = gift(3, now);
    assert!(giving.begin_turn(now));
    assert_eq!(giving.room(10), 0);
}

#[test]
fn a_gift_is_smaller_if_connections_have_ended_since_it_was_planned() {
    let (_ev, mut giving, _taker, _) = gift(3, Instant::now());
    assert_eq!(
        [10, 11, 8, 7, 1].map(|active| giving.room(active)),
        [3, 3, 1, 0, 0]
    );
    giving.forget_plan();
    assert_eq!(giving.room(10), 0);
}

#[test]
fn a_gift_ends_at_once_if_the_kernel_has_no_room() {
    let now = Instant::now();
    let (mut ev, mut giving, _taker, connections) = gift(3, now);
    set_full(true);
    assert!(giving.send(&mut ev, connections, now).is_err());
    assert_eq!(giving.close(&mut ev).1.len(), 3);
}
