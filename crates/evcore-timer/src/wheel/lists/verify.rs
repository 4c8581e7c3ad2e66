//! The invariants of the lists, which tests check after each change.

use super::*;

impl Lists {
    /// Checks the invariants, and returns the number of timers.
    pub(in crate::wheel) fn verify(&self, nodes: &Nodes) -> usize {
        self.occupied.verify();
        let mut chunks = 1;
        let mut timers = 0;
        for list in 0..LISTS {
            let ends = self.ends[list as usize];
            let has_chunk = self.has_chunk(list);
            assert_eq!(
                self.occupied.contains(list),
                has_chunk,
                "bit of list {list}"
            );
            if !has_chunk {
                assert_eq!(ends, Ends::BARE, "ends of list {list}");
                continue;
            }
            if ends.front == ends.back {
                assert_eq!(self.chunks.id(ends.front), HOLE, "front of list {list}");
            }
            let (mut before, mut link) = (Link::end_of(list), Link::to_chunk(ends.first_chunk()));
            while link.list().is_none() {
                chunks += 1;
                assert!(chunks <= self.capacity(), "more chunks than are in memory");
                let index = link.chunk();
                let (prev, next) = self.chunks.neighbours(index);
                assert_eq!(prev, before, "link to {index} and back");
                let ids = self.ids_of(list, index);
                for &(word, id) in &ids {
                    let spot = nodes.get(id).map(|node| node.spot);
                    assert_eq!(spot, Some(Spot::at_word(word)), "spot of {id}");
                }
                let is_last = next.list().is_some();
                let used = self.used_words(list, index);
                assert!(
                    is_last || used.start > word_of(index, FIRST_PLACE) || !ids.is_empty(),
                    "chunk {index} is empty"
                );
                let holes = used.len() - ids.len();
                assert_eq!(self.chunks.holes(index), holes, "holes in {index}");
                timers += ids.len();
                (before, link) = (link, next);
            }
            assert_eq!(link, Link::end_of(list), "end of list {list}");
            assert_eq!(ends.last_chunk(), before.chunk(), "last of list {list}");
        }
        chunks += self.chunks.free();
        assert_eq!(chunks, self.capacity().max(1), "a chunk was lost");
        timers
    }

    /// The ids of a chunk of a list, each with its word.
    fn ids_of(&self, list: u32, chunk: u32) -> Vec<(u32, u32)> {
        let words = self.used_words(list, chunk);
        words
            .map(|word| (word, self.chunks.id(word)))
            .filter(|&(_, id)| id != HOLE)
            .collect()
    }

    pub(in crate::wheel) fn ids(&self, list: u32) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut link = Link::to_chunk(self.ends[list as usize].first_chunk());
        while self.has_chunk(list) && link.list().is_none() {
            let chunk = link.chunk();
            ids.extend(self.ids_of(list, chunk).into_iter().map(|(_, id)| id));
            link = self.chunks.next(chunk);
        }
        ids
    }

    pub(in crate::wheel) fn capacity(&self) -> usize {
        self.chunks.len()
    }
}
