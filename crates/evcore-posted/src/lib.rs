#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod posted;

pub use posted::PostedQueue;
