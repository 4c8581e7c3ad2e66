//! Clients that attack: ambiguous requests, other protocols, resets, and thousands that are slow.
//!
//! `corpus` has the ambiguous requests with the responses that they must get, and `smuggling` sends
//! them. `broken` has the clients that end a connection in the middle, or use another protocol.
//! `slow` has the slow ones, for Linux alone: elsewhere there is no file with the time that a
//! process has run.
//!
//! `replayed` records a server with the corpus, and runs it again on its recording.
//!
//! The fuzz targets in `tests/fuzz/` have the same parsers, without sockets.

mod broken;
// A case a line, so that they can be compared.
#[rustfmt::skip]
mod corpus;
mod replayed;
#[cfg(target_os = "linux")]
mod slow;
mod smuggling;
