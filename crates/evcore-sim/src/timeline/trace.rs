//! Draws the recorded trace of a simulation.

use std::collections::{BTreeMap, VecDeque};

use super::{Group, Kind, Span, SpanKind, Timeline};
use crate::{
    net::{EndpointId, Owner},
    trace::{Activity, Detail, Entry, Event, Recording, Situation, seconds},
};

/// Maximum number of entries that a page shows, so that a browser stays quick. Earlier entries are
/// left out.
const ENTRIES: usize = 30_000;

impl Timeline {
    /// Draws a recording of a run that went on until `end_ns`.
    pub(crate) fn of_recording(title: &str, recording: &Recording, end_ns: u64) -> Self {
        let entries = recording.entries_of_run();
        let (before, shown) = entries.split_at(entries.len().saturating_sub(ENTRIES));
        let mut drawing = Drawing::new(title, recording);
        for (now_ns, entry) in before {
            drawing.situation.apply(*now_ns, *entry);
        }
        for (now_ns, entry) in shown {
            drawing.follow(*now_ns, *entry);
        }
        drawing.end(end_ns);
        drawing.timeline
    }
}

struct Drawing<'a> {
    timeline: Timeline,
    situation: Situation<'a>,
    /// The moments at which the segments in flight to each endpoint were sent.
    under_way: BTreeMap<EndpointId, VecDeque<usize>>,
    /// The moment at which each connection was requested, or arrived in the backlog.
    requests: BTreeMap<u32, usize>,
    /// The lane and the first moment of each unfinished bar.
    open: BTreeMap<Open, (usize, usize)>,
    /// The row of each connection that is open now, and of each process.
    connection_rows: BTreeMap<u32, usize>,
    process_rows: BTreeMap<u32, usize>,
    /// The connection of each client, by the client's number.
    connections: BTreeMap<u32, EndpointId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Open {
    Turn(u32),
    Paused(u32),
    Dead(u32),
    Connection(EndpointId),
}

impl<'a> Drawing<'a> {
    fn new(title: &str, recording: &'a Recording) -> Self {
        Self {
            timeline: Timeline::new(title),
            situation: Situation::before(recording),
            under_way: BTreeMap::new(),
            requests: BTreeMap::new(),
            open: BTreeMap::new(),
            connection_rows: BTreeMap::new(),
            process_rows: BTreeMap::new(),
            connections: BTreeMap::new(),
        }
    }

    fn follow(&mut self, now_ns: u64, entry: Entry) {
        self.situation.apply(now_ns, entry);
        if let Some(text) = self.situation.describe(entry) {
            let lane = self.lane_of(entry);
            self.timeline.add(now_ns, lane, kind_of(entry), &text);
        }
        match entry {
            Entry::Event(event) => self.on_event(event),
            Entry::Detail(detail) => self.on_detail(detail),
            Entry::Text(..) => {}
        }
        self.update_rows(entry);
    }

    /// Adds the last moment, which ends all unfinished bars.
    fn end(&mut self, now_ns: u64) {
        let lane = self.timeline.lane(Group::Machine, "the machine");
        let text = format!("the run ends at {} s", seconds(now_ns));
        self.timeline.add(now_ns, lane, Kind::Note, &text);
        for (open, (lane, first)) in std::mem::take(&mut self.open) {
            self.add_span(open, lane, first);
        }
        self.timeline.sort_lanes();
    }

