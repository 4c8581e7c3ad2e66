//! Lists of ids in chunks of a cache line, one list for each slot.
//!
//! A list is a chain of chunks, each with some ids and links to its two neighbours. A timer's spot
//! is the place with its id. Removing the timer leaves a *hole* there, which the chunk counts in
//! the same cache line. So a removal mostly writes to no other timer and to no other chunk.
//!
//! ```text
//!  ends[7].front                      list 7 holds the timers 5, 9, 2, 4, 6 in this order
//!       │
//!       │       0    1    2   3   4   5   6       15       the words of a chunk
//!       │    ┌─────┬─────┬───┬───┬───┬───┬───┬ ─ ┬───┐
//!       │    │ head│ prev│ · │ · │ 5 │ o │ 9 │   │ 2 │     chunk 3
//!       │    └──┼──┴──┼──┴───┴───┴─▲─┴───┴───┴ ─ ┴───┘
//!       └───────┼─────┼────────────┘
//!               │     └─► end of list 7                    · not in use: before the front,
//!               ▼                                            or behind the back
//!            ┌─────┬─────┬───┬───┬───┬───┬───┬ ─ ┬───┐
//!            │ head│ prev│ 4 │ o │ 6 │ · │ · │   │ · │     o a hole: its timer was removed
//!            └──┼──┴──┼──┴───┴───┴───┴─▲─┴───┴ ─ ┴───┘
//!               │     └─► chunk 3      │                   chunk 8
//!               └─► end of list 7      └── ends[7].back
//! ```
//!
//! A place of a chunk is an *id*, a *hole*, or not in use, where its value has no meaning. Only
//! holes between front and back are counted.
//!
//! A list has one of four states:
//!
//! | state | chunks | front and back |
//! |---|---|---|
//! | *bare* | none | both 0 |
//! | *left* | one or two, and they have no id | the front is a hole, or equal to the back |
//! | *open* | some, and the last has room | the back is in the last chunk |
//! | *full* | some, and the last has no room | the back is the first word behind the last chunk |
//!
//! A chunk is freed as soon as its last id is removed, with two exceptions. The last chunk of a
//! list stays, because the next timer goes there. The first chunk stays if its first places are not
//! in use, because it then never counts 14 holes. So a list may be *left*. It counts as occupied
//! until the wheel [looks for its first timer](Lists::first).
//!
//! All ids of a chunk are known when the chunk is read, so their nodes can be loaded at the same
//! time. That makes moving timers fast.

mod chunks;
mod occupied;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod verify;

use std::ops::Range;

use self::chunks::{
    CHUNK_WORDS, Chunks, FIRST_PLACE, HOLE, Link, NONE, PLACES, at, chunk_of, word_of,
};
use self::occupied::Occupied;
use super::deadline_slot::{LEVELS, SLOTS};
use super::nodes::{Node, Nodes, Spot};

/// The number of lists: one for each slot.
pub(super) const LISTS: u32 = LEVELS * SLOTS;

#[derive(Clone, Debug)]
pub(super) struct Lists {
    // Invariant: each chunk of a list has at least one id, except the last, and the first if words
    // before the front are not in use.
    chunks: Chunks,
    /// The ends of each list. They are not boxed, because arming has no register left for the
    /// pointer.
    ends: [Ends; LISTS as usize],
    // Invariant: the set of the lists that are not bare.
    occupied: Occupied,
}

/// The beginning and the end of a list. All places between them are ids or holes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Ends {
    /// The first word in use; 0 if the list is bare. If no word is in use, the word at `front` is a
    /// hole.
    front: u32,
    /// The word behind the last one in use; 0 if the list is bare.
    back: u32,
}

impl Ends {
    const BARE: Self = Self { front: 0, back: 0 };

    #[inline]
    const fn first_chunk(self) -> u32 {
        chunk_of(self.front)
    }

