//! The heaps alone, without the queue.

use super::*;

fn heaps_with(deadlines: &[u64]) -> Heaps {
    let mut heaps = Heaps::with_capacity(0);
    for (id, &deadline) in (0..).zip(deadlines) {
        heaps.insert(HeapId::Main, id, deadline);
        heaps.verify();
    }
    heaps
}

#[test]
fn an_entry_takes_24_bytes_and_a_place_4() {
    assert_eq!((size_of::<Entry>(), size_of::<Place>()), (24, 4));
}

#[test]
fn removing_the_first_timer_reveals_the_next() {
    let mut heaps = heaps_with(&[5, 3, 9, 1, 4, 8, 7, 2, 6, 0]);
    for deadline in 0..10 {
        let (id, first) = heaps.first(HeapId::Main).unwrap();
        assert_eq!(first, deadline);
        assert!(heaps.remove(id));
        heaps.verify();
    }
    assert_eq!(heaps.first(HeapId::Main), None);
}

#[test]
fn the_last_entry_may_move_up_after_a_removal() {
    // The last entry, 12, is a child of 10. Moved below 100, it is too early there.
    let mut deadlines = vec![0, 100, 10];
    deadlines.extend([90; 2]);
    deadlines.extend([101, 102, 103, 104, 12]);
    let mut heaps = heaps_with(&deadlines);
    let (heap, index) = heaps.place(5).unwrap();
    assert_eq!(
        (heap, heaps.entries[0][(index - 1) / BRANCHES].deadline),
        (HeapId::Main, 100)
    );
    assert!(heaps.remove(5));
    heaps.verify();
}

#[test]
fn a_timer_moves_from_one_heap_to_the_other() {
    let mut heaps = heaps_with(&[5, 6]);
    heaps.insert(HeapId::Deferred, 0, 4);
    heaps.verify();
    assert_eq!(heaps.first(HeapId::Deferred), Some((0, 4)));
    assert_eq!(heaps.first(HeapId::Main), Some((1, 6)));
    assert_eq!(heaps.len(), 2);
}

#[test]
#[should_panic(expected = "entry 2 is out of order")]
fn verify_finds_a_key_that_was_changed_in_place() {
    let mut heaps = heaps_with(&[5, 6, 7]);
    heaps.entries[0][2].deadline = 4;
    heaps.verify();
}

#[test]
#[should_panic(expected = "place of 1")]
fn verify_finds_a_wrong_place() {
    let mut heaps = heaps_with(&[5, 6, 7]);
    heaps.places[1] = Place::of(HeapId::Main, 2);
    heaps.verify();
}
