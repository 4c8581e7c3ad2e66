#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod token;

mod table;

mod full;
mod growth;

mod lru;

pub use full::Full;
pub use lru::LruList;
pub use table::{Table, VacantEntry};
pub use token::Token;

// All types are `Send`: created on one thread, used on another.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Table<u8>>();
    is_send::<LruList>();
};
