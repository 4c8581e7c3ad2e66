//! Every interleaving of the shared clock's ring: the file that ships, over loom's atomics.
//!
//! With two slots and two publications the writer comes round to what a reader looks at.
//! Publication `n` shows the words `[10 + n; 2]`, so that a reader knows from the turn which words
//! it must find, and a slot that was never written is none of them.
//! Each mutant orders a little less than it should, and must be caught.
//!
//! A writer that is watched by a reader does not look at words before it stores them.
//! loom remembers only the last access to an atomic: the writer's look would hide the reader's, and
//! loom would take it that there is nothing to interleave.

#![cfg(evcore_loom)]

#[path = "../src/ring.rs"]
mod ring;
#[path = "../src/sync.rs"]
mod sync;

use loom::sync::Arc;
use loom::thread;
use ring::{Order, Ring, Sound};
use sync::{AtomicU64, Ordering};

type Shared<O> = Arc<Ring<2, 2, O>>;

/// A ring that shows publication 0.
fn ring<O: Order>() -> Shared<O> {
    Arc::new(Ring::new([10, 10]))
}

/// Shows what comes after what is shown, unless another is about to; says whether it did.
fn publish<O: Order>(ring: &Shared<O>) -> bool {
    let Some(claim) = ring.claim() else {
        return false;
    };
    let [n, m] = claim.shown();
    assert_eq!(n, m, "a writer found half of a publication");
    claim.publish(&[n + 1, m + 1]);
    true
}

/// Shows publication `n`, which nobody else does.
fn show<O: Order>(ring: &Shared<O>, n: u64) {
    let claim = ring.claim().expect("there is no other writer");
    claim.publish(&[10 + n; 2]);
}

/// Reads once, and says which publication it was. Not at all if it was overwritten meanwhile.
fn read<O: Order>(ring: &Shared<O>) -> Option<u64> {
    let turn = ring.look();
    let [n, m] = ring.words_at::<0, 2>(turn)?;
    assert_eq!(n, m, "a reader found half of a publication");
    assert_eq!(n, 10 + turn / 2, "a reader found another publication");
    Some(n)
}

/// One writer publishes twice while a reader reads twice.
fn readers_see_no_half<O: Order + 'static>() {
    loom::model(|| {
        let ring = ring::<O>();
        let writer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || (1..=2).for_each(|n| show(&ring, n)))
        };
        let (first, second) = (read(&ring), read(&ring));
        assert!(first <= second || second.is_none(), "time went back");
        writer.join().unwrap();
        assert_eq!(ring.read::<0, 2>(), [12, 12]);
    });
}

/// A writer publishes, claims again and gives that back, while a reader reads.
fn a_claim_given_back_hides_nothing<O: Order + 'static>() {
    loom::model(|| {
        let ring = ring::<O>();
        let writer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                show(&ring, 1);
                drop(ring.claim().expect("there is no other writer"));
            })
        };
        assert_ne!(read(&ring), Some(12), "nobody published that");
        writer.join().unwrap();
        assert_eq!(ring.read::<0, 2>(), [11, 11]);
    });
}

/// Two writers try twice and once.
fn writers_come_one_after_another<O: Order + 'static>() {
    loom::model(|| {
        let ring = ring::<O>();
        let other = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || publish(&ring))
        };
        let mine = [publish(&ring), publish(&ring)];
        let theirs = other.join().unwrap();
        let published = mine.into_iter().chain([theirs]).filter(|&p| p).count();
        assert!(published > 0, "somebody publishes");
        assert_eq!(
            read(&ring),
            Some(10 + published as u64),
            "a publication was lost"
        );
    });
}

#[test]
fn a_reader_sees_whole_publications_in_their_order() {
    readers_see_no_half::<Sound>();
}

#[test]
fn a_reader_sees_through_a_claim_that_is_given_back() {
    a_claim_given_back_hides_nothing::<Sound>();
}

#[test]
fn writers_publish_one_after_another() {
    writers_come_one_after_another::<Sound>();
}

/// The writer does not fence between its claim and its words.
struct NoFenceBeforeWords;

impl Order for NoFenceBeforeWords {
    fn before_words() {}
}

#[test]
#[should_panic(expected = "a reader found half of a publication")]
fn a_writer_must_fence_before_its_words() {
    readers_see_no_half::<NoFenceBeforeWords>();
}

/// The reader does not fence between the words and its second look at the turn.
struct NoFenceBeforeCheck;

impl Order for NoFenceBeforeCheck {
    fn before_check() {}
}

#[test]
#[should_panic(expected = "a reader found half of a publication")]
fn a_reader_must_fence_before_its_check() {
    readers_see_no_half::<NoFenceBeforeCheck>();
}

/// The store that ends a claim does not release.
struct RelaxedEnd;

impl Order for RelaxedEnd {
    const END: Ordering = Ordering::Relaxed;
}

#[test]
#[should_panic(expected = "a reader found")]
fn a_publication_must_release() {
    readers_see_no_half::<RelaxedEnd>();
}

/// The reader's first look at the turn does not acquire.
struct RelaxedLook;

impl Order for RelaxedLook {
    const LOOK: Ordering = Ordering::Relaxed;
}

#[test]
#[should_panic(expected = "a reader found")]
fn a_look_must_acquire() {
    readers_see_no_half::<RelaxedLook>();
}

/// The claim does not acquire.
struct RelaxedClaim;

impl Order for RelaxedClaim {
    fn claim(turn: &AtomicU64) -> u64 {
        turn.fetch_or(1, Ordering::Relaxed)
    }
}

#[test]
#[should_panic(expected = "found")]
fn a_claim_must_acquire() {
    writers_come_one_after_another::<RelaxedClaim>();
}

/// Looking whether the turn is free and taking it are two steps.
struct ClaimInTwoSteps;

impl Order for ClaimInTwoSteps {
    fn claim(turn: &AtomicU64) -> u64 {
        let shown = turn.load(Ordering::Acquire);
        turn.store(shown | 1, Ordering::Release);
        shown
    }
}

#[test]
#[should_panic(expected = "a publication was lost")]
fn a_claim_must_be_one_step() {
    writers_come_one_after_another::<ClaimInTwoSteps>();
}
