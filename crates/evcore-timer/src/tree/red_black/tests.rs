//! Tests of the red-black tree alone, without the timer queue around it.

use proptest::prelude::*;

use super::*;

fn tree_with(deadlines: &[u64]) -> RedBlackTree {
    let mut tree = RedBlackTree::with_capacity(0);
    for (id, &deadline) in (0..).zip(deadlines) {
        let node = tree.admit(id);
        tree.insert(node, deadline);
        tree.verify();
    }
    tree
}

fn height(tree: &RedBlackTree, node: u32) -> usize {
    if node == NIL {
        return 0;
    }
    let below = tree.at(node).children.map(|child| height(tree, child));
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
        let tree = tree_with(&deadlines);
        let root = tree.child(HEAD, LEFT);
        assert!(height(&tree, root) <= 20);
    }
}

#[test]
fn removing_the_first_timer_reveals_the_next() {
    let mut tree = tree_with(&[5, 3, 9, 1, 4, 8, 7, 2, 6]);
    for deadline in 1..=9 {
        let first = tree.first().unwrap();
        assert_eq!(tree.deadline(first), deadline);
        tree.remove(first);
        tree.release(first);
        tree.verify();
    }
    assert_eq!(tree.first(), None);
}

#[test]
fn a_node_holds_the_place_of_a_timer_that_is_on_a_heap() {
    let mut tree = tree_with(&[5, 6]);
    let node = tree.find(0).unwrap();
    assert_eq!(tree.spot(node), Spot::InTree);
    tree.remove(node);
    let place = Place::from_bits(Place::MAX);
    tree.set_place(node, place);
    assert_eq!(tree.spot(node), Spot::OnHeap(place));
    assert_eq!(tree.verify(), 1);
    tree.release(node);
    assert_eq!(tree.spot(node), Spot::Unarmed);
}

#[test]
#[should_panic(expected = "and its parent are red")]
fn verify_finds_two_red_nodes_in_a_row() {
    let mut tree = tree_with(&[4, 2, 6, 1]);
    let node = tree.find(1).unwrap();
    tree.paint_red(node);
    tree.verify();
}

#[test]
#[should_panic(expected = "black heights below")]
fn verify_finds_a_path_with_too_many_black_nodes() {
    let mut tree = tree_with(&[4, 2, 6, 1]);
    let node = tree.find(3).unwrap();
    tree.paint_black(node);
    tree.verify();
}

#[test]
#[should_panic(expected = "the tree is out of order")]
fn verify_finds_a_deadline_that_was_changed_in_place() {
    let mut tree = tree_with(&[4, 2, 6, 1]);
    let node = tree.find(1).unwrap();
    tree.at_mut(node).deadline = 5;
    tree.verify();
}

proptest! {
    #[test]
    fn every_insertion_and_removal_keeps_the_invariants(
        deadlines in prop::collection::vec(0..50_u64, 1..60),
        removals in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
    ) {
        let mut tree = tree_with(&deadlines);
        let mut linked: Vec<u32> = (0..).take(deadlines.len()).collect();
        for index in removals {
            if linked.is_empty() {
                break;
            }
            let id = linked.swap_remove(index.index(linked.len()));
            let node = tree.find(id).unwrap();
            tree.remove(node);
            tree.release(node);
            prop_assert_eq!(tree.verify(), linked.len());
        }
    }
}
