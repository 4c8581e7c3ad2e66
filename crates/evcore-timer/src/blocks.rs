//! Tables that grow without copying.
//!
//! A `Vec` that grows copies all its values, which takes long, and makes room for ids that may
//! never be used. So a table here is a list of blocks: growing allocates a block, and the other
//! blocks stay where they are.

mod sparse;

use std::fmt;

pub(crate) use self::sparse::SparseBlocks;

/// Values in blocks of `N`, which must be a power of two. Each block is aligned to a cache line.
#[derive(Clone)]
pub(crate) struct Blocks<T, const N: usize> {
    blocks: Vec<Box<Block<T, N>>>,
}

#[derive(Clone)]
#[repr(align(64))]
struct Block<T, const N: usize>([T; N]);

impl<T: Copy, const N: usize> Block<T, N> {
    fn filled(value: T) -> Box<Self> {
        Box::new(Self([value; N]))
    }

    #[inline]
    fn at(&self, index: u32) -> &T {
        &self.0[index as usize % N]
    }

    #[inline]
    fn at_mut(&mut self, index: u32) -> &mut T {
        &mut self.0[index as usize % N]
    }
}

impl<T: Copy, const N: usize> Blocks<T, N> {
    /// `N` as a `u32` like the indices, which saves instructions.
    #[expect(clippy::cast_possible_truncation, reason = "some thousands at most")]
    const BLOCK: u32 = N as u32;

    /// An empty table. Allocates nothing.
    pub(crate) const fn new() -> Self {
        assert!(N.is_power_of_two(), "an index is split by shifts");
        Self { blocks: Vec::new() }
    }

    #[inline]
    fn block_of(index: u32) -> usize {
        Self::number_of(index) as usize
    }

    #[inline]
    fn place_in_block(index: u32) -> usize {
        (index % Self::BLOCK) as usize
    }

    /// The number of values: a multiple of `N`.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len() * N
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        Some(&self.blocks.get(Self::block_of(index))?.0[Self::place_in_block(index)])
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        Some(&mut self.blocks.get_mut(Self::block_of(index))?.0[Self::place_in_block(index)])
    }

    #[inline]
    pub(crate) fn at(&self, index: u32) -> &T {
        &self.blocks[Self::block_of(index)].0[Self::place_in_block(index)]
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> &mut T {
        &mut self.blocks[Self::block_of(index)].0[Self::place_in_block(index)]
    }

    /// The block of an index, which has the index's value at `index % N`.
    #[inline]
    pub(crate) fn block(&self, index: u32) -> &[T; N] {
        &self.blocks[Self::block_of(index)].0
    }

    #[inline]
    pub(crate) fn get_block_mut(&mut self, index: u32) -> Option<&mut [T; N]> {
        Some(&mut self.blocks.get_mut(Self::block_of(index))?.0)
    }

    #[inline]
    pub(crate) fn block_mut(&mut self, index: u32) -> &mut [T; N] {
        &mut self.blocks[Self::block_of(index)].0
    }

    /// The values of a range, which must be in one block of the table.
    #[inline]
    pub(crate) fn within_block(&self, start: usize, end: usize) -> &[T] {
        let first = start % N;
        &self.blocks[start / N].0[first..first + (end - start)]
    }

    /// Makes the table at least `len` long. New values are `value`.
    #[inline(never)] // not `cold`, which is compiled for size
    pub(crate) fn cover(&mut self, len: usize, value: T) {
        while self.len() < len {
            self.push(Block::filled(value));
        }
    }

    fn push(&mut self, block: Box<Block<T, N>>) {
        self.blocks.push(block);
    }

    #[inline]
    const fn number_of(index: u32) -> u32 {
        index / Self::BLOCK
    }

    /// The number of the block that is appended next.
    #[expect(clippy::cast_possible_truncation, reason = "indices have 32 bits")]
    #[inline]
    fn next_number(&self) -> u32 {
        self.blocks.len() as u32
    }

    pub(crate) fn fill(&mut self, value: T) {
        for block in &mut self.blocks {
            block.0.fill(value);
        }
    }

    /// All values, including those beyond the highest index in use.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flat_map(|block| block.0.iter())
    }
}

/// Prints no values, because they are many.
impl<T, const N: usize> fmt::Debug for Blocks<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks")
            .field("len", &(self.blocks.len() * N))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_grows_by_whole_blocks_and_keeps_its_values() {
        let mut table = Blocks::<u32, 4>::new();
        assert_eq!((table.len(), table.get(0)), (0, None));
        table.cover(1, 7);
        assert_eq!(table.len(), 4);
        *table.at_mut(3) = 8;
        let before = std::ptr::from_ref(table.at(3));
        table.cover(5, 9);
        assert_eq!(
            std::ptr::from_ref(table.at(3)),
            before,
            "nothing was copied"
        );
        assert!(table.iter().eq(&[7, 7, 7, 8, 9, 9, 9, 9]));
        assert_eq!(table.get(8), None);
    }

    #[test]
    fn covering_less_than_there_is_changes_nothing() {
        let mut table = Blocks::<u32, 4>::new();
        table.cover(4, 1);
        table.cover(4, 2);
        assert_eq!((table.len(), *table.at(3)), (4, 1));
    }

    #[test]
    fn a_range_within_a_block_is_a_slice() {
        let mut table = Blocks::<u32, 4>::new();
        table.cover(8, 1);
        (*table.at_mut(5), *table.at_mut(7)) = (2, 3);
        assert_eq!(table.within_block(5, 8), [2, 1, 3]);
        assert_eq!(table.within_block(4, 4), []);
    }

    #[test]
    fn debug_shows_the_length() {
        let mut table = Blocks::<u32, 4>::new();
        table.cover(9, 1);
        assert_eq!(format!("{table:?}"), "Blocks { len: 12, .. }");
    }

    #[test]
    fn fill_overwrites_all_values() {
        let mut table = Blocks::<u32, 4>::new();
        table.cover(8, 1);
        table.fill(2);
        assert!(table.iter().all(|&value| value == 2));
    }
}
