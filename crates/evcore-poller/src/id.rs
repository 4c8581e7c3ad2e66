//! The id of a registration: the low half of its key.

/// The highest id (low half of a key). Ids index tables of 20 bytes per entry, so use dense ones.
pub const MAX_ID: u32 = (1 << 24) - 1;
