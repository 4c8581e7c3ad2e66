//! The counts of a run, by workload and peer.

use super::callgrind::Events;
use super::strace::Calls;

/// All counts, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Counted {
    events: Vec<(Key, Events)>,
    calls: Vec<(Key, Calls)>,
    /// Why nothing was counted by callgrind, or by strace.
    pub(super) no_events: Option<String>,
    pub(super) no_calls: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Key {
    workload: &'static str,
    peer: String,
}

impl Counted {
    pub(super) fn add_events(&mut self, workload: &'static str, peer: &str, events: Events) {
        self.events.push((Key::new(workload, peer), events));
    }

    pub(super) fn add_calls(&mut self, workload: &'static str, peer: &str, calls: Calls) {
        self.calls.push((Key::new(workload, peer), calls));
    }

    /// Instructions and misses of each peer in a workload.
    pub(super) fn events_of(&self, workload: &str) -> impl Iterator<Item = (&str, Events)> {
        let of_workload = self
            .events
            .iter()
            .filter(move |(w, _)| w.workload == workload);
        of_workload.map(|(key, events)| (key.peer.as_str(), *events))
    }

    /// Instructions of one; `None` if they were not counted.
    pub(super) fn instructions(&self, workload: &str, peer: &str) -> Option<f64> {
        let mut events = self.events_of(workload);
        events
            .find(|(name, _)| *name == peer)
            .map(|(_, events)| events.instructions)
    }

    /// The peers whose system calls in a workload were counted.
    pub(super) fn callers(&self, workload: &str) -> impl Iterator<Item = &str> {
        let of_workload = self
            .calls
            .iter()
            .filter(move |(w, _)| w.workload == workload);
        of_workload.map(|(key, _)| key.peer.as_str())
    }

    /// System calls of one; `None` if they were not counted.
    pub(super) fn calls(&self, workload: &str, peer: &str) -> Option<&Calls> {
        let is_theirs = |key: &Key| key.workload == workload && key.peer == peer;
        let found = self.calls.iter().find(|(key, _)| is_theirs(key));
        found.map(|(_, calls)| calls)
    }
}

impl Key {
    fn new(workload: &'static str, peer: &str) -> Key {
        let peer = peer.to_owned();
        Key { workload, peer }
    }
}
