//! Circular lists of timers, whose nodes are in one table.
//!
//! Each list is closed by a *head*, a node that is not a timer. So linking and unlinking write to two
//! neighbours without a special case, and a list becomes empty exactly when both were its head.
//! The heads come first in the table, then the timers by id. The index of its head names a list.
//!
//! The wheel decides what a list means.

#[cfg(test)]
mod tests;

use crate::queue::assert_dense;

/// Heads at the start of the table: 33 words of 64.
pub(super) const HEADS: u32 = 64 * WORDS;

/// Words of the bitmap of the lists that are not empty.
const WORDS: u32 = 33;

/// In `next` and `prev` of an unlinked timer.
const NONE: u32 = u32::MAX;

/// The table of nodes, and a bit for each list that is not empty.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    // Invariant: `nodes[HEADS + id]` is the timer of `id`. Following `next` from a head leads back to
    // it, and `prev` is the same path backwards.
    nodes: Vec<Node>,
    // Invariant: bit `list % 64` of word `list / 64` is set exactly if the list has a timer.
    occupied: [u64; WORDS as usize],
    // Invariant: bit `word` is set exactly if that word of `occupied` is not 0.
    occupied_words: u64,
}

impl Lists {
    /// Empty lists, with memory for the timers of `ids` ids.
    pub(super) fn with_capacity(ids: usize) -> Self {
        let mut nodes = Vec::with_capacity(ids.saturating_add(HEADS as usize));
        nodes.extend((0..HEADS).map(Node::head));
        Self {
            nodes,
            occupied: [0; WORDS as usize],
            occupied_words: 0,
        }
    }

    /// The node of a timer, linked or not. The table grows to hold it.
    #[inline]
    pub(super) fn admit(&mut self, id: u32) -> u32 {
        let node = id.saturating_add(HEADS);
        if node as usize >= self.nodes.len() {
            self.grow(id);
        }
        node
    }

    /// Links an unlinked timer at the back of a list.
    #[inline]
    pub(super) fn push_back(&mut self, list: u32, node: u32, deadline: u64) {
        let tail = self.at(list).prev;
        self.link(node, deadline, tail, list);
        if tail == list {
            self.mark_occupied(list);
        }
    }

    /// Links an unlinked timer at the front of a list.
    #[inline]
    fn push_front(&mut self, list: u32, node: u32, deadline: u64) {
        let first = self.at(list).next;
        self.link(node, deadline, list, first);
        if first == list {
            self.mark_occupied(list);
        }
    }

    /// Links an unlinked timer into a sorted list, behind all timers that are due at or before
    /// `deadline`.
    ///
    /// Cost: one step for each timer of the list with a later deadline.
    pub(super) fn insert_ordered(&mut self, list: u32, node: u32, deadline: u64) {
        let prev = self.last_due_by(deadline, self.at(list).prev);
        self.link(node, deadline, prev, self.at(prev).next);
        self.mark_occupied(list);
    }

    /// Unlinks a timer.
    ///
    /// The node still looks linked, so link it again or [`release`](Self::release) it.
    #[inline]
    pub(super) fn unlink(&mut self, node: u32) {
        let Node { prev, next, .. } = *self.at(node);
        self.at_mut(prev).next = next;
        self.at_mut(next).prev = prev;
        if prev == next {
            self.mark_empty(prev);
        }
    }

    /// Marks a timer that was taken off its list as unlinked.
    #[inline]
    pub(super) fn release(&mut self, node: u32) {
        let node = self.at_mut(node);
        (node.prev, node.next) = (NONE, NONE);
    }

    /// Moves all timers of `from`, in their order, behind those of `to`.
    ///
    /// The lists must be different, and `from` must not be empty.
    pub(super) fn append(&mut self, to: u32, from: u32) {
        debug_assert!(
            to != from && self.is_occupied(from),
            "cannot append list {from} to list {to}"
        );
        let Node {
            prev: last,
            next: first,
            ..
        } = *self.at(from);
        let tail = self.at(to).prev;
        self.at_mut(tail).next = first;
        self.at_mut(first).prev = tail;
        self.at_mut(last).next = to;
        self.at_mut(to).prev = last;
        self.mark_occupied(to);
        self.truncate(from, from);
    }

