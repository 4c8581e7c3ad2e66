//! The trace of a run: a hash and, on request, a recording that people read.
//!
//! The hash defines what "the same run" means. A recording becomes text only when it is read:
//! `lines` makes the text, and `situation` the state at a time.

mod event;
mod lines;
mod names;
mod recording;
mod situation;
mod states;
mod turns;
mod words;

use std::thread;

pub(crate) use event::{ClientWait, Detail, Event, StepName, Subject};
pub(crate) use lines::{lines, with_time};
pub(crate) use recording::{Entry, Recording};
pub(crate) use situation::{Activity, Holder, Situation};
pub(crate) use turns::turns_of;
pub(crate) use words::seconds;

/// The trace of a run.
///
/// The hash is FNV-1a over words of 64 bits in place of bytes, with a rotation so that the high
/// bits reach the low ones. It covers no address in memory and no order of a hash table, so it is
/// the same on every machine.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    recording: Option<Box<Recording>>,
}

impl Trace {
    pub(crate) const fn new() -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            recording: None,
        }
    }

    pub(crate) fn record(&mut self) {
        self.recording.get_or_insert_default();
    }

    pub(crate) fn recording(&self) -> Option<&Recording> {
        self.recording.as_deref()
    }

    /// The recording, for a caller that adds a [`Detail`] and stores a part of its data separately.
    pub(crate) fn recording_mut(&mut self) -> Option<&mut Recording> {
        self.recording.as_deref_mut()
    }

    pub(crate) fn hash(&self) -> u64 {
        // Mixes the last word into every bit.
        let hash = (self.hash ^ (self.hash >> 32)).wrapping_mul(PRIME);
        hash ^ (hash >> 29)
    }

    #[inline]
    pub(crate) fn note(&mut self, now_ns: u64, event: Event) {
        let [subject, amount] = event.words();
        self.fold(now_ns);
        self.fold(subject);
        self.fold(amount);
        if self.recording.is_some() {
            self.keep(now_ns, || Entry::Event(event));
        }
    }

    pub(crate) fn text(&mut self, now_ns: u64, by: Option<u32>, text: &str) {
        self.note(now_ns, Event::Noted(by));
        self.fold(now_ns);
        self.bytes(text.as_bytes());
        if let Some(recording) = self.recording_mut() {
            recording.push_text(now_ns, by, text);
        }
    }

    /// Adds a detail if the trace is recorded. It is not part of the hash.
    #[inline]
    pub(crate) fn detail(&mut self, now_ns: u64, detail: impl FnOnce() -> Detail) {
        if self.recording.is_some() {
            self.keep(now_ns, || Entry::Detail(detail()));
        }
    }

    /// Adds an entry to the recording. The function is out of line, because most runs are not
    /// recorded.
    #[cold]
    #[inline(never)]
    fn keep(&mut self, now_ns: u64, entry: impl FnOnce() -> Entry) {
        // The destructors of a failed test are left out, because they close the connections that
        // the report is about.
        if let Some(recording) = self.recording.as_mut().filter(|_| !thread::panicking()) {
            recording.push(now_ns, entry());
        }
    }

    /// Adds sent bytes to the hash.
    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let word = word.try_into().expect("chunks of eight");
            self.fold(u64::from_le_bytes(word));
        }
        let mut last = [0; 8];
        let rest = words.remainder();
        last[..rest.len()].copy_from_slice(rest);
        self.fold(u64::from_le_bytes(last));
    }

    #[inline]
    fn fold(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(PRIME).rotate_left(23);
    }
}

/// The 64-bit prime of FNV.
const PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::EndpointId;

    fn hash(notes: &[(u64, Event)]) -> u64 {
        let mut trace = Trace::new();
        for (now_ns, event) in notes {
            trace.note(*now_ns, *event);
        }
        trace.hash()
    }

    fn sent(connection: u32, count: usize) -> Event {
        let from = EndpointId::client(connection);
        Event::Sent { from, count, of: 9 }
    }

    fn received(connection: u32, count: usize) -> Event {
        let at = EndpointId::client(connection);
        Event::Received { at, count }
    }

    #[test]
    fn every_difference_changes_the_hash() {
        let base = [(1, sent(2, 3)), (4, received(5, 6))];
        let others = [
            vec![base[1], base[0]],
            vec![base[0]],
            vec![(2, sent(2, 3)), base[1]],
            vec![(1, received(2, 3)), base[1]],
            vec![(1, sent(3, 3)), base[1]],
            vec![(1, sent(2, 1 << 31)), base[1]],
            vec![base[0], base[1], base[1]],
        ];
        for other in others {
            assert_ne!(hash(&base), hash(&other), "{other:?}");
        }
        assert_eq!(hash(&base), hash(&base));
    }

    #[test]
    fn the_hash_covers_the_content_to_the_last_byte() {
        let of = |bytes: &[u8]| {
            let mut trace = Trace::new();
            trace.bytes(bytes);
            trace.hash()
        };
        assert_ne!(of(b"0123456789"), of(b"0123456788"));
        assert_ne!(of(b"01234567"), of(b"11234567"));
    }

    #[test]
    fn recording_does_not_change_the_hash() {
        let (mut silent, mut read) = (Trace::new(), Trace::new());
        read.record();
        for trace in [&mut silent, &mut read] {
            trace.detail(1_500_000_000, || Detail::IsWorker {
                process: 7,
                index: 2,
            });
            trace.note(1_500_000_000, Event::ProcessBegan(7));
            trace.text(2_000_000_000, None, "half-time");
        }
        assert_eq!(silent.hash(), read.hash());
        assert!(silent.recording().is_none());
        let recording = read.recording().expect("it is recorded");
        let lines = [
            "     1.500000000 worker 2 (process 7) begins",
            "     2.000000000 the test notes: half-time",
        ];
        assert_eq!(super::lines(recording), lines);
    }
}
