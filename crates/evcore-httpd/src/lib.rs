//! The reference server: an HTTP server on every part of evcore, and an example of a whole server.
//!
//! This crate is the library of the program `httpd`, so that tests can run its parts. Each module has
//! one task:
//!
//! - `program`: from the command line to the workers, which `evcore-serve` runs; `options`: the command
//!   line; `cpu_masks`: the grammar of `--cpu-affinity`;
//! - `events`: what happens to the workers; `pid_file`: the file with the process id of their master;
//! - `listeners`: opens or inherits the listeners; `socket_files`: removes the files of Unix sockets;
//!   `descriptors`: how many descriptors the server needs;
//! - `worker`: what the workers are made of, and a worker's turns;
//! - `server`: the steps of a turn, and the connections;
//! - `connection`: one connection, without its stream: bytes in, bytes out; `session`: a step of it, with
//!   stream and loop; `timers`: what its timers are for;
//! - `request`, `host`, `body`, `chunk_extension`, `route`, `response`: HTTP, without sockets;
//! - `files`: the files of `--root`;
//! - `shared`: what the connections of a worker share; `body_memory`: the limit on their request
//!   bodies; `headroom`: the memory that stays free below a limit of the process;
//! - `counters`: the table of the counters, which makes their lines on all pages; `counts`: what a worker
//!   counts; `metrics`: the metrics of the event loop, with `buckets`, its histograms; `server_stats`: what
//!   the master counts; `scoreboard`: all of it in shared memory; `history`: its last two
//!   minutes; `status_json` and `prometheus`: the pages
//!   that show it; `dashboard`: the page that draws it;
//! - `access_log`: a line for each response; `log_entry`: its formats; `log`: standard error; `live_line`: the last
//!   line of a terminal;
//!   `flight_log`: what the event loop did, after something went wrong; `trace_log`: what it does, by
//!   `--log-level`; `pipe`: writes to a pipe that do not wait for its reader;
//! - `demo`: `--demo`, a server under load with its dashboard;
//! - `repeatable`: a worker whose run can be repeated; `recorded`: `--record`; `replayed`: the program
//!   `evcore-replay`;
//! - `fuzzing`: the parsers, for the targets in `tests/fuzz/`.

#![forbid(unsafe_code)]
#![allow(
    clippy::must_use_candidate,
    unreachable_pub,
    reason = "only tests use the library: most of its `pub` items are for its other modules"
)]

mod accept_option;
mod access_log;
mod body;
mod body_memory;
mod buckets;
mod chunk_extension;
mod connection;
mod counters;
pub mod counts;
mod cpu_masks;
mod dashboard;
mod demo;
mod descriptors;
mod events;
mod files;
mod flight_log;
#[doc(hidden)]
pub mod fuzzing;
mod headroom;
mod history;
mod host;
mod listen_queue;
mod listeners;
mod live_line;
mod log;
mod log_entry;
mod measures;
mod metrics;
mod option_error;
pub mod options;
mod pid_file;
mod pipe;
mod program;
mod prometheus;
mod recorded;
mod repeatable;
mod replayed;
mod request;
mod response;
mod route;
pub mod scoreboard;
mod secret_headers;
pub mod server;
mod server_stats;
mod session;
pub mod shared;
mod socket_files;
mod status_json;
mod timers;
#[cfg(feature = "tracing")]
mod trace_log;
mod version;
mod what_if;
pub mod worker;

pub use program::run;
pub use replayed::run as replay;
