//! Tests of the lists alone, without the wheel around them.

use super::*;

fn push(lists: &mut Lists, nodes: &mut Nodes, list: u32, id: u32) {
    nodes.admit(id);
    lists.push_back(list, id, nodes.at_mut(id), id);
}

fn lists_with(list: u32, ids: std::ops::Range<u32>) -> (Lists, Nodes) {
    let (mut lists, mut nodes) = (Lists::new(), Nodes::with_capacity(0));
    for id in ids {
        push(&mut lists, &mut nodes, list, id);
    }
    (lists, nodes)
}

fn remove(lists: &mut Lists, nodes: &mut Nodes, id: u32) {
    let node = nodes.at_mut(id);
    lists.remove(node.spot);
    node.spot = Spot::UNARMED;
}

fn popped(lists: &mut Lists, nodes: &mut Nodes, list: u32) -> Vec<u32> {
    let mut ids = Vec::new();
    while let Some(id) = lists.first(list) {
        lists.pop_front(list);
        nodes.at_mut(id).spot = Spot::UNARMED;
        lists.verify(nodes);
        ids.push(id);
    }
    ids
}

#[test]
fn the_ends_take_8_kib() {
    assert_eq!(size_of::<[Ends; LISTS as usize]>(), 8 * 1024);
}

#[test]
fn timers_of_a_list_fill_a_chunk_before_the_next_is_used() {
    let (lists, nodes) = lists_with(3, 0..3 * PLACES);
    assert_eq!(
        lists.chunks.first_free(),
        NONE + 1 + 3,
        "chunks are taken in order"
    );
    assert_eq!(lists.verify(&nodes), 3 * PLACES as usize);
}

#[test]
fn reserve_makes_room_for_full_chunks_and_one_more_in_each_list() {
    const CHUNKS: usize = 64;
    // The first case: 64 full chunks, one for each of 896 timers, and the unused one.
    for (timers, chunks) in [(896, 64 + 896 + 1), (1_792, 128 + 1_024 + 1)] {
        let mut lists = Lists::new();
        lists.reserve(timers);
        assert_eq!(lists.capacity(), CHUNKS * usize::div_ceil(chunks, CHUNKS));
    }
}

#[test]
fn the_table_grows_by_a_block_when_no_chunk_is_free() {
    let mut lists = Lists::new();
    lists.reserve(0);
    assert_eq!(lists.capacity(), 0);
    let mut nodes = Nodes::with_capacity(0);
    // One chunk is never used.
    for list in 0..128 {
        push(&mut lists, &mut nodes, list, list);
        let blocks = (list + 1) / 64 + 1;
        assert_eq!(lists.capacity(), 64 * blocks as usize, "list {list}");
    }
}

#[test]
fn removing_the_only_timer_empties_the_list() {
    let (mut lists, mut nodes) = lists_with(3, 0..1);
    assert_eq!(lists.lowest_occupied(), Some(3));
    remove(&mut lists, &mut nodes, 0);
    assert_eq!(lists.ids(3), []);
    assert_eq!(lists.lowest_occupied(), Some(3), "it has a chunk");
    assert_eq!((lists.first(3), lists.first(3)), (None, None));
    assert_eq!(lists.lowest_occupied(), None);
    assert_eq!(lists.verify(&nodes), 0);
}

#[test]
fn removals_anywhere_keep_the_order_and_return_empty_chunks() {
    let ids = PLACES;
    for gone in [0..ids, ids..2 * ids, 2 * ids..3 * ids, 0..3 * ids - 1] {
        let (mut lists, mut nodes) = lists_with(700, 0..3 * ids);
        for id in gone.clone() {
            remove(&mut lists, &mut nodes, id);
            lists.verify(&nodes);
        }
        let left: Vec<u32> = (0..3 * ids).filter(|id| !gone.contains(id)).collect();
        assert_eq!(lists.ids(700), left);
    }
}

