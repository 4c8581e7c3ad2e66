//! The last records of a loop, in memory that never grows.

use super::record::Record;

/// A ring of records.
#[derive(Debug)]
pub(crate) struct FlightRecorder {
    // Invariant: as long as it will be; it was allocated for that.
    ring: Box<[Option<Record>]>,
    /// Where the next record goes: the place of the oldest, once the ring is full.
    // Invariant: below the length of the ring.
    next: usize,
}

impl FlightRecorder {
    /// Keeps the last `records`, which is at least 1.
    pub(crate) fn with_capacity(records: usize) -> Self {
        Self {
            ring: vec![None; records].into_boxed_slice(),
            next: 0,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, record: Record) {
        self.ring[self.next] = Some(record);
        self.next += 1;
        if self.next == self.ring.len() {
            self.next = 0;
        }
    }

    /// The records, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Record> {
        let (newer, older) = self.ring.split_at(self.next);
        older.iter().chain(newer).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(turn: u64) -> Record {
        Record::TurnBegan {
            turn,
            at_ns: 0,
            events: 0,
        }
    }

    #[test]
    fn the_last_records_are_kept_the_oldest_first() {
        for pushed in 0..=9 {
            let mut recorder = FlightRecorder::with_capacity(3);
            (0..pushed)
                .map(turn)
                .for_each(|record| recorder.push(record));
            let kept = pushed.saturating_sub(3)..pushed;
            assert!(recorder.iter().eq(kept.map(turn)), "after {pushed}");
        }
    }
}
