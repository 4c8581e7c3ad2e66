//! The growth of the tables: each grows by a quarter, so that little of its memory is unused and each
//! entry costs O(1).

/// The number of entries that a new table has room for, and that each growth adds to the quarter.
const LEAST: usize = 8;

/// The capacity of a table that grows beyond `len` entries. The growth stops once at `expected`, so that
/// a table with at most this many entries takes no memory for more.
pub(crate) fn capacity_above(len: usize, expected: usize) -> usize {
    let grown = len + len / 4 + LEAST;
    if (len..grown).contains(&expected) {
        expected
    } else {
        grown
    }
}
