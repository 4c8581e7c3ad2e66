//! Common code of the programs over async-io and calloop. Each program runs on every backend, in a
//! process of its own.
//!
//! async-io has one reactor in each process, whose backend cannot be changed. So a test starts its
//! own executable again for each backend. In the new process, an environment variable names the
//! backend, and only that test runs.

mod each_backend;
mod letters;
mod time_limit;

pub use each_backend::run_on_each_backend;
pub use letters::letter;
