//! The memory for chunks. A chunk is a cache line of words, most of which store ids of timers. The
//! chunks that are not in use form a chain. The [lists](super) keep the order of timers.

use crate::blocks::Blocks;
use crate::wheel::nodes::Spot;

use super::LISTS;

/// Number of words in a chunk: a cache line.
pub(super) const CHUNK_WORDS: u32 = 16;

/// The first word of a chunk that is a place for an id.
pub(super) const FIRST_PLACE: u32 = 2;

/// Number of places for ids in a chunk.
pub(super) const PLACES: u32 = CHUNK_WORDS - FIRST_PLACE;

/// The value of a place whose timer was removed.
pub(super) const HOLE: u32 = u32::MAX;

/// The number of the first chunk, which is never used: it stands for "no chunk", and its places are
/// holes.
pub(super) const NONE: u32 = 0;

/// The position in a chunk of the word that stores the next link and the number of holes: see
/// [`Head`]. In a free chunk this word stores the next free chunk.
const HEAD: u32 = 0;

/// The position in a chunk of the word that stores the previous link.
const PREV: u32 = 1;

/// Number of words in a block: 4 KiB, 64 chunks.
const BLOCK: usize = 1024;

/// The neighbour of a chunk, as a number. It is another chunk, or an end of a list.
///
/// A chunk has a number below [`END`](Self::END), and the end of list `n` has the number `END + n`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Link(u32);

impl Link {
    const END: u32 = Spot::CHUNKS - LISTS;

    #[inline]
    pub(super) const fn to_chunk(chunk: u32) -> Self {
        Self(chunk)
    }

    #[inline]
    pub(super) const fn end_of(list: u32) -> Self {
        Self(Self::END + list)
    }

    #[inline]
    pub(super) const fn list(self) -> Option<u32> {
        self.0.checked_sub(Self::END)
    }

    /// The chunk of a link that is not an end.
    #[inline]
    pub(super) const fn chunk(self) -> u32 {
        self.0
    }
}

/// The first word of a chunk: the next link in the low 27 bits, and the number of holes plus 2 in
/// the high 5. So a chunk whose 14 places are holes stores 16, and the highest bit of the word
/// shows that the chunk has no timer.
struct Head;

impl Head {
    const ONE_HOLE: u32 = Spot::CHUNKS;

    #[inline]
    const fn of(next: Link, holes: u32) -> u32 {
        (holes + CHUNK_WORDS - PLACES) * Self::ONE_HOLE + next.0
    }

    #[inline]
    const fn next(head: u32) -> Link {
        Link(head % Self::ONE_HOLE)
    }

    #[cfg(test)]
    const fn holes(head: u32) -> u32 {
        head / Self::ONE_HOLE - (CHUNK_WORDS - PLACES)
    }

    #[inline]
    const fn has_only_holes(head: u32) -> bool {
        head >= Self::ONE_HOLE * CHUNK_WORDS
    }

    #[inline]
    const fn with_next(head: u32, next: Link) -> u32 {
        head / Self::ONE_HOLE * Self::ONE_HOLE + next.0
    }
}

const _: () = {
    let end = Link::end_of(LISTS - 1);
    assert!(Head::has_only_holes(Head::of(end, PLACES)));
    assert!(!Head::has_only_holes(Head::of(end, PLACES - 1)));
};

/// The index of the word `at` of a chunk.
#[inline]
pub(super) const fn word_of(chunk: u32, at: u32) -> u32 {
    chunk * CHUNK_WORDS + at
}

#[inline]
pub(super) const fn chunk_of(word: u32) -> u32 {
    word / CHUNK_WORDS
}

/// The position of a word in its chunk.
#[inline]
pub(super) const fn at(word: u32) -> usize {
    (word % CHUNK_WORDS) as usize
}

/// The words of all chunks. For a timer in a chunk, its [`Spot`] is the index of the word with its
/// id.
#[derive(Clone, Debug)]
pub(super) struct Chunks {
    words: Blocks<u32, BLOCK>,
    /// The first free chunk, or [`NONE`]. Free chunks are linked by their heads.
    free: u32,
}

impl Chunks {
    pub(super) const fn new() -> Self {
        Self {
            words: Blocks::new(),
            free: NONE,
        }
    }

    /// Number of chunks in memory.
    pub(super) fn len(&self) -> usize {
        self.words.len() / CHUNK_WORDS as usize
    }

    /// Makes the table at least `chunks` long. The new chunks are free.
    #[inline(never)]
    pub(super) fn grow(&mut self, chunks: usize) {
        let start = self.words.len();
        self.words.cover(chunks * CHUNK_WORDS as usize, HOLE);
        self.free_from(start);
    }

    pub(super) fn clear(&mut self) {
        self.free = NONE;
        self.free_from(0);
    }

    /// Frees all chunks from this word on, so that the first is taken first.
    fn free_from(&mut self, start: usize) {
        let start = start.max(CHUNK_WORDS as usize);
        for word in (start..self.words.len())
            .step_by(CHUNK_WORDS as usize)
            .rev()
        {
            let head = u32::try_from(word).expect("more chunks than ids");
            self.put_free(chunk_of(head));
        }
    }

    #[inline]
    pub(super) fn has_free(&self) -> bool {
        self.free != NONE
    }

    #[inline]
    pub(super) fn ensure_free(&mut self) {
        if !self.has_free() {
            self.grow(self.len() + 1);
        }
    }

    /// Takes a free chunk, which must exist, and writes its links and its first id.
    #[inline]
    pub(super) fn take(&mut self, prev: Link, next: Link, place: u32, id: u32) -> u32 {
        debug_assert!(self.has_free(), "no chunk is free");
        let chunk = self.free;
        let head = word_of(chunk, HEAD);
        let block = self.words.block_mut(head);
        let head = head as usize % BLOCK;
        self.free = block[head];
        block[head] = Head::of(next, 0);
        block[head | PREV as usize] = prev.0;
        block[head | place as usize] = id;
        chunk
    }

