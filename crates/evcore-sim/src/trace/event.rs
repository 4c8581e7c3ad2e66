//! The typed entries of a trace.

use evcore::{Interest, Mode, Ready, Timer, Token};

use crate::{
    client_event::ClientEvent,
    client_outcome::ClientOutcome,
    event_queue::{ConnectFailure, Segment},
    faults::Fault,
    kernel_poller::Object,
    net::{ChannelId, EndpointId, ListenerId, Owner, UdpId},
};

/// An event of a run. The hash of the trace covers it.
///
/// The fields that [`words`](Self::words) leaves out are for people, and not part of the hash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Event {
    Listened {
        process: u32,
        listener: ListenerId,
    },
    ConnectArrived {
        server: EndpointId,
        attempt: u8,
    },
    Accepted {
        process: u32,
        server: EndpointId,
    },
    ConnectFailed {
        server: EndpointId,
        failure: ConnectFailure,
    },
    Sent {
        from: EndpointId,
        count: usize,
        /// Number of bytes that the caller offered.
        of: usize,
    },
    Received {
        at: EndpointId,
        count: usize,
    },
    ShutDownWrite(EndpointId),
    Closed(EndpointId),
    ResetBy(EndpointId),
    Arrived {
        at: EndpointId,
        segment: Segment,
    },
    WaitEnded {
        poller: u32,
        process: u32,
        events: usize,
    },
    Reported {
        process: u32,
        key: u64,
        object: Object,
        ready: Ready,
    },
    FaultOccurred(Fault, Subject),
    /// The program has handled a step.
    StepEnded {
        process: u32,
    },
    LockTried {
        process: u32,
        taken: bool,
    },
    Unlocked {
        process: u32,
    },
    ProcessBegan(u32),
    Killed(u32),
    Reaped(u32),
    ClientAdded(u32),
    /// A text of a client, or of the test itself, follows.
    Noted(Option<u32>),
    Joined {
        process: u32,
        slot: usize,
    },
    Leads {
        process: u32,
        slot: usize,
    },
    SteppedDown {
        process: u32,
        slot: usize,
    },
    /// A worker begins or ends its rest, in which it sleeps without a limit, because no client has
    /// come to its group for some time.
    Rests {
        process: u32,
        rests: bool,
    },
    Notified {
        group: u32,
        slot: usize,
    },
    Exited(u32),
    JobEnded {
        process: u32,
        pool: u32,
    },
    SentDatagram {
        process: u32,
        from: UdpId,
        count: usize,
    },
    ReceivedDatagram {
        process: u32,
        at: UdpId,
        count: usize,
    },
    SentMessage {
        process: u32,
        from: ChannelId,
        objects: usize,
    },
    ReceivedMessage {
        process: u32,
        at: ChannelId,
        objects: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Machine,
    End(EndpointId),
    Process(u32),
    Udp(UdpId),
}

impl Subject {
    /// The connection or the UDP socket of the object, or else the process that watches the object.
    pub(crate) fn of(object: Option<Object>, process: u32) -> Self {
        match object {
            Some(Object::Endpoint(id)) => Self::End(id),
            Some(Object::Udp(id)) => Self::Udp(id),
            _ => Self::Process(process),
        }
    }
}

