//! The lists alone, without the wheel.

use super::*;

fn ids(lists: &Lists, list: u32) -> Vec<u32> {
    let mut ids = Vec::new();
    let mut node = lists.at(list).next;
    while node != list {
        ids.push(lists.id(node));
        node = lists.at(node).next;
    }
    ids
}

fn lists_with(list: u32, deadlines: &[u64]) -> Lists {
    let mut lists = Lists::with_capacity(0);
    for (id, &deadline) in (0..).zip(deadlines) {
        let node = lists.admit(id);
        lists.push_back(list, node, deadline);
    }
    lists
}

#[test]
fn a_timer_takes_16_bytes_and_all_heads_33_kib() {
    assert_eq!(size_of::<Node>(), 16);
    assert_eq!(HEADS as usize * size_of::<Node>(), 33 * 1024);
}

#[test]
fn unlinking_the_only_timer_empties_the_list() {
    let mut lists = lists_with(3, &[10]);
    assert_eq!(lists.lowest_occupied(HEADS), Some(3));
    let node = lists.find(0).unwrap();
    lists.unlink(node);
    lists.release(node);
    assert_eq!(lists.lowest_occupied(HEADS), None);
    assert_eq!(lists.verify(), 0);
}

#[test]
fn append_keeps_the_order_of_both_lists() {
    let mut lists = lists_with(3, &[10, 11]);
    for id in [7, 5] {
        let node = lists.admit(id);
        lists.push_back(700, node, 12);
    }
    lists.append(3, 700);
    assert_eq!(ids(&lists, 3), [0, 1, 7, 5]);
    assert_eq!(ids(&lists, 700), []);
    assert_eq!(lists.verify(), 4);
}

#[test]
fn a_sorted_insert_goes_behind_its_equals() {
    let mut lists = lists_with(3, &[10, 20, 20, 30]);
    for (id, deadline) in [(4, 20), (5, 0), (6, 99)] {
        let node = lists.admit(id);
        lists.insert_ordered(3, node, deadline);
    }
    assert_eq!(ids(&lists, 3), [5, 0, 1, 2, 4, 3, 6]);
    assert_eq!(lists.verify(), 7);
}

#[test]
fn a_merge_puts_equals_behind_those_already_there() {
    let mut lists = lists_with(3, &[10, 20, 30]);
    for (id, deadline) in [(3, 0), (4, 20), (5, 20), (6, 30), (7, 40)] {
        let node = lists.admit(id);
        lists.push_back(4, node, deadline);
    }
    lists.merge(3, 4);
    assert_eq!(ids(&lists, 3), [3, 0, 1, 4, 5, 2, 6, 7]);
    assert_eq!(ids(&lists, 4), []);
    assert_eq!(lists.verify(), 8);
}

#[test]
fn redistributing_the_end_of_a_list_keeps_its_start() {
    let mut lists = lists_with(3, &[10, 20, 31, 32, 33]);
    let last = lists.last_in_due_by(3, 20);
    lists.redistribute(3, last, |deadline| 100 + u32::from(deadline % 2 == 0));
    assert_eq!(ids(&lists, 3), [0, 1]);
    assert_eq!(ids(&lists, 100), [2, 4]);
    assert_eq!(ids(&lists, 101), [3]);
    assert_eq!(lists.verify(), 5);
}
