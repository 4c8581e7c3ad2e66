//! The reference server: an HTTP server on evcore, and an example of a whole server.
//!
//! This crate is the library of the program `httpd`, so that tests can run its parts. Each module
//! has one task:
//!
//! - `program`: parses the command line, and starts the workers, which `evcore-serve` runs;
//!   `options`: the table of options; `accept_option`: the values of `--accept`; `cpu_masks`: the
//!   grammar of `--cpu-affinity`; `option_error`: the error for a bad command line;
//! - `events`: the reactions to events of the workers; `pid_file`: the file with the process id of
//!   the master;
//! - `listeners`: opens or inherits the listeners; `listen_queue`: counts the clients that wait in
//!   the backlogs; `socket_files`: removes the files of Unix sockets; `descriptors`: the number
//!   of descriptors that the server needs;
//! - `worker`: makes the parts of a worker, and runs its turns, the iterations of its event loop;
//! - `server`: the steps (events) of a turn, and the connections;
//! - `connection`: one connection, without its stream: bytes in, bytes out; `session`: a step of a
//!   connection, which uses the stream and the loop; `timers`: the purposes of a connection's
//!   timers;
//! - `request`, `version`, `host`, `body`, `chunk_extension`, `route`, `response`: HTTP, without
//!   sockets;
//! - `files`: the files of `--root`;
//! - `shared`: the state that the connections of a worker share; `body_memory`: the limit on their
//!   request bodies; `headroom`: the memory that stays free below a limit of the process;
//! - `counters`: the table of the counters, which makes their lines on all pages; `phases`: the
//!   table of the phases of a connection; `counts`: the counters of a worker; `measures`: the table
//!   of the event loop's measurements; `metrics`: the measured values; `buckets`: a histogram as
//!   Prometheus has it; `server_stats`: the numbers of the master; `scoreboard`: all these numbers
//!   in shared memory; `history`: the last two minutes of the scoreboard; `status_json` and
//!   `prometheus`: the pages with the numbers; `dashboard`: the page that draws the numbers;
//! - `access_log`: a line for each response; `log_entry`: the formats of that line; `log`: standard
//!   error; `live_line`: the last line of a terminal; `flight_log`: the last actions of the event
//!   loop, logged after something went wrong; `trace_log`: the loop's actions, logged at once
//!   (`--log-level`); `pipe`: writes to a pipe that do not wait for its reader;
//! - `demo`: `--demo`, a server under load with its dashboard;
//! - `repeatable`: a worker whose run can be repeated; `recorded`: `--record`; `secret_headers`:
//!   blanks secrets in a recording; `replayed`: the program `evcore-replay`; `what_if`: the balance
//!   of a recorded server under another accept policy;
//! - `fuzzing`: the parsers, for the targets in `tests/fuzz/`.

#![forbid(unsafe_code)]
#![allow(
    clippy::must_use_candidate,
    unreachable_pub,
    reason = "only tests and this crate's programs use it: most `pub` items are for other modules"
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
pub mod phases;
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
