//! The error of an insertion into a full table.

use std::error::Error;
use std::fmt;

/// The error of [`Table::insert`](crate::Table::insert) into a full table, with the refused value.
///
/// # Examples
///
/// ```
/// use evcore_token::{Full, Table};
///
/// let mut table = Table::bounded(0);
/// let Err(Full(refused)) = table.insert("late") else { unreachable!() };
/// assert_eq!(refused, "late");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Full<T>(pub T);

// `Debug` and `Display` do not require `T: Debug`, so that the error of every table can be printed,
// and every result of `insert` unwrapped.
impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full(..)")
    }
}

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "cannot insert: the table is full; \
             remove a value, or create the table with a higher limit",
        )
    }
}

impl<T> Error for Full<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_is_reported_without_debug_of_the_value() {
        struct NoDebug;
        let full = Full(NoDebug);
        assert_eq!(format!("{full:?}"), "Full(..)");
        assert!(full.to_string().contains("the table is full"));
    }
}
