//! Lists of ids in chunks of a cache line, one list for each slot.
//!
//! A list is a chain of chunks, each with some ids and the two neighbouring chunks. A timer's spot is
//! the word with its id, so removing it leaves a hole: it writes to that chunk alone, and not to the
//! timers before and after it. The chunk counts its vacant places in the same cache line. Adding a
//! timer at the back changes no count.
//!
//! A chunk whose places are all vacant is returned at once, so holes take no more memory than the ids
//! that remain: at worst a chunk for each id. The last chunk of a list stays, because the next timer
//! goes there, and so does a first chunk that is in use only from some place on. So a list without
//! timers may have chunks. It counts as occupied until the wheel [looks for its
//! first timer](Lists::first).
//!
//! To walk a list is to read its chunks in order. All ids of a chunk are known when it is read, so
//! their nodes can be loaded at the same time, which is what makes moving and expiring timers fast.

#[cfg(test)]
mod tests;
#[cfg(test)]
mod verify;

use std::ops::Range;

use super::deadline_slot::{LEVELS, SLOTS};
use super::nodes::{Node, Nodes, Spot};
use crate::blocks::Blocks;

/// The number of lists: one for each slot.
pub(super) const LISTS: u32 = LEVELS * SLOTS;

/// Words of the bitmap of the lists that are not empty.
const WORDS: u32 = LISTS / 64;

/// Words of a chunk: a cache line.
const CHUNK_WORDS: u32 = 16;

/// The word of a chunk that has the next chunk and the number of vacant places. See [`Head`].
const HEAD: u32 = 0;

/// The word of a chunk that has the chunk before.
const PREV: u32 = 1;

/// The first word of a chunk that is an id.
const FIRST_ID: u32 = 2;

/// Ids of a chunk.
const IDS: u32 = CHUNK_WORDS - FIRST_ID;

/// In place of an id that was removed.
const HOLE: u32 = u32::MAX;

/// The first chunk of the table is never used. It stands for "no chunk".
const NONE: u32 = 0;

/// In the links of the chunks at the ends of a list, plus the number of the list. Chunks have lower
/// numbers.
const END: u32 = Spot::CHUNKS - LISTS;

/// Words of a block: 4 KiB, 64 chunks.
const BLOCK: usize = 1024;

/// The lists, and a bit for each list that has a chunk.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    /// The chunks, word by word, so that a spot is an index.
    // Invariant: each chunk of a list has at least one id, except the last, and the first if words
    // before the front are not in use.
    words: Blocks<u32, BLOCK>,
    /// Not boxed: a pointer to it would take a register that arming does not have.
    ends: [Ends; LISTS as usize],
    /// The chunks that no list has, linked by their heads.
    free: u32,
    // Invariant: bit `list % 64` of word `list / 64` is set exactly if the list has a chunk.
    occupied: [u64; WORDS as usize],
    // Invariant: bit `word` is set exactly if that word of `occupied` is not 0.
    occupied_words: u32,
}

/// Where a list begins and ends. Between these two, all positions of all chunks are in use, by an id
/// or by a hole.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Ends {
    /// The first word in use; 0 if the list has no chunk. If no word is in use, it is a hole.
    front: u32,
    /// One after the last word in use: if the last chunk is full, the first word of the chunk behind
    /// it in the table. 0 if the list has no chunk.
    back: u32,
}

impl Ends {
    const NONE: Self = Self { front: 0, back: 0 };

    #[inline]
    const fn first_chunk(self) -> u32 {
        self.front / CHUNK_WORDS
    }

    /// The list must have a chunk.
    #[inline]
    const fn last_chunk(self) -> u32 {
        (self.back - 1) / CHUNK_WORDS
    }
}

/// The next chunk, and in the five highest bits the number of vacant places. It is two too high, so
/// that the highest bit is set when the last place of a chunk becomes vacant.
///
/// Vacant are the places of removed ids. The places before the front of a list and behind its back are
/// not counted.
struct Head;

impl Head {
    /// One vacant place.
    const VACANT: u32 = Spot::CHUNKS;

    #[inline]
    const fn of(next: u32, vacant: u32) -> u32 {
        (vacant + CHUNK_WORDS - IDS) * Self::VACANT + next
    }

    #[inline]
    const fn next(head: u32) -> u32 {
        head % Self::VACANT
    }

    #[cfg(test)]
    const fn vacant(head: u32) -> u32 {
        head / Self::VACANT - (CHUNK_WORDS - IDS)
    }

    #[inline]
    const fn all_vacant(head: u32) -> bool {
        head >= Self::VACANT * CHUNK_WORDS
    }

    /// With another next chunk.
    #[inline]
    const fn with_next(head: u32, next: u32) -> u32 {
        head / Self::VACANT * Self::VACANT + next
    }
}

