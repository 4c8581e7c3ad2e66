//! Lists of ids in chunks of a cache line, one list for each slot.
//!
//! A list is a chain of chunks, each with some ids and the two neighbouring chunks. A timer's place is
//! its chunk and the position there, so removing it leaves a hole: it writes to that chunk alone, and
//! not to the timers before and after it. How full each chunk is stands in a table of its own, which
//! is small enough to stay in the cache. So the chunk is only written and never waited for.
//!
//! A chunk without ids is returned at once, so holes take no more memory than the ids that remain: at
//! worst a chunk for each id.
//!
//! To walk a list is to read its chunks in order. All ids of a chunk are known when it is read, so
//! their nodes can be loaded at the same time, which is what makes moving and expiring timers fast.

#[cfg(test)]
mod tests;

use super::deadline_slot::{LEVELS, SLOTS};
use super::nodes::{Nodes, Spot};
use crate::blocks::Blocks;

/// The number of lists: one for each slot.
pub(super) const LISTS: u32 = LEVELS * SLOTS;

/// Words of the bitmap of the lists that are not empty.
const WORDS: u32 = LISTS / 64;

/// Words of a chunk: a cache line.
const CHUNK_WORDS: u32 = 16;

/// The first word of a chunk that is an id; those before are the chunk's own.
const FIRST_ID: u32 = 2;

/// Ids of a chunk.
const IDS: u32 = CHUNK_WORDS - FIRST_ID;

/// In place of an id that was removed.
const HOLE: u32 = u32::MAX;

/// The first chunk of the table is never used. It stands for "no chunk": it is full at both ends, so
/// a list that has none needs no case of its own.
const NONE: u32 = 0;

/// In `next` and `prev` of the chunks at the ends of a list, with the number of the list.
const END: u32 = 1 << 31;

/// Chunks of a block: 4 KiB.
const BLOCK: usize = 64;

/// Fills of a block: 4 KiB.
const FILL_BLOCK: usize = 1024;

/// The lists, and a bit for each list that is not empty.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    // Invariant: each chunk of a list has at least one id.
    chunks: Blocks<Chunk, BLOCK>,
    /// By chunk.
    fills: Blocks<Fill, FILL_BLOCK>,
    ends: Box<[Ends; LISTS as usize]>,
    /// The chunks that were returned, linked by `next`.
    free: u32,
    /// The number of chunks that were ever used; those above are new.
    used: u32,
    // Invariant: bit `list % 64` of word `list / 64` is set exactly if the list has a timer.
    occupied: [u64; WORDS as usize],
    // Invariant: bit `word` is set exactly if that word of `occupied` is not 0.
    occupied_words: u32,
}

/// The chunks at the ends of a list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Ends {
    first: u32,
    last: u32,
}

/// Some ids of a list, by the words of a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Chunk {
    /// The next chunk, the one before, and the ids.
    words: [u32; CHUNK_WORDS as usize],
}

impl Chunk {
    const NEXT: usize = 0;
    const PREV: usize = 1;
    /// A chunk that was never used. It has no ids, also where its fill says that they are in use.
    const EMPTY: Self = {
        let mut words = [HOLE; CHUNK_WORDS as usize];
        (words[Self::NEXT], words[Self::PREV]) = (NONE, NONE);
        Self { words }
    };

    /// The word at a position; the mask spares the check of a bound.
    #[inline]
    fn word(&mut self, at: u32) -> &mut u32 {
        &mut self.words[(at % CHUNK_WORDS) as usize]
    }
}

/// Which positions of a chunk are in use, and how many of them have an id. In one word, so that a
/// change of both is one addition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Fill(u32);

impl Fill {
    const END: u32 = 1;
    const START: u32 = 1 << 8;
    const LIVE: u32 = 1 << 16;

    /// Of a chunk without ids that has no room either.
    const FULL: Self = Self::new(FIRST_ID, CHUNK_WORDS, 0);

    const fn new(start: u32, end: u32, live: u32) -> Self {
        Self(end * Self::END + start * Self::START + live * Self::LIVE)
    }

    #[inline]
    const fn end(self) -> u32 {
        self.0 % Self::START
    }

    #[inline]
    const fn start(self) -> u32 {
        self.0 % Self::LIVE / Self::START
    }

    #[inline]
    const fn live(self) -> u32 {
        self.0 / Self::LIVE
    }

