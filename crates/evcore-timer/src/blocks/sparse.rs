//! Tables by id that allocate memory only near the ids in use.
//!
//! Ids are usually dense, so most blocks are in one list, from id 0 on, and an index finds them. A
//! block far beyond the end of that list is in a map, and costs a search for each access. So a
//! first id of a million allocates one block and not two thousand. As more blocks come into use,
//! the list grows towards the blocks of the map and takes them over.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use super::{Block, Blocks};

/// Maximum number of blocks that one call appends to the list. Each costs a page fault or two, so a
/// call takes some 10 µs.
const APPENDED_MAX: u32 = 4;

/// A table of ids in blocks of `N`, which must be a power of two.
#[derive(Clone)]
pub(crate) struct SparseBlocks<T, const N: usize> {
    near: Blocks<T, N>,
    // Invariant: none of its blocks is in `near`.
    far: FarBlocks<T, N>,
    /// The number of blocks that were allocated for an id, and not to fill a gap of the list.
    // Invariant: `near` has at most twice as many blocks plus `APPENDED_MAX + 1`.
    admitted: u32,
}

impl<T: Copy, const N: usize> SparseBlocks<T, N> {
    /// A table of the ids below `len`, each with `value`. Allocates nothing if `len` is 0.
    pub(crate) fn with_len(len: usize, value: T) -> Self {
        let mut near = Blocks::new();
        near.cover(len, value);
        Self {
            admitted: near.next_number(),
            near,
            far: FarBlocks(BTreeMap::new()),
        }
    }

    /// The value of an id, if its block is in the list and not in the map.
    #[inline]
    pub(crate) fn near_mut(&mut self, id: u32) -> Option<&mut T> {
        self.near.get_mut(id)
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        match self.near.get(id) {
            Some(value) => Some(value),
            None => self.far.get(id),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        match self.near.get_mut(id) {
            Some(value) => Some(value),
            None => self.far.get_mut(id),
        }
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, id: u32) -> &mut T {
        match self.near.get_mut(id) {
            Some(value) => value,
            None => self.far.at_mut(id),
        }
    }

    /// Makes the table hold an id. The values of a new block are `value`.
    ///
    /// Allocates at most one block for the id, in addition to the blocks that it appends to the
    /// list.
    #[inline(never)]
    pub(crate) fn admit(&mut self, id: u32, value: T) {
        let number = Blocks::<T, N>::number_of(id);
        if number < self.near.next_number() {
            return;
        }
        if let Entry::Vacant(place) = self.far.0.entry(number) {
            place.insert(Block::filled(value));
            self.admitted += 1;
        }
        for _ in 0..APPENDED_MAX {
            if !self.append(value) {
                break;
            }
        }
    }

    /// Appends a block to the list if the first block of the map is near enough. Returns whether
    /// the list has grown.
    fn append(&mut self, value: T) -> bool {
        let Some((&first, _)) = self.far.0.first_key_value() else {
            return false;
        };
        // This limit leaves at most about half of the list unused.
        if first > self.admitted * 2 + APPENDED_MAX {
            return false;
        }
        let block = self.far.0.remove(&self.near.next_number());
        self.near
            .push(block.unwrap_or_else(|| Block::filled(value)));
        true
    }

    pub(crate) fn fill(&mut self, value: T) {
        self.near.fill(value);
        self.far
            .0
            .values_mut()
            .for_each(|block| block.0.fill(value));
    }
}

/// The blocks that are not in the list, by `id / N`. A search is not inlined, so that the code that
/// finds an id in the list stays short.
#[derive(Clone)]
struct FarBlocks<T, const N: usize>(BTreeMap<u32, Box<Block<T, N>>>);

impl<T: Copy, const N: usize> FarBlocks<T, N> {
    #[inline]
    fn get(&self, id: u32) -> Option<&T> {
        if self.0.is_empty() {
            return None;
        }
        self.search(id)
    }