const _: () =
    assert!(Head::all_vacant(Head::of(0, IDS)) && !Head::all_vacant(Head::of(0, IDS - 1)));

/// The list at whose end is a link, if it is not a chunk.
#[inline]
const fn list_of_end(link: u32) -> Option<u32> {
    link.checked_sub(END)
}

/// The index of a word of a chunk.
#[inline]
const fn word_of(chunk: u32, at: u32) -> u32 {
    chunk * CHUNK_WORDS + at
}

/// Counts one more vacant place in the chunk of this word. Returns whether all are vacant.
#[inline]
fn is_last_vacated(block: &mut [u32; BLOCK], word: u32) -> bool {
    let head = &mut block[head_of(word) as usize % BLOCK];
    *head += Head::VACANT;
    Head::all_vacant(*head)
}

/// The index of the head of the chunk that has this word.
#[inline]
const fn head_of(word: u32) -> u32 {
    word / CHUNK_WORDS * CHUNK_WORDS
}

impl Lists {
    /// Empty lists.
    pub(super) fn new() -> Self {
        Self {
            words: Blocks::new(),
            ends: [Ends::NONE; LISTS as usize],
            free: NONE,
            occupied: [0; WORDS as usize],
            occupied_words: 0,
        }
    }

    /// Makes room for `timers` that fill their chunks.
    pub(super) fn reserve(&mut self, timers: usize) {
        if timers > 0 {
            let sparse = timers.min(LISTS as usize);
            self.grow(timers / IDS as usize + sparse + 1);
        }
    }

    /// Makes the table at least `chunks` long. The new chunks are free.
    #[inline(never)]
    fn grow(&mut self, chunks: usize) {
        let start = self.words.len();
        self.words.cover(chunks * CHUNK_WORDS as usize, HOLE);
        self.free_all_from(start);
    }

    /// Puts all chunks from this word on the free list, the first of them in front.
    fn free_all_from(&mut self, start: usize) {
        let start = start.max(CHUNK_WORDS as usize);
        for word in (start..self.words.len())
            .step_by(CHUNK_WORDS as usize)
            .rev()
        {
            let head = u32::try_from(word).expect("more chunks than ids");
            *self.words.at_mut(head) = self.free;
            self.free = head / CHUNK_WORDS;
        }
    }

    /// Adds a timer at the back of a list, and writes its node, if the last chunk has room. Returns
    /// whether it has.
    #[inline]
    pub(super) fn try_push_back(&mut self, list: u32, id: u32, node: &mut Node, low: u32) -> bool {
        let back = &mut self.ends[list as usize].back;
        let word = *back;
        if word % CHUNK_WORDS == 0 {
            return false;
        }
        *back = word + 1;
        *node = Node::in_slot(low, word);
        let Some(place) = self.words.get_mut(word) else {
            return false;
        };
        *place = id;
        true
    }

    /// Adds a timer at the back of a list, and writes its node.
    pub(super) fn push_back(&mut self, list: u32, id: u32, node: &mut Node, low: u32) {
        if self.try_push_back(list, id, node, low) {
            return;
        }
        self.ensure_free_chunk();
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
        let list = list % LISTS; // spares the check of a bound
        let prev = self.ends[list as usize].last_chunk();
        let chunk = self.take_chunk(FIRST_ID, id, Head::of(END + list, 0), prev);
        self.set_next(prev, chunk);
        let word = word_of(chunk, FIRST_ID);
        self.ends[list as usize].back = word + 1;
        Spot::at_word(word)
    }

    /// Adds a timer to a list that has no chunk. A chunk must be free.
    fn push_first_chunk(&mut self, list: u32, id: u32) -> Spot {
        let end = END + list;
        let chunk = self.take_chunk(FIRST_ID, id, Head::of(end, 0), end);
        let front = word_of(chunk, FIRST_ID);
        let back = front + 1;
        self.ends[list as usize] = Ends { front, back };
        self.mark_occupied(list);
        Spot::at_word(front)
    }

    /// Adds a timer at the front of a list.
    #[inline]
    fn push_front(&mut self, list: u32, id: u32) -> Spot {
        let front = &mut self.ends[(list % LISTS) as usize].front;
        if *front % CHUNK_WORDS <= FIRST_ID {
            return self.push_front_chunk(list, id);
        }
        *front -= 1;
        *self.words.at_mut(*front) = id;
        Spot::at_word(*front)
    }