    /// With one id more at the end.
    #[inline]
    const fn pushed_back(self) -> Self {
        Self(self.0 + Self::LIVE + Self::END)
    }

    /// With one id more at the start.
    #[inline]
    const fn pushed_front(self) -> Self {
        Self(self.0 + Self::LIVE - Self::START)
    }

    /// With one id less.
    #[inline]
    const fn removed(self) -> Self {
        Self(self.0 - Self::LIVE)
    }
}

impl Lists {
    /// Empty lists.
    pub(super) fn new() -> Self {
        let none = Ends {
            first: NONE,
            last: NONE,
        };
        let (mut chunks, mut fills) = (Blocks::new(), Blocks::new());
        chunks.cover(1, Chunk::EMPTY);
        fills.cover(1, Fill::FULL);
        Self {
            chunks,
            fills,
            ends: Box::new([none; LISTS as usize]),
            free: NONE,
            used: NONE + 1,
            occupied: [0; WORDS as usize],
            occupied_words: 0,
        }
    }

    /// Makes room for `timers` that fill their chunks.
    pub(super) fn reserve(&mut self, timers: usize) {
        let sparse = timers.min(LISTS as usize);
        let chunks = timers / IDS as usize + sparse;
        self.cover(chunks + 1);
    }

    fn cover(&mut self, chunks: usize) {
        self.chunks.cover(chunks, Chunk::EMPTY);
        self.fills.cover(chunks, Fill::FULL);
    }

    /// Adds a timer at the back of a list, if the last chunk has room. Returns its spot.
    #[inline]
    pub(super) fn try_push_back(&mut self, list: u32, id: u32) -> Option<Spot> {
        let last = self.ends[list as usize].last;
        let fill = self.fills.at_mut(last);
        let at = fill.end();
        if at >= CHUNK_WORDS {
            return None;
        }
        *fill = fill.pushed_back();
        *self.chunks.at_mut(last).word(at) = id;
        Some(Spot::in_chunk(last, at))
    }

    /// Adds a timer at the back of a list.
    pub(super) fn push_back(&mut self, list: u32, id: u32) -> Spot {
        match self.try_push_back(list, id) {
            Some(spot) => spot,
            None => self.push_back_chunk(list, id),
        }
    }

    /// Adds a timer at the back of a list, in a new chunk.
    pub(super) fn push_back_chunk(&mut self, list: u32, id: u32) -> Spot {
        let index = self.take_chunk();
        let ends = &mut self.ends[list as usize];
        let before = std::mem::replace(&mut ends.last, index);
        let prev = if before == NONE {
            ends.first = index;
            self.mark_occupied(list);
            END | list
        } else {
            self.chunks.at_mut(before).words[Chunk::NEXT] = index;
            before
        };
        let chunk = self.chunks.at_mut(index);
        (chunk.words[Chunk::NEXT], chunk.words[Chunk::PREV]) = (END | list, prev);
        *chunk.word(FIRST_ID) = id;
        *self.fills.at_mut(index) = Fill::new(FIRST_ID, FIRST_ID + 1, 1);
        Spot::in_chunk(index, FIRST_ID)
    }

    /// Adds a timer at the front of a list.
    fn push_front(&mut self, list: u32, id: u32) -> Spot {
        let first = self.ends[list as usize].first;
        let fill = self.fills.at_mut(first);
        if fill.start() <= FIRST_ID {
            return self.push_front_chunk(list, id);
        }
        *fill = fill.pushed_front();
        let at = fill.start();
        *self.chunks.at_mut(first).word(at) = id;
        Spot::in_chunk(first, at)
    }

    /// Adds a timer at the front of a list, in a new chunk.
    fn push_front_chunk(&mut self, list: u32, id: u32) -> Spot {
        let index = self.take_chunk();
        let ends = &mut self.ends[list as usize];
        let after = std::mem::replace(&mut ends.first, index);
        let next = if after == NONE {
            ends.last = index;
            self.mark_occupied(list);
            END | list
        } else {
            self.chunks.at_mut(after).words[Chunk::PREV] = index;
            after
        };
        let at = CHUNK_WORDS - 1;
        let chunk = self.chunks.at_mut(index);
        (chunk.words[Chunk::NEXT], chunk.words[Chunk::PREV]) = (next, END | list);
        *chunk.word(at) = id;
        *self.fills.at_mut(index) = Fill::new(at, CHUNK_WORDS, 1);
        Spot::in_chunk(index, at)
    }

