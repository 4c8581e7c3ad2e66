//! What has happened, as a number; and, if asked, as lines to read.

use std::fmt;

/// The record of a run.
///
/// The hash is FNV-1a's recipe over words of 64 bits in place of bytes, with a rotation so that the
/// high bits reach the low ones. No addresses go into it, no order of a hash table, and no number
/// that is as wide as a pointer: so it is the same on every machine.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
}

/// What a line is about. The order is part of the hash: new ones come at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Acceptor,
    Knock,
    Accept,
    Refuse,
    Send,
    Receive,
    Finish,
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
}

impl Trace {
    pub(crate) const fn new() -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            lines: None,
        }
    }

    /// Keeps lines from here on.
    pub(crate) fn record(&mut self) {
        self.lines.get_or_insert_default();
    }

    pub(crate) fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }

    /// Of all that was noted, in its order.
    pub(crate) fn hash(&self) -> u64 {
        // So that even the last word reaches every bit.
        let hash = (self.hash ^ (self.hash >> 32)).wrapping_mul(PRIME);
        hash ^ (hash >> 29)
    }

    /// Something happened, to whom, and how much of it.
    #[inline]
    pub(crate) fn note(&mut self, now_ns: u64, what: What, who: u64, amount: u64) {
        self.fold(now_ns);
        self.fold((what as u64) << 56 ^ who);
        self.fold(amount);
        if self.lines.is_some() {
            self.line(now_ns, format_args!("{what:?} {who} {amount}"));
        }
    }

    /// Something happened that has words.
    pub(crate) fn say(&mut self, now_ns: u64, text: &str) {
        self.fold(now_ns);
        self.bytes(text.as_bytes());
        if self.lines.is_some() {
            self.line(now_ns, format_args!("{text}"));
        }
    }

    /// What was sent, so that its content counts too.
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

/// FNV's, of 64 bits.
const PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(notes: &[(u64, What, u64, u64)]) -> u64 {
        let mut trace = Trace::new();
        for (now_ns, what, who, amount) in notes {
            trace.note(*now_ns, *what, *who, *amount);
        }
        trace.hash()
    }

    #[test]
    fn whatever_differs_shows() {
        let base = [(1, What::Send, 2, 3), (4, What::Receive, 5, 6)];
        let others = [
            vec![base[1], base[0]],
            vec![base[0]],
            vec![(2, What::Send, 2, 3), base[1]],
            vec![(1, What::Receive, 2, 3), base[1]],
            vec![(1, What::Send, 3, 3), base[1]],
            vec![(1, What::Send, 2, 1 << 63), base[1]],
            vec![base[0], base[1], base[1]],
        ];
        for other in others {
            assert_ne!(hash(&base), hash(&other), "{other:?}");
        }
        assert_eq!(hash(&base), hash(&base));
    }

    #[test]
    fn content_counts_to_the_last_byte() {
        let of = |bytes: &[u8]| {
            let mut trace = Trace::new();
            trace.bytes(bytes);
            trace.hash()
        };
        assert_ne!(of(b"0123456789"), of(b"0123456788"));
        assert_ne!(of(b"01234567"), of(b"11234567"));
    }

    #[test]
    fn lines_are_kept_only_where_asked_and_change_no_hash() {
        let (mut silent, mut read) = (Trace::new(), Trace::new());
        read.record();
        for trace in [&mut silent, &mut read] {
            trace.note(1_500_000_000, What::Send, 7, 42);
            trace.say(2_000_000_000, "half-time");
        }
        assert_eq!(silent.hash(), read.hash());
        assert!(silent.lines().is_empty());
        let lines = ["     1.500000000 Send 7 42", "     2.000000000 half-time"];
        assert_eq!(read.lines(), lines);
    }
}