    /// Adds a timer at the front of a list that has no chunk or whose first chunk is full.
    fn push_front_chunk(&mut self, list: u32, id: u32) -> Spot {
        self.ensure_free_chunk();
        let end = END + list;
        let is_only = !self.has_chunk(list);
        let ends = &mut self.ends[(list % LISTS) as usize];
        let next = if is_only { end } else { ends.first_chunk() };
        let word = word_of(self.free, CHUNK_WORDS - 1);
        ends.front = word;
        if is_only {
            ends.back = word + 1;
            self.mark_occupied(list);
        } else {
            *self.words.at_mut(word_of(next, PREV)) = self.free;
        }
        self.take_chunk(CHUNK_WORDS - 1, id, Head::of(next, 0), end);
        Spot::at_word(word)
    }

    /// Removes the timer at a spot.
    #[inline]
    pub(super) fn remove(&mut self, spot: Spot) {
        let word = spot.word();
        if let Some(block) = self.words.get_block_mut(word) {
            block[word as usize % BLOCK] = HOLE;
            if !is_last_vacated(block, word) {
                return;
            }
        }
        self.return_chunk(word);
    }

    /// The first timer of a list; `None` if it has none. Then it has no chunk any more.
    #[inline]
    pub(super) fn first(&mut self, list: u32) -> Option<u32> {
        self.at_front(list)
            .or_else(|| self.first_behind_holes(list))
    }

    /// As [`first`](Self::first), but `None` also if holes are before it.
    #[inline]
    pub(super) fn at_front(&self, list: u32) -> Option<u32> {
        // A list without a chunk begins in the chunk that is never used, which has holes.
        let id = *self.words.at(self.ends[(list % LISTS) as usize].front);
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

    /// As [`first`](Self::first). The timer is at the front then.
    #[inline(never)]
    fn first_behind_holes(&mut self, list: u32) -> Option<u32> {
        // Of the chunks behind the first each but the last has a timer, so the third is not read.
        while self.has_chunk(list) {
            let used = self.used_words(list, self.ends[list as usize].first_chunk());
            let words = self.chunk(head_of(used.start));
            let has_id = |word: &u32| words[(word % CHUNK_WORDS) as usize] != HOLE;
            if let Some(word) = used.clone().find(has_id) {
                *self.words.at_mut(head_of(word)) -= (word - used.start) * Head::VACANT;
                self.ends[list as usize].front = word;
                return Some(words[(word % CHUNK_WORDS) as usize]);
            }
            self.return_first_chunk(list);
        }
        None
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
        while moved < count && self.has_chunk(list) {
            moved += self.cascade_chunk(nodes, list, count - moved, &list_of);
        }
        moved
    }

    /// As [`cascade`](Self::cascade), from the last chunk.
    #[inline]
    fn cascade_chunk(
        &mut self,
        nodes: &mut Nodes,
        list: u32,
        count: usize,
        list_of: &impl Fn(u32) -> u32,
    ) -> usize {
        let used = self.used_words(list, self.ends[list as usize].last_chunk());
        let words = self.chunk(head_of(used.start));
        // All nodes are read before one is written, so that the cache misses overlap.
        let mut lists = [0; CHUNK_WORDS as usize];
        for word in used.clone() {
            let at = (word % CHUNK_WORDS) as usize;
            lists[at] = nodes.get(words[at]).map_or(0, |node| list_of(node.low));
        }
        let (mut word, mut moved, mut holes) = (used.end, 0, 0);
        while word > used.start {
            let at = ((word - 1) % CHUNK_WORDS) as usize;
            if words[at] == HOLE {
                holes += 1;
            } else if moved < count {
                let spot = self.push_front(lists[at], words[at]);
                nodes.at_mut(words[at]).spot = spot;
                moved += 1;
            } else {
                break;
            }
            word -= 1;
        }
        if word == used.start {
            self.return_last_chunk(list);
        } else {
            self.ends[list as usize].back = word;
            *self.words.at_mut(head_of(word - 1)) -= holes * Head::VACANT;
        }
        moved
    }

    /// Empties all lists.
    pub(super) fn clear(&mut self) {
        self.ends.fill(Ends::NONE);
        self.free = NONE;
        self.free_all_from(0);
        self.occupied = [0; WORDS as usize];
        self.occupied_words = 0;
    }

    /// The lowest list that has a chunk. It may have no [timer](Self::first).
    #[inline]
    pub(super) fn lowest_occupied(&self) -> Option<u32> {
        if self.occupied_words == 0 {
            return None;
        }
        let word = self.occupied_words.trailing_zeros();
        let bits = self.occupied[word as usize];
        Some(word * 64 + bits.trailing_zeros())
    }

    /// Whether a list has a chunk, and another one is free.
    #[inline]
    pub(super) fn can_grow(&self, list: u32) -> bool {
        self.has_chunk(list) && self.has_free_chunk()
    }

    /// Whether a list has a chunk.
    #[inline]
    pub(super) fn has_chunk(&self, list: u32) -> bool {
        self.ends[list as usize].front != NONE
    }

    /// Whether there is a chunk that no list has.
    #[inline]
    fn has_free_chunk(&self) -> bool {
        self.free != NONE
    }

    /// Takes a chunk off the free list, and writes its first words and its first id.
    #[inline]
    fn take_chunk(&mut self, at: u32, id: u32, new_head: u32, prev: u32) -> u32 {
        debug_assert!(self.has_free_chunk(), "no chunk is free");
        let chunk = self.free;
        let head = word_of(chunk, HEAD);
        let block = self.words.block_mut(head);
        let head = head as usize % BLOCK;
        self.free = block[head];
        block[head] = new_head;
        block[head | PREV as usize] = prev;
        block[head | at as usize] = id;
        chunk
    }

    #[inline]
    fn ensure_free_chunk(&mut self) {
        if !self.has_free_chunk() {
            self.grow(self.words.len() / CHUNK_WORDS as usize + 1);
        }
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
            word_of(chunk, FIRST_ID)
        };
        let end = if is_last {
            ends.back
        } else {
            word_of(chunk, CHUNK_WORDS)
        };
        start..end
    }

