//! The turns (iterations of the event loop) of one process in a recording.

use std::collections::BTreeSet;

use super::{
    event::{Detail, Event, Subject},
    recording::{Entry, Recording},
    situation::{Holder, Situation},
};
use crate::{kernel_poller::Object, net::EndpointId};

/// A turn of a process, and the events of its connections until its next turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    pub(crate) lines: Vec<(u64, String)>,
    /// The indices of the connections that occur in the turn.
    pub(crate) connections: BTreeSet<u32>,
}

/// The turns of a process, the oldest first.
pub(crate) fn turns_of(recording: &Recording, process: u32) -> Vec<Turn> {
    let mut situation = Situation::before(recording);
    let mut turns = vec![Turn::default()];
    for (now_ns, entry) in recording.entries_of_run() {
        situation.apply(*now_ns, *entry);
        let about = situation.about(*entry);
        if about.process != Some(process) {
            continue;
        }
        if matches!(entry, Entry::Event(Event::WaitEnded { .. })) {
            turns.push(Turn::default());
        }
        let turn = turns.last_mut().expect("there is one");
        let text = situation.describe(*entry);
        turn.lines.extend(text.map(|text| (*now_ns, text)));
        turn.connections
            .extend(about.connection.map(EndpointId::connection));
    }
    turns
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) process: Option<u32>,
    pub(crate) client: Option<u32>,
    /// One end of the connection: the end that acts, or at which bytes arrive.
    pub(crate) connection: Option<EndpointId>,
}

impl Situation<'_> {
    /// The subjects of the entry that was applied last.
    pub(crate) fn about(&self, entry: Entry) -> About {
        match entry {
            Entry::Event(event) => self.about_event(event),
            Entry::Detail(detail) => self.about_detail(detail),
            Entry::Text(by, _) => About {
                client: by.map(|slot| self.client_number(slot)),
                ..About::default()
            },
        }
    }

    fn about_event(&self, event: Event) -> About {
        match event {
            Event::Sent { from: id, .. }
            | Event::Received { at: id, .. }
            | Event::ShutDownWrite(id)
            | Event::Closed(id)
            | Event::ResetBy(id)
            | Event::Arrived { at: id, .. }
            | Event::FaultOccurred(_, Subject::End(id)) => self.about_end(id),
            Event::ConnectArrived { server: id, .. } | Event::ConnectFailed { server: id, .. } => {
                self.about_end(id.other())
            }
            Event::Accepted { process, server } => About {
                process: Some(process),
                ..self.about_end(server)
            },
            Event::Reported {
                process, object, ..
            } => self.about_object(process, object),
            Event::Listened { process, .. }
            | Event::WaitEnded { process, .. }
            | Event::FaultOccurred(_, Subject::Process(process))
            | Event::StepEnded { process }
            | Event::LockTried { process, .. }
            | Event::Unlocked { process }
            | Event::ProcessBegan(process)
            | Event::Killed(process)
            | Event::Reaped(process)
            | Event::Joined { process, .. }
            | Event::Leads { process, .. }
            | Event::SteppedDown { process, .. }
            | Event::Rests { process, .. }
            | Event::Exited(process)
            | Event::JobEnded { process, .. }
            | Event::SentDatagram { process, .. }
            | Event::ReceivedDatagram { process, .. }
            | Event::SentMessage { process, .. }
            | Event::ReceivedMessage { process, .. } => About::of_process(process),
            Event::ClientAdded(slot) => self.about_client(slot),
            Event::Noted(_)
            | Event::Notified { .. }
            | Event::FaultOccurred(_, Subject::Machine | Subject::Udp(_)) => About::default(),
        }
    }

    fn about_detail(&self, detail: Detail) -> About {
        match detail {
            Detail::Watched {
                process, object, ..
            }
            | Detail::Rewatched {
                process, object, ..
            }
            | Detail::Unwatched { process, object } => self.about_object(process, object),
            Detail::IsWorker { process, .. }
            | Detail::StepBegan { process, .. }
            | Detail::Sleeps { process, .. }
            | Detail::Paused { process, .. } => About::of_process(process),
            Detail::WouldBlock { end, .. } | Detail::Held { end, .. } => self.about_end(end),
            Detail::Departed { to, .. } => self.about_end(to.other()),
            Detail::Called { client, .. }
            | Detail::Waits { client, .. }
            | Detail::Ended { client, .. }
            | Detail::Left { client } => self.about_client(client),
            Detail::Opened { .. } | Detail::Bound { .. } => About::default(),
        }
    }

    fn about_end(&self, id: EndpointId) -> About {
        let holder = self.end(id).map_or(Holder::None, |end| end.holder);
        let (process, client) = match holder {
            Holder::Process(process) => (Some(process), None),
            Holder::Client(number) => (None, Some(number)),
            Holder::None | Holder::Backlog => (None, None),
        };
        About {
            process,
            client,
            connection: Some(id),
        }
    }

    fn about_object(&self, process: u32, object: Object) -> About {
        let connection = match object {
            Object::Endpoint(id) => Some(id),
            _ => None,
        };
        About {
            connection,
            ..About::of_process(process)
        }
    }

    fn about_client(&self, slot: u32) -> About {
        About {
            client: Some(self.client_number(slot)),
            ..About::default()
        }
    }
}

impl About {
    fn of_process(process: u32) -> Self {
        Self {
            process: Some(process),
            ..Self::default()
        }
    }
}
