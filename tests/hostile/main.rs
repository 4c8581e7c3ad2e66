//! Clients that attack: ambiguous requests, other protocols, resets, and thousands of slow clients.
//!
//! Fuzz targets in `tests/fuzz/` run the server's parsers without sockets.

mod broken;
// Each case has one line, so that cases can be compared.
#[rustfmt::skip]
mod corpus;
mod recorded;
mod replayed;
#[cfg(target_os = "linux")]
mod slow;
mod smuggling;
