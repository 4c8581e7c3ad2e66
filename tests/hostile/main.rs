//! Clients that attack: ambiguous requests, other protocols, resets, and thousands of slow clients.
//!
//! `corpus` has the ambiguous requests with the responses that they must get, and `smuggling` sends
//! them. `broken` has the clients that end a connection in the middle, or use another protocol.
//! `slow` has the slow clients. It runs only on Linux, because other systems have no file with the
//! CPU time of a process.
//!
//! `replayed` records a server under the corpus, and runs the server again on the recording, in
//! this process. `recorded` does the same with the programs `httpd` and `evcore-replay`.
//!
//! Fuzz targets in `tests/fuzz/` run the server's parsers directly, without sockets.

mod broken;
// Each case has a line, so that cases can be compared.
#[rustfmt::skip]
mod corpus;
mod recorded;
mod replayed;
#[cfg(target_os = "linux")]
mod slow;
mod smuggling;
