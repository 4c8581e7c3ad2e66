//! Tests interleavings of writers and readers of the shared clock's ring. The shipped file runs
//! over loom's atomics.
//!
//! With two slots and two publications the writer reaches the slot that a reader reads. Publication
//! `n` has the words `[10 + n; 2]`. So a reader can derive the expected words from the sequence,
//! and a slot that was never written differs from all of them. Each mutant weakens one step, and
//! its test expects the failure.
//!
//! A writer that runs during a read does not load words before it stores them. loom remembers only
//! the last access to an atomic, so the writer's load would hide the reader's, and loom would skip
//! their interleavings.

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

fn ring<O: Order>() -> Shared<O> {
    Arc::new(Ring::new([10, 10]))
}

/// Makes the next publication, and returns false if another writer holds the claim.
fn publish<O: Order>(ring: &Shared<O>) -> bool {
    let Some(claim) = ring.claim() else {
        return false;
    };
    let [n, m] = claim.last();
    assert_eq!(n, m, "a writer found a torn publication");
    claim.publish(&[n + 1, m + 1]);
    true
}

fn publish_as_only_writer<O: Order>(ring: &Shared<O>, n: u64) {
    let claim = ring.claim().expect("there is no other writer");
    claim.publish(&[10 + n; 2]);
}

/// Reads once, and returns the first word; `None` if the slot was overwritten meanwhile.
fn read<O: Order>(ring: &Shared<O>) -> Option<u64> {
    let sequence = ring.load_sequence();
    let [n, m] = ring.words_at::<0, 2>(sequence)?;
    assert_eq!(n, m, "a reader found a torn publication");
    assert_eq!(n, 10 + sequence / 2, "a reader found another publication");
    Some(n)
}

/// One writer publishes twice while a reader reads twice.
fn assert_reads_are_whole<O: Order + 'static>() {
    loom::model(|| {
        let ring = ring::<O>();
        let writer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || (1..=2).for_each(|n| publish_as_only_writer(&ring, n)))
        };
        let (first, second) = (read(&ring), read(&ring));
        assert!(
            first <= second || second.is_none(),
            "an older publication was read"
        );
        writer.join().unwrap();
        assert_eq!(ring.read::<0, 2>(), [12, 12]);
    });
}

/// A writer publishes, claims again and drops that claim, while a reader reads.
fn assert_a_dropped_claim_hides_nothing<O: Order + 'static>() {
    loom::model(|| {
        let ring = ring::<O>();
        let writer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                publish_as_only_writer(&ring, 1);
                drop(ring.claim().expect("there is no other writer"));
            })
        };
        assert_ne!(read(&ring), Some(12), "no writer published that");
        writer.join().unwrap();
        assert_eq!(ring.read::<0, 2>(), [11, 11]);
    });
}

/// Two writers try to publish, one twice and one once.
fn assert_no_publication_is_lost<O: Order + 'static>() {
    loom::model(|| {
        let ring = ring::<O>();
        let other = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || publish(&ring))
        };
        let first_two = [publish(&ring), publish(&ring)];
        let third = other.join().unwrap();
        let published = first_two.into_iter().chain([third]).filter(|&p| p).count();
        assert!(published > 0, "at least one publishes");
        assert_eq!(
            read(&ring),
            Some(10 + published as u64),
            "a publication was lost"
        );
    });
}

#[test]
fn a_reader_sees_whole_publications_in_order() {
    assert_reads_are_whole::<Sound>();
}

#[test]
fn a_dropped_claim_hides_no_publication() {
    assert_a_dropped_claim_hides_nothing::<Sound>();
}

#[test]
fn writers_publish_one_after_another() {
    assert_no_publication_is_lost::<Sound>();
}

struct NoFenceBeforeWords;

impl Order for NoFenceBeforeWords {
    fn before_words() {}
}

#[test]
#[should_panic(expected = "a reader found a torn publication")]
fn a_writer_must_fence_before_its_words() {
    assert_reads_are_whole::<NoFenceBeforeWords>();
}

struct NoFenceBeforeCheck;

impl Order for NoFenceBeforeCheck {
    fn before_check() {}
}

#[test]
#[should_panic(expected = "a reader found a torn publication")]
fn a_reader_must_fence_before_its_check() {
    assert_reads_are_whole::<NoFenceBeforeCheck>();
}

struct RelaxedEnd;

impl Order for RelaxedEnd {
    const END: Ordering = Ordering::Relaxed;
}

#[test]
#[should_panic(expected = "a reader found")]
fn a_publication_must_release() {
    assert_reads_are_whole::<RelaxedEnd>();
}

struct RelaxedLoad;

impl Order for RelaxedLoad {
    const LOAD: Ordering = Ordering::Relaxed;
}

#[test]
#[should_panic(expected = "a reader found")]
fn the_first_load_of_a_read_must_acquire() {
    assert_reads_are_whole::<RelaxedLoad>();
}

struct RelaxedClaim;

impl Order for RelaxedClaim {
    fn claim(sequence: &AtomicU64) -> u64 {
        sequence.fetch_or(1, Ordering::Relaxed)
    }
}

#[test]
#[should_panic(expected = "found")]
fn a_claim_must_acquire() {
    assert_no_publication_is_lost::<RelaxedClaim>();
}

/// Checking the sequence and making it odd are two steps.
struct ClaimInTwoSteps;

impl Order for ClaimInTwoSteps {
    fn claim(sequence: &AtomicU64) -> u64 {
        let last = sequence.load(Ordering::Acquire);
        sequence.store(last | 1, Ordering::Release);
        last
    }
}

#[test]
#[should_panic(expected = "a publication was lost")]
fn a_claim_must_be_one_step() {
    assert_no_publication_is_lost::<ClaimInTwoSteps>();
}
