//! A bitmap of the lists that have a chunk. A summary word has a bit for each word that is not 0,
//! so the search for the lowest list reads two words.

use super::LISTS;

const WORDS: u32 = LISTS / 64;

#[derive(Clone, Debug)]
pub(super) struct Occupied {
    words: [u64; WORDS as usize],
    // Invariant: bit `n` is set exactly if word `n` is not 0.
    summary: u32,
}

impl Occupied {
    pub(super) const EMPTY: Self = Self {
        words: [0; WORDS as usize],
        summary: 0,
    };

    #[inline]
    pub(super) fn insert(&mut self, list: u32) {
        let word = list / 64;
        self.words[word as usize] |= 1 << (list % 64);
        self.summary |= 1 << word;
    }

    #[inline]
    pub(super) fn remove(&mut self, list: u32) {
        let word = list / 64 % WORDS;
        let bits = &mut self.words[word as usize];
        *bits &= !(1 << (list % 64));
        if *bits == 0 {
            self.summary &= !(1 << word);
        }
    }

    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        if self.summary == 0 {
            return None;
        }
        let word = self.summary.trailing_zeros();
        let bits = self.words[word as usize];
        Some(word * 64 + bits.trailing_zeros())
    }

    #[cfg(test)]
    pub(super) fn contains(&self, list: u32) -> bool {
        self.words[(list / 64) as usize] >> (list % 64) & 1 == 1
    }

    #[cfg(test)]
    pub(super) fn verify(&self) {
        for (word, bits) in self.words.iter().enumerate() {
            let bit = self.summary >> word & 1;
            assert_eq!(bit == 1, *bits != 0, "bit of word {word}");
        }
    }
}
