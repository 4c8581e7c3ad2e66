//! The trace of a run: a hash, and on request lines of text.

use std::fmt;

/// The trace of a run.
///
/// The hash is FNV-1a over words of 64 bits in place of bytes, with a rotation so that the high
/// bits reach the low ones. It contains no address, no order of a hash table and no number as wide
/// as a pointer, so it is the same on every machine.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
}

/// The kind of an entry. Its number is part of the hash, so new kinds come at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceKind {
    Listen,
    Connect,
    Accept,
    Refuse,
    Send,
    Receive,
    ShutdownWrite,
    Close,
    Reset,
    Arrive,
    Wait,
    Report,
    Fault,
    Step,
    Lock,
    Unlock,
    Begin,
    Die,
    Reap,
    Client,
    Join,
    Lead,
    StepDown,
    Notify,
    Exit,
    Job,
    SendTo,
    ReceiveFrom,
    Rest,
}

impl Trace {
    pub(crate) const fn new() -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            lines: None,
        }
    }

    /// Keeps the lines from now on.
    pub(crate) fn record(&mut self) {
        self.lines.get_or_insert_default();
    }

    pub(crate) fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }

    /// The hash of all entries so far.
    pub(crate) fn hash(&self) -> u64 {
        // Mixes the last word into every bit.
        let hash = (self.hash ^ (self.hash >> 32)).wrapping_mul(PRIME);
        hash ^ (hash >> 29)
    }

    /// Adds an entry: its kind, what it is about, and an amount.
    #[inline]
    pub(crate) fn note(&mut self, now_ns: u64, kind: TraceKind, subject: u64, amount: u64) {
        self.fold(now_ns);
        self.fold((kind as u64) << 56 ^ subject);
        self.fold(amount);
        if self.lines.is_some() {
            self.line(now_ns, format_args!("{kind:?} {subject} {amount}"));
        }
    }

    /// Adds an entry with text.
    pub(crate) fn text(&mut self, now_ns: u64, text: &str) {
        self.fold(now_ns);
        self.bytes(text.as_bytes());
        if self.lines.is_some() {
            self.line(now_ns, format_args!("{text}"));
        }
    }

    /// Adds the content of what is sent to the hash.
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

    fn line(&mut self, now_ns: u64, text: fmt::Arguments<'_>) {
        let (seconds, ns) = (now_ns / 1_000_000_000, now_ns % 1_000_000_000);
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{seconds:>6}.{ns:09} {text}"));
        }
    }
}

/// The 64-bit prime of FNV.
const PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(notes: &[(u64, TraceKind, u64, u64)]) -> u64 {
        let mut trace = Trace::new();
        for (now_ns, kind, subject, amount) in notes {
            trace.note(*now_ns, *kind, *subject, *amount);
        }
        trace.hash()
    }

    #[test]
    fn every_difference_changes_the_hash() {
        let base = [(1, TraceKind::Send, 2, 3), (4, TraceKind::Receive, 5, 6)];
        let others = [
            vec![base[1], base[0]],
            vec![base[0]],
            vec![(2, TraceKind::Send, 2, 3), base[1]],
            vec![(1, TraceKind::Receive, 2, 3), base[1]],
            vec![(1, TraceKind::Send, 3, 3), base[1]],
            vec![(1, TraceKind::Send, 2, 1 << 63), base[1]],
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
    fn recording_lines_does_not_change_the_hash() {
        let (mut silent, mut read) = (Trace::new(), Trace::new());
        read.record();
        for trace in [&mut silent, &mut read] {
            trace.note(1_500_000_000, TraceKind::Send, 7, 42);
            trace.text(2_000_000_000, "half-time");
        }
        assert_eq!(silent.hash(), read.hash());
        assert!(silent.lines().is_empty());
        let lines = ["     1.500000000 Send 7 42", "     2.000000000 half-time"];
        assert_eq!(read.lines(), lines);
    }
}
