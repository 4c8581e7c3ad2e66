//! The heaps by themselves, apart from what the queue means by them.

use super::*;

fn piles_with(deadlines: &[u64]) -> Piles {
    let mut piles = Piles::with_capacity(0);
    for (id, &deadline) in (0..).zip(deadlines) {
        piles.insert(Pile::Main, id, deadline);
        piles.verify();
    }
    piles
}

#[test]
fn an_entry_takes_24_bytes_and_a_place_4() {
    assert_eq!((size_of::<Entry>(), size_of::<Place>()), (24, 4));
}

#[test]
fn taking_the_first_uncovers_the_next() {
    let mut piles = piles_with(&[5, 3, 9, 1, 4, 8, 7, 2, 6, 0]);
    for deadline in 0..10 {
        let (id, first) = piles.first(Pile::Main).unwrap();
        assert_eq!(first, deadline);
        assert!(piles.remove(id));
        piles.verify();
    }
    assert_eq!(piles.first(Pile::Main), None);
}

#[test]
fn the_last_entry_may_have_to_rise_where_another_was_taken_out() {
    // The last, 12, stands below 10; taken to below 100 it is too early there.
    let mut deadlines = vec![0, 100, 10];
    deadlines.extend([90; 2]);
    deadlines.extend([101, 102, 103, 104, 12]);
    let mut piles = piles_with(&deadlines);
    let (pile, index) = piles.place(5).unwrap();
    assert_eq!(
        (pile, piles.entries[0][(index - 1) / BRANCHES].deadline),
        (Pile::Main, 100)
    );
    assert!(piles.remove(5));
    piles.verify();
}

#[test]
fn a_timer_moves_from_one_heap_to_the_other() {
    let mut piles = piles_with(&[5, 6]);
    piles.insert(Pile::Late, 0, 4);
    piles.verify();
    assert_eq!(piles.first(Pile::Late), Some((0, 4)));
    assert_eq!(piles.first(Pile::Main), Some((1, 6)));
    assert_eq!(piles.len(), 2);
}

#[test]
#[should_panic(expected = "entry 2 is out of order")]
fn verify_finds_a_key_that_changed_in_its_place() {
    let mut piles = piles_with(&[5, 6, 7]);
    piles.entries[0][2].deadline = 4;
    piles.verify();
}

#[test]
#[should_panic(expected = "place of 1")]
fn verify_finds_a_wrong_place() {
    let mut piles = piles_with(&[5, 6, 7]);
    piles.places[1] = Place::of(Pile::Main, 2);
    piles.verify();
}
