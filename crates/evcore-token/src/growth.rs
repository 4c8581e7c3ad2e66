//! The growth of the tables: by a quarter, so that little of one is unused and each entry costs
//! O(1).

/// The number of entries that a new table has room for, and that it adds besides a quarter whenever
/// it grows.
const LEAST: usize = 8;

/// The capacity of a table that grows beyond `len` entries. It stops once at `expected`, so that a
/// table takes no memory for more entries than that.
pub(crate) fn capacity_above(len: usize, expected: usize) -> usize {
    let grown = len + len / 4 + LEAST;
    if (len..grown).contains(&expected) {
        expected
    } else {
        grown
    }
}
