//! A slot that is reserved before its value exists.

use std::fmt;

use crate::{table::Table, token::Token};

/// A free slot of a [`Table`]. The token of its future value is already known.
///
/// Dropping it leaves the table unchanged.
///
/// # Examples
///
/// ```
/// use evcore_token::{Table, Token};
///
/// struct Connection { name: Token }
///
/// let mut table = Table::bounded(1);
/// let entry = table.vacant_entry().expect("the table is empty");
/// let name = entry.token();
/// entry.insert(Connection { name });
/// assert_eq!(table.get(name).unwrap().name, name);
/// assert!(table.vacant_entry().is_none());
/// ```
#[must_use = "dropping the entry inserts nothing"]
pub struct VacantEntry<'a, T> {
    table: &'a mut Table<T>,
    token: Token,
}

impl<'a, T> VacantEntry<'a, T> {
    pub(super) fn new(table: &'a mut Table<T>, token: Token) -> Self {
        Self { table, token }
    }

    /// The token of the value that will be inserted.
    #[inline]
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// Puts `value` into the slot, and returns a reference to it.
    pub fn insert(self, value: T) -> &'a mut T {
        self.table.fill_next(value)
    }
}

impl<T> fmt::Debug for VacantEntry<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VacantEntry").field(&self.token).finish()
    }
}
