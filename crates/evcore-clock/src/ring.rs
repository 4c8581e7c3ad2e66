//! A ring of seqlock slots: words that are published together, and read together by any number of
//! threads.
//!
//! Half of the *sequence*, rounded down, is the number of the last publication. This number modulo
//! the number of slots is the index of the publication's slot. The sequence is odd while a writer
//! is active. A writer claims the ring by making the sequence odd, fills the next slot, and
//! publishes it by making the sequence even again. A reader loads the sequence, reads the slot of
//! the last publication, and loads the sequence again. The words belong to one publication unless
//! writers have reached that slot again meanwhile.
//!
//! No call waits. A writer gives up if the sequence is odd. A reader repeats its read only if
//! `SLOTS` publications were in progress during it, wholly or in part.
//!
//! The words are atomics because a racing read is undefined behaviour even if its result is
//! dropped. Source: Hans Boehm, "Can Seqlocks Get Along with Programming Language Memory Models?",
//! 2012.
//!
//! This file uses only `sync.rs` of the crate, because `tests/loom_ring.rs` includes both files and
//! runs them over loom's atomics, with two slots.

use std::array;
use std::marker::PhantomData;

use crate::sync::{AtomicU64, Ordering, fence};

/// `SLOTS` slots of `WORDS` words each; one of them is the last publication.
#[derive(Debug)]
pub(crate) struct Ring<const SLOTS: usize, const WORDS: usize, O = Sound> {
    sequence: Sequence,
    // Invariant: only the holder of the claim stores into a slot, and only into the slot that
    // follows the slot of the last publication.
    slots: [Slot<WORDS>; SLOTS],
    order: PhantomData<O>,
}

impl<const SLOTS: usize, const WORDS: usize, O: Order> Ring<SLOTS, WORDS, O> {
    /// Distance that the sequence advances after a publication before its slot is written again.
    const LAP: u64 = 2 * SLOTS as u64 - 1;

    /// Makes a ring whose first publication is `words`.
    pub(crate) fn new(words: [u64; WORDS]) -> Self {
        const { assert!(SLOTS >= 2, "a write would overwrite the last publication") };
        let ring = Self {
            sequence: Sequence(AtomicU64::new(0)),
            slots: array::from_fn(|_| Slot::new()),
            order: PhantomData,
        };
        ring.slot(0).store(&words);
        ring
    }

    /// Claims the right to publish. Returns `None` if another writer holds it.
    pub(crate) fn claim(&self) -> Option<Claim<'_, SLOTS, WORDS, O>> {
        let last = O::claim(&self.sequence.0);
        // The value is created only if the claim succeeded, because dropping it ends the claim.
        is_even(last).then(|| Claim {
            ring: self,
            last,
            after: last,
        })
    }

    /// Returns the `N` words from word `FIRST` on, all of one publication: the last one, or one
    /// that was made after this call began.
    #[inline]
    pub(crate) fn read<const FIRST: usize, const N: usize>(&self) -> [u64; N] {
        loop {
            if let Some(words) = self.words_at::<FIRST, N>(self.load_sequence()) {
                return words;
            }
        }
    }

    /// Runs the first half of a read: loads the current sequence.
    #[inline]
    pub(crate) fn load_sequence(&self) -> u64 {
        self.sequence.0.load(O::LOAD)
    }

    /// Runs the second half of a read: returns words of the last publication at `sequence`, or
    /// `None` if its slot may have been overwritten.
    #[inline]
    pub(crate) fn words_at<const FIRST: usize, const N: usize>(
        &self,
        sequence: u64,
    ) -> Option<[u64; N]> {
        const { assert!(FIRST + N <= WORDS) };
        let words = self.slot(sequence).load::<FIRST, N>();
        O::before_check();
        let published = sequence & !1;
        let passed = self.sequence.0.load(Ordering::Relaxed) - published;
        (passed < Self::LAP).then_some(words)
    }

    #[inline]
    fn slot(&self, sequence: u64) -> &Slot<WORDS> {
        let index = sequence / 2 % SLOTS as u64;
        &self.slots[usize::try_from(index).expect("below SLOTS")]
    }
}