    /// The last chunk of a list, which must have one.
    #[inline]
    const fn last_chunk(self) -> u32 {
        chunk_of(self.back - 1)
    }

    /// Returns whether the list has no chunk, or its last chunk is full.
    #[inline]
    const fn is_full(self) -> bool {
        self.back % CHUNK_WORDS == 0
    }
}

impl Lists {
    pub(super) fn new() -> Self {
        Self {
            chunks: Chunks::new(),
            ends: [Ends::BARE; LISTS as usize],
            occupied: Occupied::EMPTY,
        }
    }

    /// Makes room for `timers` timers in full chunks, and for one more chunk in each list that they
    /// may use.
    pub(super) fn reserve(&mut self, timers: usize) {
        if timers > 0 {
            let sparse = timers.min(LISTS as usize);
            self.chunks.grow(timers / PLACES as usize + sparse + 1);
        }
    }

    /// Adds a timer at the back of a list, and writes its node, if the last chunk has room. Returns
    /// whether it had room.
    #[inline]
    pub(super) fn try_push_back(&mut self, list: u32, id: u32, node: &mut Node, low: u32) -> bool {
        let ends = &mut self.ends[list as usize];
        if ends.is_full() {
            return false;
        }
        let word = ends.back;
        ends.back = word + 1;
        *node = Node::in_slot(low, word);
        self.chunks.try_set_id(word, id)
    }

    pub(super) fn push_back(&mut self, list: u32, id: u32, node: &mut Node, low: u32) {
        if self.try_push_back(list, id, node, low) {
            return;
        }
        self.chunks.ensure_free();
        let spot = if self.has_chunk(list) {
            self.push_back_chunk(list, id)
        } else {
            self.push_first_chunk(list, id)
        };
        *node = Node { low, spot };
    }

    /// Adds a timer at the back of a list whose last chunk is full. A chunk must be free.
    #[inline]
    pub(super) fn push_back_chunk(&mut self, list: u32, id: u32) -> Spot {
        let list = list % LISTS; // saves a check of bounds
        let prev = self.ends[list as usize].last_chunk();
        let (before, end) = (Link::to_chunk(prev), Link::end_of(list));
        let chunk = self.chunks.take(before, end, FIRST_PLACE, id);
        self.chunks.set_next(prev, Link::to_chunk(chunk));
        let word = word_of(chunk, FIRST_PLACE);
        self.ends[list as usize].back = word + 1;
        Spot::at_word(word)
    }

    /// Adds a timer to a list that has no chunk. A chunk must be free.
    fn push_first_chunk(&mut self, list: u32, id: u32) -> Spot {
        let end = Link::end_of(list);
        let chunk = self.chunks.take(end, end, FIRST_PLACE, id);
        let front = word_of(chunk, FIRST_PLACE);
        let back = front + 1;
        self.ends[list as usize] = Ends { front, back };
        self.occupied.insert(list);
        Spot::at_word(front)
    }

    #[inline]
    fn push_front(&mut self, list: u32, id: u32) -> Spot {
        let front = &mut self.ends[(list % LISTS) as usize].front;
        if *front % CHUNK_WORDS <= FIRST_PLACE {
            return self.push_front_chunk(list, id);
        }
        *front -= 1;
        self.chunks.set_id(*front, id);
        Spot::at_word(*front)
    }

    /// Adds a timer at the front of a list that has no chunk or whose first chunk is full.
    fn push_front_chunk(&mut self, list: u32, id: u32) -> Spot {
        self.chunks.ensure_free();
        let ends = self.ends[(list % LISTS) as usize];
        let (end, place) = (Link::end_of(list), CHUNK_WORDS - 1);
        let word = if ends == Ends::BARE {
            let word = word_of(self.chunks.take(end, end, place, id), place);
            self.ends[(list % LISTS) as usize].back = word + 1;
            self.occupied.insert(list);
            word
        } else {
            let next = ends.first_chunk();
            let chunk = self.chunks.take(end, Link::to_chunk(next), place, id);
            self.chunks.set_prev(next, Link::to_chunk(chunk));
            word_of(chunk, place)
        };
        self.ends[(list % LISTS) as usize].front = word;
        Spot::at_word(word)
    }