#[test]
fn an_empty_last_chunk_of_several_is_used_again() {
    let (mut lists, mut nodes) = lists_with(3, 0..PLACES + 2);
    let free = lists.chunks.first_free();
    for round in 0..3 * PLACES {
        for id in [PLACES, PLACES + 1] {
            remove(&mut lists, &mut nodes, id);
            assert_eq!(lists.verify(&nodes), (PLACES + 1) as usize);
            push(&mut lists, &mut nodes, 3, id);
        }
        assert_eq!(lists.ids(3), (0..PLACES + 2).collect::<Vec<_>>(), "{round}");
    }
    for id in [PLACES, PLACES + 1] {
        remove(&mut lists, &mut nodes, id);
    }
    push(&mut lists, &mut nodes, 3, PLACES);
    assert_eq!(lists.chunks.first_free(), free, "no other chunk was taken");
    assert_eq!(lists.verify(&nodes), (PLACES + 1) as usize);
}

#[test]
fn an_empty_last_chunk_goes_with_the_last_timer() {
    let order = [PLACES].into_iter().chain(0..PLACES);
    let (mut lists, mut nodes) = lists_with(3, 0..PLACES + 1);
    for (gone, id) in order.enumerate() {
        assert_eq!(lists.lowest_occupied(), Some(3));
        remove(&mut lists, &mut nodes, id);
        assert_eq!(lists.verify(&nodes), PLACES as usize - gone);
    }
    assert_eq!(lists.first(3), None);
    assert_eq!(lists.lowest_occupied(), None);
}

#[test]
fn a_cascade_returns_an_empty_last_chunk() {
    let (mut lists, mut nodes) = lists_with(700, 0..PLACES + 1);
    remove(&mut lists, &mut nodes, PLACES);
    assert_eq!(lists.cascade(&mut nodes, 700, 2, |_| 8), 2);
    assert_eq!(lists.verify(&nodes), PLACES as usize);
    assert_eq!(lists.ids(8), [PLACES - 2, PLACES - 1]);
}

#[test]
fn a_timer_that_comes_and_goes_takes_one_chunk() {
    let (mut lists, mut nodes) = lists_with(3, 0..1);
    let free = lists.chunks.first_free();
    for _ in 0..3 * PLACES {
        remove(&mut lists, &mut nodes, 0);
        assert_eq!(lists.verify(&nodes), 0);
        push(&mut lists, &mut nodes, 3, 0);
        assert_eq!(lists.ids(3), [0]);
        assert_eq!(lists.verify(&nodes), 1);
    }
    assert_eq!(lists.chunks.first_free(), free);
}

#[test]
fn a_cascade_goes_to_lists_that_timers_have_left() {
    // List 8 has a chunk with only holes, list 9 was popped, and a cascade filled list 10 from its
    // end.
    let (mut lists, mut nodes) = lists_with(8, 0..3);
    for id in 0..3 {
        remove(&mut lists, &mut nodes, id);
    }
    (0..3).for_each(|id| push(&mut lists, &mut nodes, 9, id));
    assert_eq!(popped(&mut lists, &mut nodes, 9), [0, 1, 2]);
    (0..3).for_each(|id| push(&mut lists, &mut nodes, 600, id));
    assert_eq!(lists.cascade(&mut nodes, 600, 3, |_| 10), 3);
    (0..3).for_each(|id| remove(&mut lists, &mut nodes, id));
    assert_eq!(lists.verify(&nodes), 0);

    (0..30).for_each(|id| push(&mut lists, &mut nodes, 700, id));
    assert_eq!(lists.cascade(&mut nodes, 700, 30, |low| 8 + low % 3), 30);
    for rest in 0..3 {
        let expected = (0..30).filter(|id| id % 3 == rest);
        assert!(lists.ids(8 + rest).into_iter().eq(expected));
    }
    assert_eq!(lists.verify(&nodes), 30);
    let taken = (0..LISTS).filter(|list| lists.has_chunk(*list)).count();
    assert_eq!(taken, 3, "the chunks of the lists before were returned");
}

