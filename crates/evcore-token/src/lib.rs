#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod token;

mod secondary_map;
mod table;
mod token_set;

mod full;
mod growth;

mod idle_list;
mod lru;

pub use full::Full;
pub use idle_list::IdleList;
pub use lru::LruList;
pub use secondary_map::SecondaryMap;
pub use table::{Table, VacantEntry};
pub use token::Token;
pub use token_set::TokenSet;

// The tables and lists are `Send`, so that a thread can use one that another thread has created.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Table<u8>>();
    is_send::<LruList>();
    is_send::<IdleList>();
    is_send::<SecondaryMap<u8>>();
    is_send::<TokenSet>();
};