/// The right to publish, which one writer holds at a time.
///
/// If it is dropped without publishing, even in a panic, the last publication remains.
#[derive(Debug)]
pub(crate) struct Claim<'a, const SLOTS: usize, const WORDS: usize, O: Order> {
    ring: &'a Ring<SLOTS, WORDS, O>,
    /// The sequence that was claimed.
    last: u64,
    /// The sequence after this claim has ended.
    // Invariant: it is even, and its slot is complete.
    after: u64,
}

impl<const SLOTS: usize, const WORDS: usize, O: Order> Claim<'_, SLOTS, WORDS, O> {
    /// Returns the last publication.
    pub(crate) fn last(&self) -> [u64; WORDS] {
        // No check is needed, because no other writer is active.
        self.ring.slot(self.last).load::<0, WORDS>()
    }

    pub(crate) fn publish(mut self, words: &[u64; WORDS]) {
        let next = self.last + 2;
        O::before_words();
        self.ring.slot(next).store(words);
        self.after = next;
    }
}

impl<const SLOTS: usize, const WORDS: usize, O: Order> Drop for Claim<'_, SLOTS, WORDS, O> {
    fn drop(&mut self) {
        debug_assert!(is_even(self.after));
        // A store would be enough, because it can overwrite only the `fetch_or` of a writer that
        // gave up, and that call changed nothing. loom does not model this case. The swap costs a
        // few nanoseconds more, and lets loom check the shipped code.
        self.ring.sequence.0.swap(self.after, O::END);
    }
}

/// The memory orderings between writers and readers.
///
/// The defaults are the required ones, which the crate uses as [`Sound`]. `Order` is a trait so
/// that the loom tests can weaken each ordering, and show that the weaker one fails.
pub(crate) trait Order {
    /// Ends a claim: a reader that loads the new sequence sees the words of its slot.
    const END: Ordering = Ordering::Release;

    /// The load of the sequence by a reader, which pairs with [`END`](Self::END).
    const LOAD: Ordering = Ordering::Acquire;

    /// Makes the sequence odd, and returns the old value: the claim succeeds if the old value was
    /// even.
    ///
    /// Acquires, so that the holder of the claim sees the words that the previous writer stored.
    fn claim(sequence: &AtomicU64) -> u64 {
        sequence.fetch_or(1, Ordering::Acquire)
    }

    /// The fence between the claim and the first stored word. A reader that loads such a word, and
    /// then fences, also sees the claim.
    fn before_words() {
        fence(Ordering::Release);
    }

    /// The fence between the last loaded word and the second load of the sequence. It pairs with
    /// [`before_words`](Self::before_words).
    #[inline]
    fn before_check() {
        fence(Ordering::Acquire);
    }
}

#[derive(Debug)]
pub(crate) struct Sound;

impl Order for Sound {}

/// The sequence, on a cache line of its own. It is written twice per update, and a slot once in
/// `SLOTS` updates.
#[derive(Debug)]
#[repr(align(64))]
struct Sequence(AtomicU64);

