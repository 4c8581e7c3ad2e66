//! What a full table says.

use std::error::Error;
use std::fmt;

/// The value that found no place in a full [`Table`](crate::Table), handed back.
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

// Neither asks for `T: Debug`: an error that cannot be printed is not much of one.
impl<T> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Full(..)")
    }
}

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot insert: the table is full; remove a value or give it a higher limit")
    }
}

impl<T> Error for Full<T> {}