    fn lane_of(&mut self, entry: Entry) -> usize {
        let about = self.situation.about(entry);
        let (group, name) = match (entry, about.process, about.client) {
            (Entry::Event(Event::ConnectArrived { .. }), ..) => {
                (Group::Backlog, "the backlog".to_owned())
            }
            (_, Some(process), _) => (Group::Process, self.situation.process_name(process)),
            (_, _, Some(number)) => (Group::Client, format!("client {number}")),
            _ => (Group::Machine, "the machine".to_owned()),
        };
        self.timeline.lane(group, &name)
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::ConnectArrived { server, .. } => {
                self.arrow_from_request(server.connection());
                let last = self.timeline.last().expect("it has a moment");
                self.requests.insert(server.connection(), last);
            }
            Event::Accepted { server, .. } => self.arrow_from_request(server.connection()),
            Event::Arrived { at, .. } => {
                let began = self.under_way.get_mut(&at).and_then(VecDeque::pop_front);
                self.arrow_from(began);
            }
            Event::WaitEnded { process, .. } => {
                self.finish(Open::Turn(process));
                self.begin(Open::Turn(process));
            }
            Event::Killed(process) => {
                self.finish(Open::Turn(process));
                self.finish(Open::Paused(process));
                self.begin(Open::Dead(process));
            }
            Event::Reaped(process) => self.finish(Open::Dead(process)),
            Event::Exited(process) => self.finish(Open::Turn(process)),
            Event::Closed(id) | Event::ResetBy(id) => self.finish(Open::Connection(id)),
            Event::ConnectFailed { server, .. } => self.finish(Open::Connection(server.other())),
            _ => {}
        }
    }

    fn on_detail(&mut self, detail: Detail) {
        match detail {
            Detail::Opened { connection, .. } => {
                self.connection_rows.remove(&connection);
                for id in [
                    EndpointId::client(connection),
                    EndpointId::server(connection),
                ] {
                    self.under_way.remove(&id);
                    self.open.remove(&Open::Connection(id));
                }
                if let Some(last) = self.timeline.last() {
                    self.requests.insert(connection, last);
                }
            }
            Detail::Held {
                end,
                by: Owner::Client(slot),
            } => {
                self.connections
                    .insert(self.situation.client_number(slot), end);
                self.begin(Open::Connection(end));
            }
            Detail::Departed { to, .. } => {
                if let Some(last) = self.timeline.last() {
                    self.under_way.entry(to).or_default().push_back(last);
                }
            }
            Detail::Sleeps { process, .. } => self.finish(Open::Turn(process)),
            Detail::Paused { process, .. } => self.begin(Open::Paused(process)),
            Detail::StepBegan { process, .. } => self.finish(Open::Paused(process)),
            _ => {}
        }
    }

    fn arrow_from_request(&mut self, connection: u32) {
        let began = self.requests.remove(&connection);
        self.arrow_from(began);
    }

    /// Draws an arrow to the last moment, unless it would stay on its lane.
    fn arrow_from(&mut self, began: Option<usize>) {
        let (Some(from), Some(to)) = (began, self.timeline.last()) else {
            return;
        };
        let moments = &self.timeline.moments;
        if moments[from].lane != moments[to].lane {
            self.timeline.arrows.push([from, to]);
        }
    }

    /// Begins a bar on the lane of the last moment.
    fn begin(&mut self, open: Open) {
        if let Some(last) = self.timeline.last() {
            let lane = self.timeline.moments[last].lane;
            self.open.entry(open).or_insert((lane, last));
        }
    }

    fn finish(&mut self, open: Open) {
        if let Some((lane, first)) = self.open.remove(&open) {
            self.add_span(open, lane, first);
        }
    }

    fn add_span(&mut self, open: Open, lane: usize, first: usize) {
        let last = self.timeline.last().expect("it had a first");
        self.timeline.spans.push(Span {
            lane,
            ends: [first, last],
            kind: match open {
                Open::Turn(_) => SpanKind::Turn,
                Open::Paused(_) => SpanKind::Paused,
                Open::Dead(_) => SpanKind::Dead,
                Open::Connection(_) => SpanKind::Open,
            },
        });
    }

    fn update_rows(&mut self, entry: Entry) {
        let about = self.situation.about(entry);
        let of_client = about
            .client
            .and_then(|number| self.connections.get(&number));
        if let Some(id) = about.connection.or(of_client.copied()) {
            self.update_connection(id);
        }
        if let Some(process) = about.process {
            self.update_process(process);
        }
    }

    fn update_connection(&mut self, id: EndpointId) {
        let connection = id.connection();
        let client = EndpointId::client(connection);
        if !self.situation.has_opener(client) {
            return;
        }
        let timeline = &mut self.timeline;
        let row = *self
            .connection_rows
            .entry(connection)
            .or_insert_with(|| timeline.add_row(&self.situation.connection_name(client)));
        let states = [client, client.other()].map(|end| {
            let (holder, state) = (self.situation.name_at(end), self.situation.end_state(end));
            match state.as_str() {
                "" => String::new(),
                _ => format!("{holder}: {state}"),
            }
        });
        let is_over = |id| self.situation.end(id).is_none_or(|end| end.is_closed);
        if is_over(client) && is_over(client.other()) {
            return self.timeline.set(row, "");
        }
        let states: Vec<_> = states
            .into_iter()
            .filter(|state| !state.is_empty())
            .collect();
        self.timeline.set(row, &states.join("\n"));
    }

    fn update_process(&mut self, process: u32) {
        let timeline = &mut self.timeline;
        let row = *self
            .process_rows
            .entry(process)
            .or_insert_with(|| timeline.add_row(&self.situation.process_name(process)));
        let activity = self
            .situation
            .process(process)
            .map(|process| process.activity);
        let is_over = matches!(activity, Some(Activity::Dead | Activity::Exited));
        let state = if is_over && !self.open.contains_key(&Open::Dead(process)) {
            String::new()
        } else {
            self.situation.process_state(process)
        };
        self.timeline.set(row, &state);
    }
}

fn kind_of(entry: Entry) -> Kind {
    match entry {
        Entry::Event(event) => match event {
            Event::FaultOccurred(..) | Event::Killed(_) => Kind::Fault,
            Event::WaitEnded { .. } | Event::Reported { .. } => Kind::Report,
            Event::ConnectArrived { .. }
            | Event::Accepted { .. }
            | Event::ConnectFailed { .. }
            | Event::Sent { .. }
            | Event::Received { .. }
            | Event::ShutDownWrite(_)
            | Event::Closed(_)
            | Event::ResetBy(_)
            | Event::Arrived { .. }
            | Event::SentDatagram { .. }
            | Event::ReceivedDatagram { .. }
            | Event::SentMessage { .. }
            | Event::ReceivedMessage { .. } => Kind::Move,
            _ => Kind::Other,
        },
        Entry::Detail(Detail::StepBegan { .. } | Detail::Called { .. }) => Kind::Step,
        Entry::Detail(Detail::WouldBlock { .. }) => Kind::Move,
        Entry::Detail(_) => Kind::Other,
        Entry::Text(..) => Kind::Note,
    }
}