    #[inline]
    pub(super) fn remove(&mut self, spot: Spot) {
        let word = spot.word();
        if self.chunks.make_hole(word) {
            self.return_chunk(chunk_of(word));
        }
    }

    /// The first timer of a list, which is afterwards at the front. If the list has no timer, its
    /// chunks are freed.
    #[inline]
    pub(super) fn first(&mut self, list: u32) -> Option<u32> {
        self.at_front(list)
            .or_else(|| self.first_behind_holes(list))
    }

    /// The first timer of a list, if no hole precedes it.
    #[inline]
    pub(super) fn at_front(&self, list: u32) -> Option<u32> {
        // A list without a chunk begins in the chunk that is never used, which has holes.
        let id = self.chunks.id(self.ends[(list % LISTS) as usize].front);
        (id != HOLE).then_some(id)
    }

    /// Removes the timer that is [at the front](Self::at_front) of a list.
    #[inline(always)]
    pub(super) fn pop_front(&mut self, list: u32) {
        let Ends { front, back } = &mut self.ends[(list % LISTS) as usize];
        let next = *front + 1;
        if next == *back {
            self.return_only_chunk(list);
        } else if next % CHUNK_WORDS == 0 {
            self.return_first_chunk(list);
        } else {
            *front = next;
        }
    }

    #[inline(never)]
    fn first_behind_holes(&mut self, list: u32) -> Option<u32> {
        // Each chunk between the first and the last has a timer, so a third chunk is never read.
        while self.has_chunk(list) {
            let chunk = self.ends[list as usize].first_chunk();
            let used = self.used_words(list, chunk);
            let words = self.chunks.words(chunk);
            if let Some(word) = used.clone().find(|&word| words[at(word)] != HOLE) {
                self.chunks.leave_holes(chunk, word - used.start);
                self.ends[list as usize].front = word;
                return Some(words[at(word)]);
            }
            self.return_first_chunk(list);
        }
        None
    }

    /// Moves at most `count` timers from the back of `list`, each to the front of the list that
    /// `list_of` returns for the low half of its deadline. Returns the number of moved timers,
    /// which keep their order.
    pub(super) fn cascade(
        &mut self,
        nodes: &mut Nodes,
        list: u32,
        count: usize,
        list_of: impl Fn(u32) -> u32,
    ) -> usize {
        let mut moved = 0;
        while moved < count && self.has_chunk(list) {
            moved += self.cascade_chunk(nodes, list, count - moved, &list_of);
        }
        moved
    }

    /// Like [`cascade`](Self::cascade), but only from the last chunk.
    #[inline]
    fn cascade_chunk(
        &mut self,
        nodes: &mut Nodes,
        list: u32,
        count: usize,
        list_of: &impl Fn(u32) -> u32,
    ) -> usize {
        let chunk = self.ends[list as usize].last_chunk();
        let used = self.used_words(list, chunk);
        let words = self.chunks.words(chunk);
        // All nodes are read before the first is written, so that the cache misses overlap.
        let mut lists = [0; CHUNK_WORDS as usize];
        for word in used.clone() {
            let id = words[at(word)];
            lists[at(word)] = nodes.get(id).map_or(0, |node| list_of(node.low));
        }
        let (mut back, mut moved, mut holes) = (used.end, 0, 0);
        while back > used.start {
            let last = at(back - 1);
            if words[last] == HOLE {
                holes += 1;
            } else if moved < count {
                let spot = self.push_front(lists[last], words[last]);
                nodes.at_mut(words[last]).spot = spot;
                moved += 1;
            } else {
                break;
            }
            back -= 1;
        }
        if back == used.start {
            self.return_last_chunk(list);
        } else {
            self.ends[list as usize].back = back;
            self.chunks.leave_holes(chunk, holes);
        }
        moved
    }

