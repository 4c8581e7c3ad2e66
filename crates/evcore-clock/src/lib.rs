#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod clock;

mod source;

mod manual;
mod zone;

pub mod stamp;

mod civil;

pub use clock::Clock;
pub use manual::ManualSource;
pub use source::{Reading, Source, SystemSource};
pub use stamp::Stamp;
