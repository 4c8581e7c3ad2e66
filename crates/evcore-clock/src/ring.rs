//! Words that are published as a whole, and read as a whole by any number of threads.
//!
//! One number, the *turn*, says everything.
//! Half of it counts the publications, and the last of them lies in the slot of that count modulo
//! the number of slots.
//! It is odd while somebody writes, which only ever happens in the slot after that one.
//! So a writer claims by making the turn odd, fills the next slot, and publishes by making the turn
//! even again: there is no moment at which nothing can be read.
//! A reader takes the turn, reads the slot that it names, and looks at the turn once more.
//! What it has read is whole unless the writers have come round to that very slot meanwhile.
//!
//! Nobody waits here: a writer that finds the turn odd gives up, and a reader reads again only when
//! `SLOTS` publications have begun during one of its reads.
//!
//! The words are atomics because a read that races is undefined even if its result is thrown away.
//! Source: Hans Boehm, "Can Seqlocks Get Along with Programming Language Memory Models?", 2012.
//!
//! Nothing here names another part of the crate but `sync.rs`: `tests/loom_ring.rs` includes both
//! files and runs them over loom's atomics, with two slots.

use std::array;
use std::marker::PhantomData;

use crate::sync::{AtomicU64, Ordering, fence};

/// `SLOTS` slots of `WORDS` words each, of which one is shown.
#[derive(Debug)]
pub(crate) struct Ring<const SLOTS: usize, const WORDS: usize, O = Sound> {
    turn: Turn,
    // Invariant: only the holder of the claim stores into a slot, and only into the one after that
    // which is shown.
    slots: [Slot<WORDS>; SLOTS],
    order: PhantomData<O>,
}

impl<const SLOTS: usize, const WORDS: usize, O: Order> Ring<SLOTS, WORDS, O> {
    /// How far the turn may go, from a publication, before its slot is written again.
    const ROUND: u64 = 2 * SLOTS as u64 - 1;

    /// A ring that shows `words`.
    pub(crate) fn new(words: [u64; WORDS]) -> Self {
        const { assert!(SLOTS >= 2, "with one slot, writing hides what is shown") };
        let ring = Self {
            turn: Turn(AtomicU64::new(0)),
            slots: array::from_fn(|_| Slot::new()),
            order: PhantomData,
        };
        ring.slot(0).store(&words);
        ring
    }

    /// Claims the right to publish; `None` if another has it just now.
    pub(crate) fn claim(&self) -> Option<Claim<'_, SLOTS, WORDS, O>> {
        let shown = O::claim(&self.turn.0);
        // Made only if it is one: dropping a claim ends it.
        is_even(shown).then(|| Claim {
            ring: self,
            shown,
            after: shown,
        })
    }

    /// The `N` words from word `FIRST` on, all of one publication: the last, or one that came after
    /// this call began.
    #[inline]
    pub(crate) fn read<const FIRST: usize, const N: usize>(&self) -> [u64; N] {
        loop {
            if let Some(words) = self.words_at::<FIRST, N>(self.look()) {
                return words;
            }
        }
    }

    /// The first half of a read: what is shown now, as a turn.
    #[inline]
    pub(crate) fn look(&self) -> u64 {
        self.turn.0.load(O::LOOK)
    }

    /// The second half: words of what was shown at that turn; `None` if it is being overwritten.
    #[inline]
    pub(crate) fn words_at<const FIRST: usize, const N: usize>(
        &self,
        turn: u64,
    ) -> Option<[u64; N]> {
        const { assert!(FIRST + N <= WORDS) };
        let words = self.slot(turn).load::<FIRST, N>();
        O::before_check();
        let published = turn & !1;
        let passed = self.turn.0.load(Ordering::Relaxed) - published;
        (passed < Self::ROUND).then_some(words)
    }

    #[inline]
    fn slot(&self, turn: u64) -> &Slot<WORDS> {
        let index = turn / 2 % SLOTS as u64;
        &self.slots[usize::try_from(index).expect("less than SLOTS")]
    }
}

/// The right to publish, which one writer has at a time.
///
/// Dropped without publishing, also in a panic, it leaves what was shown before.
#[derive(Debug)]
pub(crate) struct Claim<'a, const SLOTS: usize, const WORDS: usize, O: Order> {
    ring: &'a Ring<SLOTS, WORDS, O>,
    /// The turn that was claimed.
    shown: u64,
    /// The turn when this claim has ended.
    // Invariant: even, and that of a slot which is whole.
    after: u64,
}

impl<const SLOTS: usize, const WORDS: usize, O: Order> Claim<'_, SLOTS, WORDS, O> {
    /// What is shown until this claim publishes.
    pub(crate) fn shown(&self) -> [u64; WORDS] {
        // No check is needed: nobody else writes.
        self.ring.slot(self.shown).load::<0, WORDS>()
    }

    /// Shows `words` from now on.
    pub(crate) fn publish(mut self, words: &[u64; WORDS]) {
        let next = self.shown + 2;
        O::before_words();
        self.ring.slot(next).store(words);
        self.after = next;
    }
}

impl<const SLOTS: usize, const WORDS: usize, O: Order> Drop for Claim<'_, SLOTS, WORDS, O> {
    fn drop(&mut self) {
        debug_assert!(is_even(self.after));
        // A store would be enough: what a loser's `fetch_or` wrote came before it. But loom does
        // not know that, and to check what ships is worth the few nanoseconds of an update.
        self.ring.turn.0.swap(self.after, O::END);
    }
}