    /// All words of the chunk with this head.
    #[inline]
    fn chunk(&self, head: u32) -> [u32; CHUNK_WORDS as usize] {
        let start = head as usize % BLOCK;
        let (chunk, _) = self.words.block(head)[start..]
            .split_first_chunk()
            .expect("a block has whole chunks");
        *chunk
    }

    /// Returns the chunk of a word, whose places are all vacant. The last of a list begins anew.
    #[inline(never)]
    fn return_chunk(&mut self, word: u32) {
        let first = head_of(word) + FIRST_ID;
        let block = self.words.block_mut(word);
        let head = head_of(word) as usize % BLOCK;
        let (next, prev) = (Head::next(block[head]), block[head | PREV as usize]);
        let Some(list) = list_of_end(next) else {
            return self.return_chunk_before(word / CHUNK_WORDS, prev, next);
        };
        block[head] = Head::of(next, 0);
        let ends = &mut self.ends[(list % LISTS) as usize];
        ends.back = first;
        if list_of_end(prev).is_some() {
            ends.front = first;
        }
    }

    /// Returns a chunk that is before another.
    #[inline]
    fn return_chunk_before(&mut self, chunk: u32, prev: u32, next: u32) {
        self.put_free(chunk);
        match list_of_end(prev) {
            None => self.set_next(prev, next),
            Some(list) => self.ends[(list % LISTS) as usize].front = word_of(next, FIRST_ID),
        }
        *self.words.at_mut(word_of(next, PREV)) = prev;
    }

    /// Returns the last chunk of a list, which has no more ids.
    #[inline]
    fn return_last_chunk(&mut self, list: u32) {
        let chunk = self.ends[list as usize].last_chunk();
        let prev = *self.words.at(word_of(chunk, PREV));
        self.put_free(chunk);
        if list_of_end(prev).is_some() {
            self.mark_empty(list);
        } else {
            self.set_next(prev, END + list);
            self.ends[list as usize].back = word_of(prev, CHUNK_WORDS);
        }
    }

    /// Returns the first chunk of a list, which has no more ids.
    #[inline(never)]
    fn return_first_chunk(&mut self, list: u32) {
        let chunk = self.ends[list as usize].first_chunk();
        let next = Head::next(*self.words.at(word_of(chunk, HEAD)));
        if list_of_end(next).is_some() {
            self.return_only_chunk(list);
        } else {
            self.return_chunk_before(chunk, END + list, next);
        }
    }

    /// Returns the only chunk of a list, which has no more ids.
    #[inline]
    fn return_only_chunk(&mut self, list: u32) {
        self.put_free(self.ends[(list % LISTS) as usize].first_chunk());
        self.mark_empty(list);
    }

    #[inline]
    fn put_free(&mut self, chunk: u32) {
        *self.words.at_mut(word_of(chunk, HEAD)) = self.free;
        self.free = chunk;
    }

    /// Changes the link to the next chunk.
    #[inline]
    fn set_next(&mut self, chunk: u32, next: u32) {
        let head = self.words.at_mut(word_of(chunk, HEAD));
        *head = Head::with_next(*head, next);
    }

    #[inline]
    fn mark_occupied(&mut self, list: u32) {
        let word = list / 64;
        self.occupied[word as usize] |= 1 << (list % 64);
        self.occupied_words |= 1 << word;
    }

    /// Forgets the ends of a list that has no more chunks.
    #[inline]
    fn mark_empty(&mut self, list: u32) {
        self.ends[(list % LISTS) as usize] = Ends::NONE;
        let word = list / 64 % WORDS;
        let bits = &mut self.occupied[word as usize];
        *bits &= !(1 << (list % 64));
        if *bits == 0 {
            self.occupied_words &= !(1 << word);
        }
    }
}