    pub(super) fn clear(&mut self) {
        self.ends.fill(Ends::BARE);
        self.chunks.clear();
        self.occupied = Occupied::EMPTY;
    }

    /// The lowest list that has a chunk. The list may have no [timer](Self::first).
    #[inline]
    pub(super) fn lowest_occupied(&self) -> Option<u32> {
        self.occupied.first()
    }

    #[inline]
    pub(super) fn can_grow(&self, list: u32) -> bool {
        self.has_chunk(list) && self.chunks.has_free()
    }

    #[inline]
    pub(super) fn has_chunk(&self, list: u32) -> bool {
        self.ends[list as usize].front != NONE
    }

    /// The words of a chunk of a list that are in use, by ids and holes.
    #[inline]
    fn used_words(&self, list: u32, chunk: u32) -> Range<u32> {
        let ends = self.ends[list as usize];
        let is_first = ends.first_chunk() == chunk;
        let is_last = ends.last_chunk() == chunk;
        let start = if is_first {
            ends.front
        } else {
            word_of(chunk, FIRST_PLACE)
        };
        let end = if is_last {
            ends.back
        } else {
            word_of(chunk, CHUNK_WORDS)
        };
        start..end
    }

    /// Frees a chunk that has only holes. The last chunk of a list stays, and is filled again from
    /// its first place.
    #[inline(never)]
    fn return_chunk(&mut self, chunk: u32) {
        let (prev, next) = self.chunks.neighbours(chunk);
        let Some(list) = next.list() else {
            return self.return_chunk_before(chunk, prev, next);
        };
        self.chunks.forget_holes(chunk);
        let first = word_of(chunk, FIRST_PLACE);
        let ends = &mut self.ends[(list % LISTS) as usize];
        ends.back = first;
        if prev.list().is_some() {
            ends.front = first;
        }
    }

    /// Frees a chunk that is before another.
    #[inline]
    fn return_chunk_before(&mut self, chunk: u32, prev: Link, next: Link) {
        self.chunks.put_free(chunk);
        let first = word_of(next.chunk(), FIRST_PLACE);
        match prev.list() {
            None => self.chunks.set_next(prev.chunk(), next),
            Some(list) => self.ends[(list % LISTS) as usize].front = first,
        }
        self.chunks.set_prev(next.chunk(), prev);
    }

    /// Frees the last chunk of a list, which has no ids.
    #[inline]
    fn return_last_chunk(&mut self, list: u32) {
        let chunk = self.ends[list as usize].last_chunk();
        let prev = self.chunks.prev(chunk);
        self.chunks.put_free(chunk);
        if prev.list().is_some() {
            self.mark_bare(list);
        } else {
            self.chunks.set_next(prev.chunk(), Link::end_of(list));
            self.ends[list as usize].back = word_of(prev.chunk(), CHUNK_WORDS);
        }
    }

    /// Frees the first chunk of a list, which has no ids.
    #[inline(never)]
    fn return_first_chunk(&mut self, list: u32) {
        let chunk = self.ends[list as usize].first_chunk();
        let next = self.chunks.next(chunk);
        if next.list().is_some() {
            self.return_only_chunk(list);
        } else {
            self.return_chunk_before(chunk, Link::end_of(list), next);
        }
    }

    /// Frees the only chunk of a list, which has no ids.
    #[inline]
    fn return_only_chunk(&mut self, list: u32) {
        self.chunks
            .put_free(self.ends[(list % LISTS) as usize].first_chunk());
        self.mark_bare(list);
    }

    #[inline]
    fn mark_bare(&mut self, list: u32) {
        self.ends[(list % LISTS) as usize] = Ends::BARE;
        self.occupied.remove(list);
    }
}
