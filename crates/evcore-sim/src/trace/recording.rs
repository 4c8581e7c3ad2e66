//! The entries of a run in their order, as data.

use std::net::SocketAddr;

use super::event::{Detail, Event};

#[derive(Debug, Default)]
pub(crate) struct Recording {
    entries: Vec<(u64, Entry)>,
    texts: Vec<String>,
    routes: Vec<Route>,
    addresses: Vec<SocketAddr>,
    /// Number of entries before the workers were dropped, and the time of the drop.
    end: Option<(usize, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Entry {
    Event(Event),
    Detail(Detail),
    /// A note of a client (in this slot) or of the test, and the index of its text.
    Text(Option<u32>, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
}

impl Recording {
    pub(crate) fn push(&mut self, now_ns: u64, entry: Entry) {
        self.entries.push((now_ns, entry));
    }

    pub(crate) fn push_text(&mut self, now_ns: u64, by: Option<u32>, text: &str) {
        let index = add(&mut self.texts, text.to_owned());
        self.push(now_ns, Entry::Text(by, index));
    }

    pub(crate) fn add_route(&mut self, from: SocketAddr, to: SocketAddr) -> u32 {
        add(&mut self.routes, Route { from, to })
    }

    pub(crate) fn add_address(&mut self, address: SocketAddr) -> u32 {
        add(&mut self.addresses, address)
    }

    pub(crate) fn entries(&self) -> &[(u64, Entry)] {
        &self.entries
    }

    /// Marks that the workers are dropped. Their destructors cause the later entries of this time.
    pub(crate) fn mark_end(&mut self, now_ns: u64) {
        self.end = Some((self.entries.len(), now_ns));
    }

    /// The entries of the run, without the entries that the workers' destructors cause after the
    /// run.
    pub(crate) fn entries_of_run(&self) -> &[(u64, Entry)] {
        match (self.end, self.entries.last()) {
            // If the times differ, the test has gone on after it dropped the workers.
            (Some((end, end_ns)), Some((last_ns, _))) if end_ns == *last_ns => &self.entries[..end],
            _ => &self.entries,
        }
    }

    pub(crate) fn text(&self, index: u32) -> &str {
        &self.texts[index as usize]
    }

    pub(crate) fn route(&self, index: u32) -> Route {
        self.routes[index as usize]
    }

    pub(crate) fn address(&self, index: u32) -> SocketAddr {
        self.addresses[index as usize]
    }
}

fn add<T>(list: &mut Vec<T>, item: T) -> u32 {
    list.push(item);
    u32::try_from(list.len() - 1).expect("a recording of this size does not fit into memory")
}