#[test]
fn a_first_chunk_of_holes_is_returned_when_the_front_is_reached() {
    // The cascade takes the last place of a chunk, so timer 1 goes into the next chunk.
    let (mut lists, mut nodes) = lists_with(700, 0..1);
    assert_eq!(lists.cascade(&mut nodes, 700, 1, |_| 8), 1);
    let first = nodes.at_mut(0).spot.word() / CHUNK_WORDS;
    push(&mut lists, &mut nodes, 8, 1);
    remove(&mut lists, &mut nodes, 0);
    assert_ne!(lists.chunks.first_free(), first);
    assert_eq!(lists.verify(&nodes), 1);
    assert_eq!(lists.first(8), Some(1));
    assert_eq!(lists.chunks.first_free(), first);
    assert_eq!(lists.verify(&nodes), 1);
    remove(&mut lists, &mut nodes, 1);
    assert_eq!(lists.first(8), None);
    assert_eq!((lists.at_front(8), lists.lowest_occupied()), (None, None));
    assert_eq!(lists.verify(&nodes), 0);
}

#[test]
fn holes_before_the_front_are_used_again() {
    let (mut lists, mut nodes) = lists_with(8, 0..3);
    for id in [0, 1] {
        remove(&mut lists, &mut nodes, id);
    }
    assert_eq!(lists.first(8), Some(2));
    lists.verify(&nodes);
    (3..6).for_each(|id| push(&mut lists, &mut nodes, 700, id));
    assert_eq!(lists.cascade(&mut nodes, 700, 3, |_| 8), 3);
    assert_eq!(lists.verify(&nodes), 4);
    assert_eq!(popped(&mut lists, &mut nodes, 8), [3, 4, 5, 2]);
}

#[test]
fn returned_chunks_are_used_again() {
    let (mut lists, mut nodes) = lists_with(3, 0..40);
    let before = lists.capacity();
    for round in 0..100 {
        for id in 0..40 {
            remove(&mut lists, &mut nodes, id);
            push(&mut lists, &mut nodes, round, id);
        }
        (0..round).for_each(|list| assert_eq!(lists.first(list), None));
    }
    assert_eq!(lists.verify(&nodes), 40);
    assert_eq!(lists.capacity(), before);
}

#[test]
fn timers_are_taken_in_order_from_the_front() {
    let (mut lists, mut nodes) = lists_with(3, 0..30);
    for id in [0, 5, 12, 13, 29] {
        remove(&mut lists, &mut nodes, id);
    }
    let expected = (0..30).filter(|id| ![0, 5, 12, 13, 29].contains(id));
    assert!(expected.eq(popped(&mut lists, &mut nodes, 3)));
}

#[test]
fn a_cascade_keeps_the_order_and_goes_ahead() {
    for count in [1, 7, 13, 14, 64] {
        let (mut lists, mut nodes) = lists_with(700, 0..40);
        push(&mut lists, &mut nodes, 8, 100);
        for id in [39, 20] {
            remove(&mut lists, &mut nodes, id);
        }
        let mut left = 38;
        while left > 0 {
            let moved = lists.cascade(&mut nodes, 700, count, |low| 8 + low % 2);
            assert_eq!(moved, count.min(left));
            left -= moved;
            lists.verify(&nodes);
        }
        let even: Vec<u32> = (0..40).filter(|id| id % 2 == 0 && *id != 20).collect();
        assert_eq!(lists.ids(8), [even, vec![100]].concat());
        assert!(
            lists
                .ids(9)
                .into_iter()
                .eq((1..39).filter(|id| id % 2 == 1))
        );
        assert_eq!(lists.ids(700), []);
    }
}

#[test]
fn clear_forgets_the_timers_and_keeps_the_memory() {
    let (mut lists, mut nodes) = lists_with(3, 0..1_000);
    let before = lists.capacity();
    lists.clear();
    nodes.clear();
    assert_eq!(lists.verify(&nodes), 0);
    for id in 0..1_000 {
        push(&mut lists, &mut nodes, 5, id);
    }
    assert_eq!((lists.verify(&nodes), lists.capacity()), (1_000, before));
}

#[test]
#[should_panic(expected = "spot of 1")]
fn verify_finds_a_wrong_spot() {
    let (lists, mut nodes) = lists_with(3, 0..2);
    nodes.at_mut(1).spot = nodes.at_mut(0).spot;
    lists.verify(&nodes);
}
