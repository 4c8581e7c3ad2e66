//! The trees by themselves, apart from what the queue means by them.

use proptest::prelude::*;

use super::*;

fn forest_with(deadlines: &[u64]) -> Forest {
    let mut forest = Forest::with_capacity(0);
    for (id, &deadline) in (0..).zip(deadlines) {
        let node = forest.admit(id);
        forest.insert(Tree::Main, node, deadline);
        forest.verify();
    }
    forest
}

fn height(forest: &Forest, node: u32) -> usize {
    if node == NIL {
        return 0;
    }
    let below = forest.at(node).children.map(|child| height(forest, child));
    1 + below[LEFT].max(below[RIGHT])
}

#[test]
fn a_timer_takes_24_bytes() {
    assert_eq!(size_of::<Node>(), 24);
}

#[test]
fn a_thousand_deadlines_in_order_stand_at_most_20_high() {
    for step in [1, -1] {
        let deadlines: Vec<u64> = (0..1_000)
            .map(|n: i64| (step * n + 1_000).unsigned_abs())
            .collect();
        let forest = forest_with(&deadlines);
        let root = forest.child(Tree::Main.head(), LEFT);
        assert!(height(&forest, root) <= 20);
    }
}

#[test]
fn removing_the_first_uncovers_the_next() {
    let mut forest = forest_with(&[5, 3, 9, 1, 4, 8, 7, 2, 6]);
    for deadline in 1..=9 {
        let first = forest.first(Tree::Main).unwrap();
        assert_eq!(forest.deadline(first), deadline);
        forest.remove(first);
        forest.release(first);
        forest.verify();
    }
    assert_eq!(forest.first(Tree::Main), None);
}

#[test]
fn the_trees_are_apart() {
    let mut forest = forest_with(&[5, 6]);
    let node = forest.admit(2);
    forest.insert(Tree::Late, node, 1);
    assert_eq!(forest.verify(), 3);
    assert_eq!(forest.first(Tree::Late), Some(node));
    forest.remove(node);
    forest.release(node);
    assert_eq!(forest.first(Tree::Late), None);
    assert_eq!(forest.deadlines(Tree::Main).collect::<Vec<_>>(), [5, 6]);
}

#[test]
#[should_panic(expected = "and its parent are red")]
fn verify_finds_two_red_nodes_in_a_row() {
    let mut forest = forest_with(&[4, 2, 6, 1]);
    let node = forest.find(1).unwrap();
    forest.paint_red(node);
    forest.verify();
}

#[test]
#[should_panic(expected = "black heights below")]
fn verify_finds_a_path_with_too_many_black_nodes() {
    let mut forest = forest_with(&[4, 2, 6, 1]);
    let node = forest.find(3).unwrap();
    forest.paint_black(node);
    forest.verify();
}

#[test]
#[should_panic(expected = "Main is out of order")]
fn verify_finds_a_deadline_that_changed_in_its_place() {
    let mut forest = forest_with(&[4, 2, 6, 1]);
    let node = forest.find(1).unwrap();
    forest.at_mut(node).deadline = 5;
    forest.verify();
}

proptest! {
    #[test]
    fn every_insertion_and_removal_keeps_the_rules(
        deadlines in prop::collection::vec(0..50_u64, 1..60),
        removals in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
    ) {
        let mut forest = forest_with(&deadlines);
        let mut linked: Vec<u32> = (0..).take(deadlines.len()).collect();
        for index in removals {
            if linked.is_empty() {
                break;
            }
            let id = linked.swap_remove(index.index(linked.len()));
            let node = forest.find(id).unwrap();
            forest.remove(node);
            forest.release(node);
            prop_assert_eq!(forest.verify(), linked.len());
        }
    }
}
