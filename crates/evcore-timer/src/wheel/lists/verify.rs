//! The invariants of the lists, which tests check after each change.

use super::*;

impl Lists {
    /// Panics if an invariant does not hold; returns the number of timers.
    pub(in crate::wheel) fn verify(&self, nodes: &Nodes) -> usize {
        for (word, bits) in self.occupied.iter().enumerate() {
            let bit = self.occupied_words >> word & 1;
            assert_eq!(bit == 1, *bits != 0, "bit of word {word}");
        }
        let mut chunks = 1;
        let mut timers = 0;
        for list in 0..LISTS {
            let bit = self.occupied[(list / 64) as usize] >> (list % 64) & 1;
            let ends = self.ends[list as usize];
            assert_eq!(bit == 1, ends.front != NONE, "bit of list {list}");
            if ends.front == NONE {
                assert_eq!(ends, Ends::NONE, "ends of list {list}");
                continue;
            }
            if ends.front == ends.back {
                assert_eq!(*self.words.at(ends.front), HOLE, "front of list {list}");
            }
            let (mut index, mut before) = (ends.first_chunk(), END + list);
            while list_of_end(index).is_none() {
                chunks += 1;
                assert!(chunks <= self.capacity(), "more chunks than there are");
                let [head, prev, ..] = self.chunk(word_of(index, HEAD));
                assert_eq!(prev, before, "link to {index} and back");
                let ids = self.ids_of(list, index);
                for &(word, id) in &ids {
                    let spot = nodes.get(id).map(|node| node.spot);
                    assert_eq!(spot, Some(Spot::at_word(word)), "spot of {id}");
                }
                let is_last = list_of_end(Head::next(head)).is_some();
                let used = self.used_words(list, index);
                assert!(
                    is_last || used.start > word_of(index, FIRST_ID) || !ids.is_empty(),
                    "chunk {index} is empty"
                );
                let vacant = used.len() - ids.len();
                assert_eq!(Head::vacant(head) as usize, vacant, "vacant in {index}");
                timers += ids.len();
                (before, index) = (index, Head::next(head));
            }
            assert_eq!(index, END + list, "end of list {list}");
            assert_eq!(ends.last_chunk(), before, "last of list {list}");
        }
        let mut free = self.free;
        while free != NONE {
            chunks += 1;
            assert!(chunks <= self.capacity(), "more chunks than there are");
            free = *self.words.at(word_of(free, HEAD));
        }
        assert_eq!(chunks, self.capacity().max(1), "a chunk was lost");
        timers
    }

    /// The ids of a chunk of a list, each with its word.
    fn ids_of(&self, list: u32, chunk: u32) -> Vec<(u32, u32)> {
        let words = self.used_words(list, chunk);
        words
            .map(|word| (word, *self.words.at(word)))
            .filter(|&(_, id)| id != HOLE)
            .collect()
    }

    /// The ids of a list, from the front.
    pub(in crate::wheel) fn ids(&self, list: u32) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut index = self.ends[list as usize].first_chunk();
        while index != NONE && list_of_end(index).is_none() {
            ids.extend(self.ids_of(list, index).into_iter().map(|(_, id)| id));
            index = Head::next(*self.words.at(word_of(index, HEAD)));
        }
        ids
    }

    /// The number of chunks that are in memory.
    pub(in crate::wheel) fn capacity(&self) -> usize {
        self.words.len() / CHUNK_WORDS as usize
    }
}
