//! A recording as text: a line for each entry that means something to people.

use super::{
    event::{Detail, Event, StepName, Subject},
    recording::{Entry, Recording},
    situation::Situation,
    words::{bytes, grouped, key_name, names, seconds},
};
use crate::{
    event_queue::Segment,
    kernel_poller::Object,
    net::{ChannelId, EndpointId, UdpId},
};

/// The lines of a recording, each with its time in seconds.
pub(crate) fn lines(recording: &Recording) -> Vec<String> {
    let mut situation = Situation::before(recording);
    let mut lines = Vec::new();
    for (now_ns, entry) in recording.entries() {
        situation.apply(*now_ns, *entry);
        let text = situation.describe(*entry);
        lines.extend(text.map(|text| with_time(*now_ns, &text)));
    }
    lines
}

pub(crate) fn with_time(now_ns: u64, text: &str) -> String {
    let (seconds, ns) = (now_ns / 1_000_000_000, now_ns % 1_000_000_000);
    format!("{seconds:>6}.{ns:09} {text}")
}

impl Situation<'_> {
    /// Describes the entry that was applied last. Returns `None` for an entry that needs no line.
    pub(crate) fn describe(&self, entry: Entry) -> Option<String> {
        match entry {
            Entry::Event(event) => self.describe_event(event),
            Entry::Detail(detail) => self.describe_detail(detail),
            Entry::Text(by, index) => {
                let by = by.map_or_else(
                    || "the test".to_owned(),
                    |slot| format!("client {}", self.client_number(slot)),
                );
                Some(format!("{by} notes: {}", self.recording().text(index)))
            }
        }
    }

    fn describe_event(&self, event: Event) -> Option<String> {
        let of = |id| self.connection_name(id);
        let process = |process| self.process_name(process);
        Some(match event {
            Event::Listened {
                process: by,
                listener,
            } => format!(
                "{} listens at {}",
                process(by),
                self.listener_name(listener)
            ),
            Event::ConnectArrived { server, attempt: 1 } => {
                format!("the connection request arrives: {}", of(server))
            }
            Event::ConnectArrived { server, attempt } => {
                format!("connection request {attempt} arrives: {}", of(server))
            }
            Event::Accepted {
                process: by,
                server,
            } => format!("{} accepts: {}", process(by), of(server)),
            Event::ConnectFailed { server, failure } => {
                format!("connecting fails ({failure:?}): {}", of(server))
            }
            Event::Sent {
                from,
                count,
                of: all,
            } if count < all => {
                let name = self.name_at(from);
                let (sent, all) = (grouped(count), bytes(all));
                format!("{name} sends {sent} of {all}: {}", of(from))
            }
            Event::Sent { from, count, .. } => {
                format!(
                    "{} sends {}: {}",
                    self.name_at(from),
                    bytes(count),
                    of(from)
                )
            }
            Event::Received { at, count } => {
                format!("{} receives {}: {}", self.name_at(at), bytes(count), of(at))
            }
            Event::ShutDownWrite(id) => {
                format!("{} ends its stream: {}", self.name_at(id), of(id))
            }
            Event::Closed(id) => format!("{} closes: {}", self.name_at(id), of(id)),
            Event::ResetBy(id) => format!("{} resets: {}", self.name_at(id), of(id)),
            Event::Arrived { at, segment } => self.describe_arrival(at, segment),
            Event::WaitEnded {
                process: by,
                events,
                ..
            } => {
                let turn = self.process(by).map_or(0, |process| process.turns);
                let plural = if events == 1 { "" } else { "s" };
                format!(
                    "{} begins turn {turn} with {events} event{plural}",
                    process(by)
                )
            }
            Event::Reported {
                process: by,
                key,
                object,
                ready,
            } => format!(
                "{} gets the report that {} is {}: {}",
                process(by),
                key_name(key),
                names(ready),
                self.object_name(object)
            ),
            Event::FaultOccurred(fault, Subject::Machine) => format!("fault {fault:?}"),
            Event::FaultOccurred(fault, subject) => {
                format!("fault {fault:?} at {}", self.subject_name(subject))
            }
            // These entries need no line, because the beginning of the step and the text of the
            // note have one.
            Event::StepEnded { .. } | Event::Noted(_) => return None,
            Event::LockTried {
                process: by,
                taken: true,
            } => format!("{} takes the accept lock", process(by)),
            Event::LockTried { process: by, .. } => {
                format!("{} finds the accept lock taken", process(by))
            }
            Event::Unlocked { process: by } => format!("{} releases the accept lock", process(by)),
            Event::ProcessBegan(index) => format!("{} begins", process(index)),
            Event::Killed(index) => format!("{} is killed", process(index)),
            Event::Reaped(index) => format!("the parent notices the death of {}", process(index)),
            Event::ClientAdded(slot) => format!("client {} is added", self.client_number(slot)),
            Event::Joined { process: by, slot } => {
                format!("{} joins the group in slot {slot}", process(by))
            }
            Event::Leads { process: by, .. } => format!("{} is leader", process(by)),
            Event::SteppedDown { process: by, .. } => {
                format!("{} is no longer leader", process(by))
            }
            Event::Rests {
                process: by,
                rests: true,
            } => format!("{} rests", process(by)),
            Event::Rests { process: by, .. } => format!("{} no longer rests", process(by)),
            Event::Notified { slot, .. } => format!("the worker in slot {slot} is notified"),
            Event::Exited(index) => format!("{} exits", process(index)),
            Event::JobEnded { process: by, .. } => format!("a job of {} ends", process(by)),
            Event::SentDatagram {
                process: by,
                from,
                count,
            } => format!(
                "{} sends a datagram of {} by {}",
                process(by),
                bytes(count),
                udp(from)
            ),
            Event::ReceivedDatagram {
                process: by,
                at,
                count,
            } => format!(
                "{} receives a datagram of {} at {}",
                process(by),
                bytes(count),
                udp(at)
            ),
            Event::SentMessage {
                process: by,
                from,
                objects,
            } => format!(
                "{} sends {objects} descriptors by {}",
                process(by),
                channel(from)
            ),
            Event::ReceivedMessage {
                process: by,
                at,
                objects,
            } => format!(
                "{} receives {objects} descriptors at {}",
                process(by),
                channel(at)
            ),
        })
    }

    fn describe_arrival(&self, at: EndpointId, segment: Segment) -> String {
        let (name, connection) = (self.name_at(at), self.connection_name(at));
        let what = match segment {
            Segment::Data(1) => "1 byte arrives".to_owned(),
            Segment::Data(count) => format!("{} arrive", bytes(count as usize)),
            Segment::Fin => "the end of the stream arrives".to_owned(),
            Segment::Reset => "a reset arrives".to_owned(),
            Segment::HangUp(_) => "the close of the peer arrives".to_owned(),
            Segment::WindowUpdate => "room to send arrives".to_owned(),
            Segment::Connected => "the answer to the connection request arrives".to_owned(),
        };
        format!("{what} at {name}: {connection}")
    }

    fn describe_detail(&self, detail: Detail) -> Option<String> {
        let process = |process| self.process_name(process);
        Some(match detail {
            Detail::Watched {
                process: by,
                key,
                object,
                interest,
                mode,
            } => format!(
                "{} registers {} for {}, {mode:?}: {}",
                process(by),
                key_name(key),
                names(interest),
                self.object_name(object)
            ),
            Detail::Rewatched {
                process: by,
                object,
                interest,
            } => format!(
                "{} changes a registration to {}: {}",
                process(by),
                names(interest),
                self.object_name(object)
            ),
            Detail::Unwatched {
                process: by,
                object,
            } => format!(
                "{} removes a registration: {}",
                process(by),
                self.object_name(object)
            ),
            Detail::StepBegan { process: by, step } => {
                format!("{} takes {}", process(by), self.step_name(step))
            }
            Detail::Sleeps {
                process: by,
                until_ns: u64::MAX,
            } => format!("{} waits", process(by)),
            Detail::Sleeps {
                process: by,
                until_ns,
            } => format!(
                "{} waits until {} s at most",
                process(by),
                seconds(until_ns)
            ),
            Detail::Paused {
                process: by,
                until_ns,
            } => format!("{} is paused until {} s", process(by), seconds(until_ns)),
            Detail::WouldBlock {
                end,
                sends: true,
                of,
            } => format!(
                "{} cannot send {}: {}",
                self.name_at(end),
                bytes(of),
                self.connection_name(end)
            ),
            Detail::WouldBlock { end, .. } => {
                format!(
                    "{} finds nothing to receive: {}",
                    self.name_at(end),
                    self.connection_name(end)
                )
            }
            Detail::Called { client, event } => {
                let number = self.client_number(client);
                format!("client {number} gets {event:?}")
            }
            Detail::Waits { client, wait } => {
                format!("client {} {wait}", self.client_number(client))
            }
            Detail::Ended { client, outcome } => {
                format!("client {} ends: {outcome:?}", self.client_number(client))
            }
            Detail::Left { client } => format!("client {} leaves", self.client_number(client)),
            Detail::Opened { .. }
            | Detail::Held { .. }
            | Detail::Bound { .. }
            | Detail::IsWorker { .. }
            | Detail::Departed { .. } => return None,
        })
    }

    fn step_name(&self, step: StepName) -> String {
        match step {
            StepName::Accepted(id) => format!("Accepted: {}", self.connection_name(id)),
            StepName::Ready(token, ready) => format!("Ready({token}, {})", names(ready)),
            StepName::Expired(token, timer) => format!("Expired({token}, {timer:?})"),
            StepName::Woken => "Woken".to_owned(),
            StepName::ShuttingDown => "ShuttingDown".to_owned(),
            StepName::Evict(token) => format!("Evict({token})"),
        }
    }

    fn object_name(&self, object: Object) -> String {
        match object {
            Object::Endpoint(id) => self.connection_name(id),
            Object::Listener(id) => format!("the listener {}", self.listener_name(id)),
            Object::Notifier(id) => format!("the notifier of slot {}", id.slot),
            Object::Udp(id) => udp(id),
            Object::Channel(id) => channel(id),
            Object::Counter(id) => format!("counter {}", id.0),
        }
    }

    pub(crate) fn subject_name(&self, subject: Subject) -> String {
        match subject {
            Subject::Machine => "the machine".to_owned(),
            Subject::End(id) => format!("{}: {}", self.name_at(id), self.connection_name(id)),
            Subject::Process(process) => self.process_name(process),
            Subject::Udp(id) => udp(id),
        }
    }
}

fn channel(id: ChannelId) -> String {
    format!("end {} of channel {}", id.0 % 2, id.0 / 2)
}

fn udp(id: UdpId) -> String {
    format!("UDP socket {}", id.0)
}
