//! The last records of a loop, in memory that never grows.

/// A ring of the last records of a loop's actions, which is read after something went wrong.
///
/// A record is a value of yours, for example an enum of the loop's actions. Keep it small, and
/// without memory on the heap, because the loop stores many of them.
///
/// ```
/// use evcore_instrument::FlightRecorder;
///
/// let mut recorder = FlightRecorder::with_capacity(2);
/// for record in ["accepted", "readable", "closed"] {
///     recorder.push(record);
/// }
/// assert!(recorder.iter().eq(&["readable", "closed"]));
/// ```
#[derive(Clone, Debug)]
pub struct FlightRecorder<R> {
    // Invariant: its length is at least 1, and never changes.
    ring: Box<[Option<R>]>,
    // Invariant: below the length of the ring.
    next: usize,
}

impl<R> FlightRecorder<R> {
    /// Creates a recorder that keeps the last `records` records (0 counts as 1), and allocates
    /// their memory.
    #[must_use]
    pub fn with_capacity(records: usize) -> Self {
        Self {
            ring: (0..records.max(1)).map(|_| None).collect(),
            next: 0,
        }
    }

    /// Adds a record, in place of the oldest if the ring is full.
    #[inline]
    pub fn push(&mut self, record: R) {
        self.ring[self.next] = Some(record);
        self.next += 1;
        if self.next == self.ring.len() {
            self.next = 0;
        }
    }

    /// The records, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        let (newer, older) = self.ring.split_at(self.next);
        older.iter().chain(newer).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_records_are_kept_the_oldest_first() {
        for pushed in 0..=9_u32 {
            let mut recorder = FlightRecorder::with_capacity(3);
            (0..pushed).for_each(|record| recorder.push(record));
            let kept = pushed.saturating_sub(3)..pushed;
            assert!(recorder.iter().copied().eq(kept), "after {pushed}");
        }
    }

    #[test]
    fn a_flight_recorder_keeps_at_least_one_record() {
        let mut recorder = FlightRecorder::with_capacity(0);
        [1, 2].into_iter().for_each(|record| recorder.push(record));
        assert!(recorder.iter().eq(&[2]));
    }
}