    /// Moves all timers of a sorted list to their places in another sorted list, behind those with
    /// equal deadlines.
    ///
    /// Cost: O(1) if `to` is empty; otherwise one step for each moved timer, and for each timer of
    /// `to` that is due after one of them.
    #[inline(never)]
    pub(super) fn merge(&mut self, to: u32, from: u32) {
        if !self.is_occupied(to) && self.is_occupied(from) {
            return self.append(to, from);
        }
        let mut prev = self.at(to).prev;
        // From the latest to the earliest, so that `to` is walked only once.
        while self.is_occupied(from) {
            let node = self.at(from).prev;
            let deadline = self.deadline(node);
            prev = self.last_due_by(deadline, prev);
            self.unlink(node);
            self.link(node, deadline, prev, self.at(prev).next);
            self.mark_occupied(to);
        }
    }

    /// Moves the timers of `list` after `last`, in their order, each to the back of the list that
    /// `list_of` returns for its deadline.
    ///
    /// `last` is a timer of the list, or `list` itself to move all.
    pub(super) fn redistribute(&mut self, list: u32, last: u32, list_of: impl Fn(u64) -> u32) {
        let mut node = self.at(last).next;
        self.truncate(list, last);
        while node != list {
            let Node { deadline, next, .. } = *self.at(node);
            self.push_back(list_of(deadline), node, deadline);
            node = next;
        }
    }

    /// Moves at most `count` timers from the back of `list`, each to the front of the list that
    /// `list_of` returns for its deadline. Returns how many it moved.
    ///
    /// They keep their order, and go ahead of the timers that are already on those lists.
    pub(super) fn cascade(
        &mut self,
        list: u32,
        count: usize,
        list_of: impl Fn(u64) -> u32,
    ) -> usize {
        let mut node = self.at(list).prev;
        for moved in 0..count {
            if node == list {
                self.truncate(list, list);
                return moved;
            }
            let Node { deadline, prev, .. } = *self.at(node);
            self.push_front(list_of(deadline), node, deadline);
            node = prev;
        }
        self.truncate(list, node);
        count
    }

    /// Empties all lists.
    pub(super) fn clear(&mut self) {
        let (heads, timers) = self.nodes.split_at_mut(HEADS as usize);
        for (index, head) in (0..).zip(heads) {
            *head = Node::head(index);
        }
        timers.fill(Node::UNLINKED);
        self.occupied = [0; WORDS as usize];
        self.occupied_words = 0;
    }

    /// The node of `id`, if the table contains it.
    #[inline]
    pub(super) fn known(&self, id: u32) -> Option<u32> {
        let node = id.checked_add(HEADS)?;
        ((node as usize) < self.nodes.len()).then_some(node)
    }

    /// The node of `id`, if it is linked.
    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<u32> {
        self.known(id).filter(|&node| self.is_linked(node))
    }

    /// Whether a node is linked.
    #[inline]
    pub(super) fn is_linked(&self, node: u32) -> bool {
        self.at(node).is_linked()
    }

    /// The id of a node.
    #[inline]
    pub(super) fn id(&self, node: u32) -> u32 {
        debug_assert!(node >= HEADS, "{node} is a head");
        node - HEADS
    }

    /// The deadline of a linked timer.
    #[inline]
    pub(super) fn deadline(&self, node: u32) -> u64 {
        self.at(node).deadline
    }

    /// The timer at the front of a list.
    #[inline]
    pub(super) fn first(&self, list: u32) -> Option<u32> {
        let first = self.at(list).next;
        (first != list).then_some(first)
    }

    /// The timer at the back of a list.
    #[inline]
    pub(super) fn last(&self, list: u32) -> Option<u32> {
        let last = self.at(list).prev;
        (last != list).then_some(last)
    }

    /// The last timer of a sorted list that is due at or before `deadline`; the list itself if there
    /// is none.
    pub(super) fn last_in_due_by(&self, list: u32, deadline: u64) -> u32 {
        self.last_due_by(deadline, self.at(list).prev)
    }

