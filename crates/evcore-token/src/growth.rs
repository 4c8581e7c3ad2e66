//! The growth of the tables. A table grows by a quarter, so that little of its memory is unused,
//! and ascending indices cost amortised O(1) each.

/// The number of entries that each growth adds besides the quarter, so that a small table grows
/// rarely.
const LEAST: usize = 8;

/// The new capacity, at least `len`, of a table that grows. A growth that would exceed `expected`
/// ends exactly there, so that a table with at most `expected` entries takes no memory for more.
pub(crate) fn capacity_above(len: usize, expected: usize) -> usize {
    let grown = len + len / 4 + LEAST;
    if (len..grown).contains(&expected) {
        expected
    } else {
        grown
    }
}
