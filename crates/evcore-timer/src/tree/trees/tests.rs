//! The trees alone, without the queue.

use proptest::prelude::*;

use super::*;

fn trees_with(deadlines: &[u64]) -> Trees {
    let mut trees = Trees::with_capacity(0);
    for (id, &deadline) in (0..).zip(deadlines) {
        let node = trees.admit(id);
        trees.insert(TreeId::Main, node, deadline);
        trees.verify();
    }
    trees
}

fn height(trees: &Trees, node: u32) -> usize {
    if node == NIL {
        return 0;
    }
    let below = trees.at(node).children.map(|child| height(trees, child));
    1 + below[LEFT].max(below[RIGHT])
}

#[test]
fn a_timer_takes_24_bytes() {
    assert_eq!(size_of::<Node>(), 24);
}

#[test]
fn a_thousand_ordered_deadlines_are_at_most_20_levels_high() {
    for step in [1, -1] {
        let deadlines: Vec<u64> = (0..1_000)
            .map(|n: i64| (step * n + 1_000).unsigned_abs())
            .collect();
        let trees = trees_with(&deadlines);
        let root = trees.child(TreeId::Main.head(), LEFT);
        assert!(height(&trees, root) <= 20);
    }
}

#[test]
fn removing_the_first_timer_reveals_the_next() {
    let mut trees = trees_with(&[5, 3, 9, 1, 4, 8, 7, 2, 6]);
    for deadline in 1..=9 {
        let first = trees.first(TreeId::Main).unwrap();
        assert_eq!(trees.deadline(first), deadline);
        trees.remove(first);
        trees.release(first);
        trees.verify();
    }
    assert_eq!(trees.first(TreeId::Main), None);
}

#[test]
fn the_trees_are_independent() {
    let mut trees = trees_with(&[5, 6]);
    let node = trees.admit(2);
    trees.insert(TreeId::Deferred, node, 1);
    assert_eq!(trees.verify(), 3);
    assert_eq!(trees.first(TreeId::Deferred), Some(node));
    trees.remove(node);
    trees.release(node);
    assert_eq!(trees.first(TreeId::Deferred), None);
    assert_eq!(trees.deadlines(TreeId::Main).collect::<Vec<_>>(), [5, 6]);
}

#[test]
#[should_panic(expected = "and its parent are red")]
fn verify_finds_two_red_nodes_in_a_row() {
    let mut trees = trees_with(&[4, 2, 6, 1]);
    let node = trees.find(1).unwrap();
    trees.paint_red(node);
    trees.verify();
}

#[test]
#[should_panic(expected = "black heights below")]
fn verify_finds_a_path_with_too_many_black_nodes() {
    let mut trees = trees_with(&[4, 2, 6, 1]);
    let node = trees.find(3).unwrap();
    trees.paint_black(node);
    trees.verify();
}

#[test]
#[should_panic(expected = "Main is out of order")]
fn verify_finds_a_deadline_that_was_changed_in_place() {
    let mut trees = trees_with(&[4, 2, 6, 1]);
    let node = trees.find(1).unwrap();
    trees.at_mut(node).deadline = 5;
    trees.verify();
}

proptest! {
    #[test]
    fn every_insertion_and_removal_keeps_the_invariants(
        deadlines in prop::collection::vec(0..50_u64, 1..60),
        removals in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
    ) {
        let mut trees = trees_with(&deadlines);
        let mut linked: Vec<u32> = (0..).take(deadlines.len()).collect();
        for index in removals {
            if linked.is_empty() {
                break;
            }
            let id = linked.swap_remove(index.index(linked.len()));
            let node = trees.find(id).unwrap();
            trees.remove(node);
            trees.release(node);
            prop_assert_eq!(trees.verify(), linked.len());
        }
    }
}