    /// Removes the timer at a spot.
    #[inline]
    pub(super) fn remove(&mut self, spot: Spot) {
        let (index, at) = spot.chunk();
        *self.chunks.at_mut(index).word(at) = HOLE;
        let fill = self.fills.at_mut(index);
        *fill = fill.removed();
        if fill.live() == 0 {
            self.return_chunk(index);
        }
    }

    /// Removes the first timer of a list, and returns its id.
    #[inline]
    pub(super) fn pop_front(&mut self, list: u32) -> Option<u32> {
        let first = self.ends[list as usize].first;
        let (at, id) = self.ids_of(first).find(|&(_, id)| id != HOLE)?;
        let fill = self.fills.at_mut(first);
        *fill = Fill::new(at + 1, fill.end(), fill.live() - 1);
        if fill.live() == 0 {
            self.return_chunk(first);
        }
        Some(id)
    }

    /// Moves at most `count` timers from the back of `list`, each to the front of the list that
    /// `list_of` returns for its node. Returns how many it moved.
    ///
    /// They keep their order, and go ahead of the timers that are already on those lists.
    pub(super) fn cascade(
        &mut self,
        nodes: &mut Nodes,
        list: u32,
        count: usize,
        list_of: impl Fn(u32) -> u32,
    ) -> usize {
        let mut moved = 0;
        while moved < count && self.is_occupied(list) {
            let index = self.ends[list as usize].last;
            moved += self.cascade_chunk(nodes, index, count - moved, &list_of);
        }
        moved
    }

    /// As [`cascade`](Self::cascade), from one chunk.
    fn cascade_chunk(
        &mut self,
        nodes: &mut Nodes,
        index: u32,
        count: usize,
        list_of: &impl Fn(u32) -> u32,
    ) -> usize {
        let Chunk { words } = *self.chunks.at(index);
        let fill = *self.fills.at(index);
        // All nodes are read before one is written, so that the cache misses overlap. Words that are
        // not in use are ids of other timers, or none, and what is read for them is not used.
        let lows = words.map(|id| nodes.get(id).map_or(0, |node| node.low));
        let (mut at, mut moved) = (fill.end(), 0);
        while at > fill.start() && moved < count {
            at -= 1;
            let id = words[at as usize];
            if id != HOLE {
                let spot = self.push_front(list_of(lows[at as usize]), id);
                nodes.at_mut(id).spot = spot;
                moved += 1;
            }
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "at most the ids of a chunk"
        )]
        let live = fill.live() - moved as u32;
        *self.fills.at_mut(index) = Fill::new(fill.start(), at, live);
        if live == 0 {
            self.return_chunk(index);
        }
        moved
    }

    /// Empties all lists.
    pub(super) fn clear(&mut self) {
        let none = Ends {
            first: NONE,
            last: NONE,
        };
        self.ends.fill(none);
        (self.free, self.used) = (NONE, NONE + 1);
        self.occupied = [0; WORDS as usize];
        self.occupied_words = 0;
    }

    /// The lowest list that is not empty.
    #[inline]
    pub(super) fn lowest_occupied(&self) -> Option<u32> {
        if self.occupied_words == 0 {
            return None;
        }
        let word = self.occupied_words.trailing_zeros();
        let bits = self.occupied[word as usize];
        Some(word * 64 + bits.trailing_zeros())
    }

    /// Whether a list has a timer.
    #[inline]
    pub(super) fn is_occupied(&self, list: u32) -> bool {
        self.ends[list as usize].first != NONE
    }

    /// A chunk that no list has. Its ids are not initialized.
    fn take_chunk(&mut self) -> u32 {
        if self.free != NONE {
            let index = self.free;
            self.free = self.chunks.at(index).words[Chunk::NEXT];
            return index;
        }
        let index = self.used;
        assert!(index < Spot::CHUNKS, "more timers than there are ids");
        self.used += 1;
        self.cover(index as usize + 1);
        index
    }

    /// The positions of a chunk that are in use, and what is there, holes included.
    #[inline]
    fn ids_of(&self, index: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let (fill, chunk) = (self.fills.at(index), self.chunks.at(index));
        (fill.start()..fill.end()).map(|at| (at, chunk.words[(at % CHUNK_WORDS) as usize]))
    }

    /// Unlinks a chunk that has no more ids.
    #[inline(never)]
    fn return_chunk(&mut self, index: u32) {
        let [next, prev, ..] = self.chunks.at(index).words;
        // What the neighbour on each side links to from now on is the other one, or the end.
        if prev & END == 0 {
            self.chunks.at_mut(prev).words[Chunk::NEXT] = next;
        } else {
            let first = if next & END == 0 { next } else { NONE };
            self.ends[(prev & !END) as usize].first = first;
        }
        if next & END == 0 {
            self.chunks.at_mut(next).words[Chunk::PREV] = prev;
        } else {
            let last = if prev & END == 0 { prev } else { NONE };
            self.ends[(next & !END) as usize].last = last;
        }
        if prev == next {
            self.mark_empty(next & !END);
        }
        self.chunks.at_mut(index).words[Chunk::NEXT] = self.free;
        self.free = index;
    }

    #[inline]
    fn mark_occupied(&mut self, list: u32) {
        let word = list / 64;
        self.occupied[word as usize] |= 1 << (list % 64);
        self.occupied_words |= 1 << word;
    }

    #[inline]
    fn mark_empty(&mut self, list: u32) {
        let word = list / 64;
        let bits = &mut self.occupied[word as usize];
        *bits &= !(1 << (list % 64));
        if *bits == 0 {
            self.occupied_words &= !(1 << word);
        }
    }
}