    /// The lowest of the first `lists` lists that is not empty. `lists` must be a multiple of 64.
    #[inline]
    pub(super) fn lowest_occupied(&self, lists: u32) -> Option<u32> {
        debug_assert!(lists % 64 == 0, "{lists} is not a multiple of 64");
        let word = self.occupied_words.trailing_zeros();
        if word >= lists / 64 {
            return None;
        }
        let bits = self.occupied[word as usize];
        Some(word * 64 + bits.trailing_zeros())
    }

    /// Whether a list has a timer.
    #[inline]
    pub(super) fn is_occupied(&self, list: u32) -> bool {
        self.at(list).next != list
    }

    /// Walks a sorted list backwards from `node` to the first timer that is due at or before
    /// `deadline`.
    fn last_due_by(&self, deadline: u64, mut node: u32) -> u32 {
        // The head ends the walk, because its deadline is 0.
        while self.deadline(node) > deadline {
            node = self.at(node).prev;
        }
        node
    }

    /// Links a timer between two neighbours.
    #[inline]
    fn link(&mut self, node: u32, deadline: u64, prev: u32, next: u32) {
        self.at_mut(prev).next = node;
        self.at_mut(next).prev = node;
        *self.at_mut(node) = Node {
            deadline,
            prev,
            next,
        };
    }

    /// Cuts the list off after `last`, a timer of `list` or `list` itself.
    fn truncate(&mut self, list: u32, last: u32) {
        self.at_mut(last).next = list;
        self.at_mut(list).prev = last;
        if last == list {
            self.mark_empty(list);
        }
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

    #[inline]
    fn at(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    #[inline]
    fn at_mut(&mut self, node: u32) -> &mut Node {
        &mut self.nodes[node as usize]
    }

    #[cold]
    fn grow(&mut self, id: u32) {
        assert_dense(id);
        self.nodes.resize((HEADS + id) as usize + 1, Node::UNLINKED);
    }
}

/// A timer, or the head of a list.
#[derive(Clone, Copy, Debug)]
struct Node {
    deadline: u64,
    prev: u32,
    next: u32,
}

impl Node {
    const UNLINKED: Self = Self {
        deadline: 0,
        prev: NONE,
        next: NONE,
    };

    /// The head of an empty list with this index.
    const fn head(index: u32) -> Self {
        Self {
            deadline: 0,
            prev: index,
            next: index,
        }
    }

    #[inline]
    const fn is_linked(self) -> bool {
        self.next != NONE
    }
}

#[cfg(test)]
impl Lists {
    /// Panics if an invariant does not hold; returns the number of linked timers.
    pub(super) fn verify(&self) -> usize {
        for (word, bits) in self.occupied.iter().enumerate() {
            let bit = self.occupied_words >> word & 1;
            assert_eq!(bit == 1, *bits != 0, "bit of word {word}");
        }
        let linked = (0..HEADS).map(|list| self.verify_list(list)).sum();
        let marked = self.nodes[HEADS as usize..]
            .iter()
            .filter(|node| node.is_linked());
        assert_eq!(
            marked.count(),
            linked,
            "a timer is marked as linked and is in no list"
        );
        linked
    }

    /// The deadlines of a list, from the front.
    pub(super) fn deadlines(&self, list: u32) -> impl Iterator<Item = u64> + '_ {
        let mut node = list;
        std::iter::from_fn(move || {
            node = self.at(node).next;
            (node != list).then(|| self.deadline(node))
        })
    }

    /// The number of nodes that the table holds before it grows.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    fn verify_list(&self, list: u32) -> usize {
        assert_eq!(self.deadline(list), 0, "head {list} would not end a walk");
        let bit = self.occupied[(list / 64) as usize] >> (list % 64) & 1;
        assert_eq!(bit == 1, self.is_occupied(list), "bit of list {list}");
        let (mut node, mut count) = (list, 0);
        loop {
            let next = self.at(node).next;
            assert_eq!(
                self.at(next).prev,
                node,
                "link from {node} to {next} and back"
            );
            if next == list {
                return count;
            }
            assert!(next >= HEADS, "list {list} runs into head {next}");
            (node, count) = (next, count + 1);
        }
    }
}
