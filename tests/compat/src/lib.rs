//! Common code of the programs of this package: each runs on every backend, in a process of its
//! own.
//!
//! async-io has one reactor in each process, whose backend cannot be changed. So a test starts its
//! program again for each backend, to run that one test, with the backend in the environment.

mod each_backend;
mod letters;
mod time_limit;

pub use each_backend::run_on_each_backend;
pub use letters::letter;