impl Event {
    /// The two words that the hash covers. The first has the number of the kind in its highest
    /// byte, combined with the subject of the event. The second is an amount. A new kind gets the
    /// next number.
    #[inline]
    pub(crate) fn words(self) -> [u64; 2] {
        let (kind, subject, amount) = match self {
            Self::Listened { process, listener } => (0, process.into(), listener.0.into()),
            Self::ConnectArrived { server, attempt } => (1, server.number(), attempt.into()),
            Self::Accepted { process, server } => (2, process.into(), server.number()),
            Self::ConnectFailed { server, failure } => (3, server.number(), failure as u64),
            Self::Sent { from, count, .. } => (4, from.number(), count as u64),
            Self::Received { at, count } => (5, at.number(), count as u64),
            Self::ShutDownWrite(from) => (6, from.number(), 0),
            Self::Closed(id) => (7, id.number(), 0),
            Self::ResetBy(id) => (8, id.number(), 0),
            Self::Arrived { at, segment } => (9, at.number(), segment_number(segment)),
            Self::WaitEnded { poller, events, .. } => (10, poller.into(), events as u64),
            Self::Reported { key, ready, .. } => (11, key, ready_number(ready)),
            Self::FaultOccurred(fault, _) => (12, fault as u64, 0),
            Self::StepEnded { process } => (13, process.into(), 0),
            Self::LockTried { process, taken } => (14, process.into(), taken.into()),
            Self::Unlocked { process } => (15, process.into(), 0),
            Self::ProcessBegan(process) => (16, process.into(), 0),
            Self::Killed(process) => (17, process.into(), 0),
            Self::Reaped(process) => (18, process.into(), 0),
            Self::ClientAdded(client) => (19, client.into(), 0),
            Self::Noted(None) => (19, u64::MAX, 0),
            Self::Noted(Some(client)) => (19, client.into(), 1),
            Self::Joined { process, slot } => (20, process.into(), slot as u64),
            Self::Leads { process, slot } => (21, process.into(), slot as u64),
            Self::SteppedDown { process, slot } => (22, process.into(), slot as u64),
            Self::Notified { group, slot } => (23, group.into(), slot as u64),
            Self::Exited(process) => (24, process.into(), 0),
            Self::JobEnded { process, pool } => (25, process.into(), pool.into()),
            Self::SentDatagram { from, count, .. } => (26, from.0.into(), count as u64),
            Self::ReceivedDatagram { at, count, .. } => (27, at.0.into(), count as u64),
            Self::SentMessage { from, objects, .. } => (29, from.0.into(), objects as u64),
            Self::ReceivedMessage { at, objects, .. } => (30, at.0.into(), objects as u64),
            Self::Rests { process, rests } => (28, process.into(), rests.into()),
        };
        [(kind << 56) ^ subject, amount]
    }
}

fn segment_number(segment: Segment) -> u64 {
    match segment {
        Segment::Data(count) => u64::from(count) << 8,
        Segment::Fin => 1,
        Segment::Reset => 2,
        Segment::HangUp(had_unread) => 3 + u64::from(had_unread),
        Segment::WindowUpdate => 5,
        Segment::Connected => 6,
    }
}

fn ready_number(ready: Ready) -> u64 {
    [
        ready.is_readable(),
        ready.is_writable(),
        ready.is_priority(),
        ready.is_read_closed(),
        ready.is_write_closed(),
        ready.is_error(),
    ]
    .into_iter()
    .fold(0, |number, bit| 2 * number + u64::from(bit))
}

/// A fact that people want to read. It is kept if the trace is recorded, and is not part of the
/// hash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Detail {
    /// A connection exists from now on, under an index that an earlier one may have had. The
    /// recording has the connection's addresses, at the index `route`.
    Opened {
        connection: u32,
        route: u32,
        capacity: usize,
    },
    Held {
        end: EndpointId,
        by: Owner,
    },
    /// A listener has an address, which is in the recording at this index.
    Bound {
        listener: ListenerId,
        address: u32,
    },
    /// A process is this worker of [`Workers`](crate::Workers).
    IsWorker {
        process: u32,
        index: usize,
    },
    Watched {
        process: u32,
        key: u64,
        object: Object,
        interest: Interest,
        mode: Mode,
    },
    Rewatched {
        process: u32,
        object: Object,
        interest: Interest,
    },
    Unwatched {
        process: u32,
        object: Object,
    },
    /// The program gets a step.
    StepBegan {
        process: u32,
        step: StepName,
    },
    Sleeps {
        process: u32,
        until_ns: u64,
    },
    Paused {
        process: u32,
        until_ns: u64,
    },
    WouldBlock {
        end: EndpointId,
        sends: bool,
        of: usize,
    },
    Departed {
        to: EndpointId,
        segment: Segment,
    },
    Called {
        client: u32,
        event: ClientEvent,
    },
    Waits {
        client: u32,
        wait: ClientWait,
    },
    /// A client with a script has ended.
    Ended {
        client: u32,
        outcome: ClientOutcome,
    },
    Left {
        client: u32,
    },
}

/// The condition that a client with a script waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientWait {
    Pause,
    /// Number of bytes that are not sent yet.
    Room(usize),
    /// Number of bytes that have not come yet.
    Bytes(usize),
    /// The length of a text, and the number of received bytes that may be a part of it.
    Text(usize, usize),
    End,
}

/// The name of a step, without the program's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepName {
    Accepted(EndpointId),
    Ready(Token, Ready),
    Expired(Token, Timer),
    Woken,
    ShuttingDown,
    Evict(Token),
}
