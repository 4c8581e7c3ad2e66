//! The wheel's node for each id, in eight bytes: the spot of its timer, and the low half of its
//! deadline. A deadline in a slot has the high half of the wheel's position, and the heaps have the
//! whole deadlines of their timers.

use crate::blocks::SparseBlocks;
use crate::keyed_heap::{Place, Places};
use crate::queue::assert_dense;

/// Number of nodes in a block: 4 KiB.
const BLOCK: usize = 512;

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) low: u32,
    pub(super) spot: Spot,
}

impl Node {
    const UNARMED: Self = Self {
        low: 0,
        spot: Spot::UNARMED,
    };

    #[inline]
    pub(super) fn in_slot(low: u32, word: u32) -> Self {
        let spot = Spot::at_word(word);
        Self { low, spot }
    }
}

/// The spot of a timer: the word of the chunks that has its id, or a place on a heap.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Spot(u32);

impl Spot {
    /// The value for an unarmed timer.
    pub(super) const UNARMED: Self = Self(u32::MAX);

    const ON_HEAP: u32 = 1 << 31;

    /// Number of chunks whose words are below [`ON_HEAP`](Self::ON_HEAP).
    pub(super) const CHUNKS: u32 = Self::ON_HEAP >> 4;

    #[inline]
    pub(super) fn at_word(word: u32) -> Self {
        debug_assert!(word % 16 >= 2 && word < Self::ON_HEAP, "no id is at {word}");
        Self(word)
    }

    #[inline]
    pub(super) fn is_armed(self) -> bool {
        self != Self::UNARMED
    }

    /// Returns whether the timer is in a slot, by one test for the highest bit.
    #[inline]
    pub(super) fn is_in_slot(self) -> bool {
        self.0 < Self::ON_HEAP
    }

    /// The place of a timer that is on a heap.
    #[inline]
    pub(super) fn place(self) -> Option<Place> {
        let is_on_heap = self.is_armed() && !self.is_in_slot();
        is_on_heap.then_some(Place::from_bits(self.0 & !Self::ON_HEAP))
    }

    /// The word of the chunks that has the id of a timer in a slot.
    #[inline]
    pub(super) fn word(self) -> u32 {
        debug_assert!(self.is_in_slot(), "not in a chunk");
        self.0
    }
}

const _: () = assert!(Place::MAX | Spot::ON_HEAP < Spot::UNARMED.0);

#[derive(Clone, Debug)]
pub(super) struct Nodes(SparseBlocks<Node, BLOCK>);

impl Nodes {
    pub(super) fn with_capacity(ids: usize) -> Self {
        Self(SparseBlocks::with_len(ids, Node::UNARMED))
    }

    pub(super) fn admit(&mut self, id: u32) {
        if self.near_mut(id).is_none() {
            assert_dense(id);
            self.0.admit(id, Node::UNARMED);
        }
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> Option<&Node> {
        self.0.get(id)
    }

    /// The node of an id, if the table finds it without a search.
    #[inline]
    pub(super) fn near_mut(&mut self, id: u32) -> Option<&mut Node> {
        self.0.near_mut(id)
    }

    #[inline]
    pub(super) fn at_mut(&mut self, id: u32) -> &mut Node {
        self.0.at_mut(id)
    }

    pub(super) fn clear(&mut self) {
        self.0.fill(Node::UNARMED);
    }

    #[cfg(test)]
    pub(super) fn armed(&self) -> usize {
        let nodes = self.0.iter();
        nodes.filter(|(_, node)| node.spot.is_armed()).count()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.0.iter().count()
    }
}

impl Places for Nodes {
    #[inline]
    fn set_place(&mut self, id: u32, place: Place) {
        self.at_mut(id).spot = Spot(place.bits() | Spot::ON_HEAP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_takes_8_bytes() {
        assert_eq!(size_of::<Node>(), 8);
    }

    #[test]
    fn a_spot_is_in_a_chunk_or_on_a_heap() {
        for word in [2, Spot::CHUNKS * 16 - 1] {
            let spot = Spot::at_word(word);
            assert!(spot.is_armed());
            assert_eq!((spot.word(), spot.place()), (word, None));
        }
        let mut nodes = Nodes::with_capacity(1);
        let place = Place::from_bits(Place::MAX);
        nodes.set_place(0, place);
        assert_eq!(nodes.get(0).unwrap().spot.place(), Some(place));
        assert!(!Spot::UNARMED.is_armed());
    }
}