/// What orders the accesses of writers and readers.
///
/// The defaults are what is needed, and [`Sound`] is what ships.
/// It is a trait so that loom can be shown, one by one, what each of them is there for.
pub(crate) trait Order {
    /// How a claim ends: whoever looks at the new turn finds the words that it names.
    const END: Ordering = Ordering::Release;

    /// How a reader looks at the turn: the other end of [`END`](Self::END).
    const LOOK: Ordering = Ordering::Acquire;

    /// Makes the turn odd, and says what it was: it is claimed if it was even.
    ///
    /// Acquires, so that the holder of the claim finds the words that the one before it stored.
    fn claim(turn: &AtomicU64) -> u64 {
        turn.fetch_or(1, Ordering::Acquire)
    }

    /// Between the claim and the first word that is stored: no reader that meets such a word, and
    /// then fences, misses the claim.
    fn before_words() {
        fence(Ordering::Release);
    }

    /// Between the last word that is loaded and the second look at the turn: the other end of
    /// [`before_words`](Self::before_words).
    #[inline]
    fn before_check() {
        fence(Ordering::Acquire);
    }
}

/// The order that ships.
#[derive(Debug)]
pub(crate) struct Sound;

impl Order for Sound {}

/// In a cache line of its own: it is written twice an update, a slot once in `SLOTS` of them.
#[derive(Debug)]
#[repr(align(64))]
struct Turn(AtomicU64);

/// The words of one publication.
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

fn is_even(turn: u64) -> bool {
    turn % 2 == 0
}

#[cfg(all(test, not(evcore_loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    fn publish<const SLOTS: usize>(ring: &Ring<SLOTS, 2>, words: [u64; 2]) {
        let claim = ring.claim().expect("nobody else writes");
        claim.publish(&words);
    }

    #[test]
    fn what_was_published_last_is_read() {
        let ring = Ring::<4, 2>::new([7, 8]);
        assert_eq!(ring.read::<0, 2>(), [7, 8]);
        for n in 0..10 {
            publish(&ring, [n, n + 1]);
            assert_eq!(ring.read::<0, 2>(), [n, n + 1]);
            assert_eq!(ring.read::<1, 1>(), [n + 1]);
        }
    }

    #[test]
    fn while_one_writes_another_gives_up_and_readers_read_on() {
        let ring = Ring::<2, 2>::new([1, 1]);
        let claim = ring.claim().unwrap();
        assert!(ring.claim().is_none());
        assert_eq!(ring.read::<0, 2>(), [1, 1]);
        claim.publish(&[2, 2]);
        assert_eq!(ring.claim().unwrap().shown(), [2, 2]);
    }

    #[test]
    fn a_claim_that_is_dropped_changes_nothing() {
        let ring = Ring::<2, 2>::new([1, 1]);
        drop(ring.claim().unwrap());
        assert_eq!(ring.read::<0, 2>(), [1, 1]);
        publish(&ring, [2, 2]);
        assert_eq!(ring.read::<0, 2>(), [2, 2]);
    }

    #[test]
    fn a_panic_gives_the_claim_back() {
        let ring = Ring::<2, 2>::new([1, 1]);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _claim = ring.claim().unwrap();
            panic!("expected");
        }));
        assert!(panicked.is_err());
        assert!(ring.claim().is_some());
    }

    #[test]
    fn a_reader_stalled_across_63_publications_has_what_it_looked_at() {
        let ring = Ring::<64, 2>::new([1_000, 1_000]);
        // From an even turn as well as from an odd one, and from every slot.
        for n in 0..130 {
            let at_rest = ring.look();
            let claim = ring.claim().unwrap();
            let claimed = ring.look();
            let shown = claim.shown();
            drop(claim);

            for k in 1..64 {
                publish(&ring, [n + k, n + k]);
                assert_eq!(ring.words_at::<0, 2>(at_rest), Some(shown));
                assert_eq!(ring.words_at::<0, 2>(claimed), Some(shown));
            }

            let claim = ring.claim().unwrap();
            assert_eq!(ring.words_at::<0, 2>(at_rest), None);
            assert_eq!(ring.words_at::<0, 2>(claimed), None);
            claim.publish(&[n, n]);
            assert_eq!(ring.words_at::<0, 2>(at_rest), None);
        }
    }

    #[test]
    fn readers_in_other_threads_see_no_half_and_nothing_older() {
        const PUBLICATIONS: u64 = 200_000;
        let ring = Ring::<2, 8>::new([0; 8]);
        let done = AtomicBool::new(false);
        let watch = || {
            let mut last = 0;
            while !done.load(Ordering::Acquire) {
                let words = ring.read::<0, 8>();
                assert_eq!(words, [words[0]; 8]);
                assert!(words[0] >= last);
                last = words[0];
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
    fn of_many_writers_each_publishes_after_the_one_before() {
        let ring = Ring::<2, 2>::new([0, 0]);
        let count = || {
            let mut published = 0_u64;
            for _ in 0..50_000 {
                if let Some(claim) = ring.claim() {
                    let next = claim.shown()[0] + 1;
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