    #[inline]
    pub(super) fn put_free(&mut self, chunk: u32) {
        *self.words.at_mut(word_of(chunk, HEAD)) = self.free;
        self.free = chunk;
    }

    #[inline]
    pub(super) fn next(&self, chunk: u32) -> Link {
        Head::next(*self.words.at(word_of(chunk, HEAD)))
    }

    #[inline]
    pub(super) fn prev(&self, chunk: u32) -> Link {
        Link(*self.words.at(word_of(chunk, PREV)))
    }

    /// The previous and the next link of a chunk.
    #[inline]
    pub(super) fn neighbours(&self, chunk: u32) -> (Link, Link) {
        let head = word_of(chunk, HEAD);
        let block = self.words.block(head);
        let head = head as usize % BLOCK;
        (Link(block[head | PREV as usize]), Head::next(block[head]))
    }

    #[inline]
    pub(super) fn set_next(&mut self, chunk: u32, next: Link) {
        let head = self.words.at_mut(word_of(chunk, HEAD));
        *head = Head::with_next(*head, next);
    }

    #[inline]
    pub(super) fn set_prev(&mut self, chunk: u32, prev: Link) {
        *self.words.at_mut(word_of(chunk, PREV)) = prev.0;
    }

    /// The id in a place, or [`HOLE`].
    #[inline]
    pub(super) fn id(&self, word: u32) -> u32 {
        *self.words.at(word)
    }

    #[inline]
    pub(super) fn set_id(&mut self, word: u32, id: u32) {
        *self.words.at_mut(word) = id;
    }

    /// Writes an id into a place, and returns whether the table has the place.
    #[inline]
    pub(super) fn try_set_id(&mut self, word: u32, id: u32) -> bool {
        let place = self.words.get_mut(word);
        place.map(|place| *place = id).is_some()
    }

    /// Turns a place into a hole, and counts the hole. Returns whether all places of the chunk are
    /// now counted as holes.
    #[inline]
    pub(super) fn make_hole(&mut self, word: u32) -> bool {
        let Some(block) = self.words.get_block_mut(word) else {
            return true;
        };
        block[word as usize % BLOCK] = HOLE;
        let head = &mut block[word_of(chunk_of(word), HEAD) as usize % BLOCK];
        *head += Head::ONE_HOLE;
        Head::has_only_holes(*head)
    }

    /// Subtracts `holes` from the count of a chunk in which a list begins or ends. Only holes
    /// between the list's front and back count, and these are now outside.
    #[inline]
    pub(super) fn leave_holes(&mut self, chunk: u32, holes: u32) {
        *self.words.at_mut(word_of(chunk, HEAD)) -= holes * Head::ONE_HOLE;
    }

    #[inline]
    pub(super) fn forget_holes(&mut self, chunk: u32) {
        let head = self.words.at_mut(word_of(chunk, HEAD));
        *head = Head::of(Head::next(*head), 0);
    }

    #[inline]
    pub(super) fn words(&self, chunk: u32) -> [u32; CHUNK_WORDS as usize] {
        let head = word_of(chunk, HEAD);
        let (words, _) = self.words.block(head)[head as usize % BLOCK..]
            .split_first_chunk()
            .expect("a block has whole chunks");
        *words
    }

    #[cfg(test)]
    pub(super) fn first_free(&self) -> u32 {
        self.free
    }

    /// Number of free chunks.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        let next = |&chunk: &u32| Some(*self.words.at(word_of(chunk, HEAD)));
        let free = std::iter::successors(Some(self.free), next);
        free.take_while(|&chunk| chunk != NONE)
            .take(self.len())
            .count()
    }

    #[cfg(test)]
    pub(super) fn holes(&self, chunk: u32) -> usize {
        Head::holes(*self.words.at(word_of(chunk, HEAD))) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_fills_a_cache_line() {
        let mut chunks = Chunks::new();
        chunks.grow(2);
        let address = std::ptr::from_ref(chunks.words.at(word_of(1, HEAD))).addr();
        assert_eq!(
            (CHUNK_WORDS as usize * size_of::<u32>(), address % 64),
            (64, 0)
        );
    }

    #[test]
    fn a_link_is_a_chunk_or_an_end() {
        assert_eq!(Link::to_chunk(Link::END - 1).list(), None);
        for list in [0, LISTS - 1] {
            assert_eq!(Link::end_of(list).list(), Some(list));
            assert_eq!(
                Head::next(Head::of(Link::end_of(list), PLACES)),
                Link::end_of(list)
            );
        }
    }

    #[test]
    fn the_last_hole_of_a_chunk_is_reported_whatever_its_links() {
        for next in [Link::to_chunk(1), Link::end_of(LISTS - 1)] {
            let mut chunks = Chunks::new();
            chunks.ensure_free();
            let chunk = chunks.take(Link::end_of(0), Link::to_chunk(7), FIRST_PLACE, 0);
            chunks.set_next(chunk, next);
            for holes in 1..=PLACES {
                let is_last = chunks.make_hole(word_of(chunk, CHUNK_WORDS - holes));
                assert_eq!(is_last, holes == PLACES);
                assert_eq!(chunks.neighbours(chunk), (Link::end_of(0), next));
            }
            chunks.leave_holes(chunk, 1);
            assert_eq!(chunks.holes(chunk), PLACES as usize - 1);
            chunks.forget_holes(chunk);
            assert_eq!((chunks.holes(chunk), chunks.next(chunk)), (0, next));
        }
    }
}