#[cfg(test)]
impl Lists {
    /// Panics if an invariant does not hold; returns the number of timers.
    pub(super) fn verify(&self, nodes: &Nodes) -> usize {
        for (word, bits) in self.occupied.iter().enumerate() {
            let bit = self.occupied_words >> word & 1;
            assert_eq!(bit == 1, *bits != 0, "bit of word {word}");
        }
        let none = (self.chunks.at(NONE).words, *self.fills.at(NONE));
        assert_eq!(
            none,
            (Chunk::EMPTY.words, Fill::FULL),
            "the unused chunk was used"
        );
        let mut chunks = 1;
        let mut timers = 0;
        for list in 0..LISTS {
            let bit = self.occupied[(list / 64) as usize] >> (list % 64) & 1;
            assert_eq!(bit == 1, self.is_occupied(list), "bit of list {list}");
            let (mut index, mut before) = (self.ends[list as usize].first, END | list);
            if index == NONE {
                assert_eq!(self.ends[list as usize].last, NONE, "last of list {list}");
                continue;
            }
            while index & END == 0 {
                chunks += 1;
                assert!(chunks <= self.used, "more chunks than were used");
                let chunk = self.chunks.at(index);
                let [next, prev, ..] = chunk.words;
                assert_eq!(prev, before, "link to {index} and back");
                let live: Vec<_> = self.ids_of(index).filter(|&(_, id)| id != HOLE).collect();
                for &(at, id) in &live {
                    let spot = nodes.get(id).map(|node| node.spot);
                    assert_eq!(spot, Some(Spot::in_chunk(index, at)), "spot of {id}");
                }
                assert!(!live.is_empty(), "chunk {index} is empty");
                assert_eq!(
                    live.len(),
                    self.fills.at(index).live() as usize,
                    "ids of chunk {index}"
                );
                timers += live.len();
                (before, index) = (index, next);
            }
            assert_eq!(index, END | list, "end of list {list}");
            assert_eq!(self.ends[list as usize].last, before, "last of list {list}");
        }
        let mut free = self.free;
        while free != NONE {
            chunks += 1;
            assert!(chunks <= self.used, "more chunks than were used");
            free = self.chunks.at(free).words[Chunk::NEXT];
        }
        assert_eq!(chunks, self.used, "a chunk was lost");
        timers
    }

    /// The ids of a list, from the front.
    pub(super) fn ids(&self, list: u32) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut index = self.ends[list as usize].first;
        while index != NONE && index & END == 0 {
            ids.extend(
                self.ids_of(index)
                    .map(|(_, id)| id)
                    .filter(|&id| id != HOLE),
            );
            index = self.chunks.at(index).words[Chunk::NEXT];
        }
        ids
    }

    /// The number of chunks that are in memory.
    pub(super) fn capacity(&self) -> usize {
        self.chunks.len()
    }
}
