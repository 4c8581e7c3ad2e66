//! The batches that were sent and are not acknowledged. This file makes no system call.

use std::collections::VecDeque;

/// The unacknowledged batches of a sender, oldest first.
///
/// Generic over a batch, so that a test needs no descriptors.
#[derive(Debug)]
pub(crate) struct Ledger<T> {
    batches: VecDeque<T>,
    /// The number of the oldest batch. The other numbers follow without a gap.
    oldest: u64,
}

/// An answer to a batch other than the oldest, which breaks the protocol.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OutOfOrder;

impl<T> Ledger<T> {
    /// Maximum number of unacknowledged batches. Their answers fit into the buffer of a socket.
    pub(crate) const MAX: usize = 16;

    pub(crate) fn new() -> Self {
        Self {
            batches: VecDeque::with_capacity(Self::MAX),
            oldest: 1,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.batches.len() == Self::MAX
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.oldest + self.batches.len() as u64
    }

    /// Panics if the ledger is full.
    pub(crate) fn enter(&mut self, batch: T) {
        assert!(!self.is_full(), "the ledger is full");
        self.batches.push_back(batch);
    }

    pub(crate) fn settle(&mut self, number: u64) -> Result<T, OutOfOrder> {
        if number != self.oldest {
            return Err(OutOfOrder);
        }
        let batch = self.batches.pop_front().ok_or(OutOfOrder)?;
        self.oldest += 1;
        Ok(batch)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.batches.iter()
    }

    pub(crate) fn take_all(&mut self) -> VecDeque<T> {
        self.oldest = self.next_number();
        std::mem::take(&mut self.batches)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Call {
        Enter,
        /// An answer whose number is the number of the oldest unanswered batch plus this offset.
        Settle(i64),
        TakeAll,
    }

    fn calls() -> impl Strategy<Value = Vec<Call>> {
        let call = prop_oneof![
            6 => Just(Call::Enter),
            3 => Just(Call::Settle(0)),
            1 => (-3_i64..20).prop_map(Call::Settle),
            1 => Just(Call::TakeAll),
        ];
        prop::collection::vec(call, 0..200)
    }

    /// All batches, with `true` for the unanswered ones.
    #[derive(Default)]
    struct Oracle {
        waits: Vec<bool>,
    }

    impl Oracle {
        fn waiting(&self) -> Vec<u64> {
            let numbered = (1..).zip(&self.waits);
            let waiting = numbered.filter(|(_, waits)| **waits);
            waiting.map(|(number, _)| number).collect()
        }
    }

    proptest! {
        #[test]
        fn a_ledger_agrees_with_a_list_of_all_batches(calls in calls()) {
            let (mut ledger, mut oracle) = (Ledger::new(), Oracle::default());
            for call in calls {
                match call {
                    Call::Enter if ledger.is_full() => {
                        prop_assert_eq!(oracle.waiting().len(), Ledger::<u64>::MAX);
                    }
                    Call::Enter => {
                        ledger.enter(ledger.next_number());
                        oracle.waits.push(true);
                        prop_assert_eq!(oracle.waits.len() as u64, ledger.next_number() - 1);
                    }
                    Call::Settle(offset) => {
                        let waiting = oracle.waiting();
                        let next = ledger.next_number();
                        let first = waiting.first().copied().unwrap_or(next);
                        let number = first.wrapping_add_signed(offset);
                        let right = waiting.first() == Some(&number);
                        prop_assert_eq!(ledger.settle(number), right.then_some(number).ok_or(OutOfOrder));
                        if right {
                            oracle.waits[usize::try_from(number).unwrap() - 1] = false;
                        }
                    }
                    Call::TakeAll => {
                        prop_assert_eq!(Vec::from(ledger.take_all()), oracle.waiting());
                        oracle.waits.fill(false);
                    }
                }
                prop_assert_eq!(ledger.iter().copied().collect::<Vec<_>>(), oracle.waiting());
                prop_assert_eq!(ledger.is_full(), oracle.waiting().len() == Ledger::<u64>::MAX);
            }
        }
    }
}