#[derive(Debug)]
#[repr(align(64))]
struct Slot<const WORDS: usize> {
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> Slot<WORDS> {
    fn new() -> Self {
        Self {
            words: array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    #[inline]
    fn load<const FIRST: usize, const N: usize>(&self) -> [u64; N] {
        array::from_fn(|i| self.words[FIRST + i].load(Ordering::Relaxed))
    }

    fn store(&self, words: &[u64; WORDS]) {
        for (slot, word) in self.words.iter().zip(words) {
            slot.store(*word, Ordering::Relaxed);
        }
    }
}

fn is_even(sequence: u64) -> bool {
    sequence % 2 == 0
}

#[cfg(all(test, not(evcore_loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    fn publish<const SLOTS: usize>(ring: &Ring<SLOTS, 2>, words: [u64; 2]) {
        let claim = ring.claim().expect("no other writer is active");
        claim.publish(&words);
    }

    #[test]
    fn a_reader_reads_the_last_publication() {
        let ring = Ring::<4, 2>::new([7, 8]);
        assert_eq!(ring.read::<0, 2>(), [7, 8]);
        for n in 0..10 {
            publish(&ring, [n, n + 1]);
            assert_eq!(ring.read::<0, 2>(), [n, n + 1]);
            assert_eq!(ring.read::<1, 1>(), [n + 1]);
        }
    }

    #[test]
    fn a_second_writer_gives_up_and_readers_continue() {
        let ring = Ring::<2, 2>::new([1, 1]);
        let claim = ring.claim().unwrap();
        assert!(ring.claim().is_none());
        assert_eq!(ring.read::<0, 2>(), [1, 1]);
        claim.publish(&[2, 2]);
        assert_eq!(ring.claim().unwrap().last(), [2, 2]);
    }

    #[test]
    fn a_dropped_claim_changes_nothing() {
        let ring = Ring::<2, 2>::new([1, 1]);
        drop(ring.claim().unwrap());
        assert_eq!(ring.read::<0, 2>(), [1, 1]);
        publish(&ring, [2, 2]);
        assert_eq!(ring.read::<0, 2>(), [2, 2]);
    }

    #[test]
    fn a_panic_releases_the_claim() {
        let ring = Ring::<2, 2>::new([1, 1]);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _claim = ring.claim().unwrap();
            panic!("expected");
        }));
        assert!(panicked.is_err());
        assert!(ring.claim().is_some());
    }

    #[test]
    fn a_read_survives_63_publications_and_no_more() {
        let ring = Ring::<64, 2>::new([1_000, 1_000]);
        // The reads begin at an even sequence as well as at an odd one, and at every slot.
        for n in 0..130 {
            let at_rest = ring.load_sequence();
            let claim = ring.claim().unwrap();
            let claimed = ring.load_sequence();
            let last = claim.last();
            drop(claim);

            for k in 1..64 {
                publish(&ring, [n + k, n + k]);
                assert_eq!(ring.words_at::<0, 2>(at_rest), Some(last));
                assert_eq!(ring.words_at::<0, 2>(claimed), Some(last));
            }

            let claim = ring.claim().unwrap();
            assert_eq!(ring.words_at::<0, 2>(at_rest), None);
            assert_eq!(ring.words_at::<0, 2>(claimed), None);
            claim.publish(&[n, n]);
            assert_eq!(ring.words_at::<0, 2>(at_rest), None);
        }
    }

    #[test]
    fn readers_see_whole_publications_in_order() {
        const PUBLICATIONS: u64 = 200_000;
        let ring = Ring::<2, 8>::new([0; 8]);
        let done = AtomicBool::new(false);
        let watch = || {
            let mut newest = 0;
            while !done.load(Ordering::Acquire) {
                let words = ring.read::<0, 8>();
                assert_eq!(words, [words[0]; 8]);
                assert!(words[0] >= newest);
                newest = words[0];
            }
            assert_eq!(ring.read::<0, 1>(), [PUBLICATIONS]);
        };
        thread::scope(|scope| {
            scope.spawn(watch);
            scope.spawn(watch);
            for n in 1..=PUBLICATIONS {
                ring.claim().unwrap().publish(&[n; 8]);
            }
            done.store(true, Ordering::Release);
        });
    }

    #[test]
    fn concurrent_writers_publish_one_after_another() {
        let ring = Ring::<2, 2>::new([0, 0]);
        let count = || {
            let mut published = 0_u64;
            for _ in 0..50_000 {
                if let Some(claim) = ring.claim() {
                    let next = claim.last()[0] + 1;
                    claim.publish(&[next, next]);
                    published += 1;
                }
            }
            published
        };
        let published = thread::scope(|scope| {
            let writers = [scope.spawn(count), scope.spawn(count), scope.spawn(count)];
            writers.map(|w| w.join().unwrap()).iter().sum::<u64>()
        });
        assert_eq!(ring.read::<0, 2>(), [published, published]);
    }
}
