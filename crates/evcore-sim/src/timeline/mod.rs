//! The events of a run over time, as data for a picture.
//!
//! A moment is one event. Spans (the bars of the picture) and arrows refer to moments, so the
//! picture can show the moments at almost equal distances. In a picture to scale, a microsecond
//! with all events would be next to five empty minutes.

mod flight_log;
mod json;
mod page;
mod trace;

use std::collections::HashMap;

/// A picture of the events over time, for [`to_html`](Self::to_html).
///
/// [`Sim::timeline`](crate::Sim::timeline) draws a simulation, and
/// [`of_flight_log`](Self::of_flight_log) the flight records of a server.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    title: String,
    /// Text about the whole picture, perhaps of several lines.
    summary: String,
    lanes: Vec<Lane>,
    /// Invariant: in the order of their times.
    moments: Vec<Moment>,
    spans: Vec<Span>,
    /// The moments at both ends of each arrow.
    arrows: Vec<[usize; 2]>,
    rows: Vec<Row>,
    texts: Texts,
}

/// A horizontal band of the picture, for one process, client or connection.
#[derive(Clone, Debug)]
struct Lane {
    name: String,
    group: Group,
}

/// Groups of lanes, in the order of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Client,
    /// Connection requests that no process has accepted.
    Backlog,
    Process,
    /// A connection of a process.
    Token,
    Machine,
}

#[derive(Clone, Copy, Debug)]
struct Moment {
    at_ns: u64,
    lane: usize,
    kind: Kind,
    /// The index of the moment's text.
    text: usize,
}

/// The shape of a moment in the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fault,
    /// The program gets a step.
    Step,
    /// The kernel reports an event.
    Report,
    /// Bytes are moved, or a connection begins or ends.
    Move,
    Note,
    Other,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    lane: usize,
    /// The first moment, and the last.
    ends: [usize; 2],
    kind: SpanKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpanKind {
    Turn,
    Paused,
    Dead,
    /// A connection is open.
    Open,
}

/// A row of the page's table, with the state of one process or connection over time.
#[derive(Clone, Debug, Default)]
struct Row {
    /// The index of the row's name.
    name: usize,
    /// Each moment from which the row has a new state, and the index of the state's text. An empty
    /// text hides the row.
    changes: Vec<[usize; 2]>,
}

/// A list of texts without duplicates.
#[derive(Clone, Debug, Default)]
struct Texts {
    texts: Vec<String>,
    indices: HashMap<String, usize>,
}

impl Texts {
    fn index(&mut self, text: &str) -> usize {
        if let Some(index) = self.indices.get(text) {
            return *index;
        }
        self.texts.push(text.to_owned());
        self.indices.insert(text.to_owned(), self.texts.len() - 1);
        self.texts.len() - 1
    }
}

impl Timeline {
    fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            ..Self::default()
        }
    }

    /// Sets a text that the page shows above the picture.
    #[must_use]
    pub fn with_summary(mut self, summary: &str) -> Self {
        summary.clone_into(&mut self.summary);
        self
    }

    /// The index of a lane. The first call creates the lane.
    fn lane(&mut self, group: Group, name: &str) -> usize {
        let is_it = |lane: &Lane| lane.group == group && lane.name == name;
        self.lanes.iter().position(is_it).unwrap_or_else(|| {
            self.lanes.push(Lane {
                name: name.to_owned(),
                group,
            });
            self.lanes.len() - 1
        })
    }

    fn add(&mut self, at_ns: u64, lane: usize, kind: Kind, text: &str) {
        let text = self.texts.index(text);
        self.moments.push(Moment {
            at_ns,
            lane,
            kind,
            text,
        });
    }

    fn last(&self) -> Option<usize> {
        self.moments.len().checked_sub(1)
    }

    fn add_row(&mut self, name: &str) -> usize {
        let name = self.texts.index(name);
        self.rows.push(Row {
            name,
            changes: Vec::new(),
        });
        self.rows.len() - 1
    }

    /// Sets the state of a row from the last moment on.
    fn set(&mut self, row: usize, state: &str) {
        let state = self.texts.index(state);
        let from = self.moments.len().saturating_sub(1);
        let changes = &mut self.rows[row].changes;
        match changes.last_mut() {
            Some([_, last]) if *last == state => {}
            Some([at, last]) if *at == from => *last = state,
            _ => changes.push([from, state]),
        }
    }
}
