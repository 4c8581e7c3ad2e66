#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod token;

mod table;

mod full;

mod idle;

pub use full::Full;
pub use idle::IdleList;
pub use table::{Table, VacantEntry};
pub use token::Token;