    #[inline]
    fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        if self.0.is_empty() {
            return None;
        }
        self.search_mut(id)
    }

    #[cold]
    #[inline(never)]
    fn at_mut(&mut self, id: u32) -> &mut T {
        self.search_mut(id).expect("the id was admitted")
    }

    #[cold]
    #[inline(never)]
    fn search(&self, id: u32) -> Option<&T> {
        let block = self.0.get(&Blocks::<T, N>::number_of(id))?;
        Some(block.at(id))
    }

    #[cold]
    #[inline(never)]
    fn search_mut(&mut self, id: u32) -> Option<&mut T> {
        let block = self.0.get_mut(&Blocks::<T, N>::number_of(id))?;
        Some(block.at_mut(id))
    }
}

#[cfg(test)]
impl<T: Copy, const N: usize> SparseBlocks<T, N> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let near = (0..).zip(self.near.iter());
        let far = self.far.0.iter().flat_map(|(number, block)| {
            let first = number * Blocks::<T, N>::BLOCK;
            (first..).zip(block.0.iter())
        });
        near.chain(far)
    }

    pub(crate) fn verify(&self) {
        let appended = self.near.next_number();
        assert!(self.far.0.keys().all(|&number| number >= appended));
        assert!(appended <= self.admitted * 2 + APPENDED_MAX + 1);
    }
}

/// Prints no values, because they are many.
impl<T, const N: usize> fmt::Debug for SparseBlocks<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SparseBlocks")
            .field("near", &self.near)
            .field("far", &self.far.0.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    type Table = SparseBlocks<u32, 4>;

    fn holding(ids: &[u32]) -> Table {
        let mut table = Table::with_len(0, 0);
        for &id in ids {
            table.admit(id, 0);
            table.verify();
        }
        table
    }

    fn blocks(table: &Table) -> (u32, usize) {
        (table.near.next_number(), table.far.0.len())
    }

    #[test]
    fn rising_ids_are_in_the_list() {
        let ids: Vec<u32> = (0..100).collect();
        assert_eq!(blocks(&holding(&ids)), (25, 0));
    }

    #[test]
    fn a_far_id_takes_one_block() {
        assert_eq!(blocks(&holding(&[u32::MAX])), (0, 1));
        assert_eq!(blocks(&holding(&[0, 1, 100_000])), (1, 1));
    }

    #[test]
    fn the_list_reaches_a_far_block_when_half_of_it_is_in_use() {
        // Id 80 is in block 20. The list grows to that block when eight blocks are in use.
        let mut ids = vec![80, 0, 4, 8, 12, 16, 20];
        assert_eq!(blocks(&holding(&ids)), (6, 1));
        ids.push(24);
        assert_eq!(blocks(&holding(&ids)), (10, 1), "four more in one call");
        // Only calls for an id that is not in the list append blocks.
        ids.extend([80, 80, 80]);
        assert_eq!(blocks(&holding(&ids)), (21, 0));
    }

    proptest! {
        #[test]
        fn any_script_agrees_with_a_map(
            script in prop::collection::vec((0..600_u32, 0..3_u32, any::<u32>()), 0..300),
        ) {
            let (mut table, mut oracle) = (Table::with_len(0, 7), HashMap::new());
            for (id, far, value) in script {
                let id = id + far * 1_000_000;
                table.admit(id, 7);
                *table.at_mut(id) = value;
                oracle.insert(id, value);
                table.verify();
                prop_assert_eq!(table.get(id + 1).is_some(), table.get_mut(id + 1).is_some());
            }
            for (&id, value) in &oracle {
                prop_assert_eq!(table.get(id), Some(value));
            }
            for (id, &value) in table.iter() {
                prop_assert_eq!(value, oracle.get(&id).copied().unwrap_or(7));
            }
            table.fill(1);
            prop_assert!(table.iter().all(|(_, &value)| value == 1));
        }
    }
}
