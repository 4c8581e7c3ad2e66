//! An HTTP server on every part of evcore, written to be read and copied.
//!
//! One file, one idea:
//!
//! - `options`: what the command line may say; `cpu_masks`: the grammar of `--cpu-affinity`;
//! - `master`: what starts workers, as processes or as threads, and hears of them; `pid_file`: how
//!   others find it;
//! - `listeners`: where they come from; `socket_files`: what they leave behind; `descriptors`: how
//!   many of them and of all else there may be;
//! - `worker`: one worker on sockets: its loop, and what signals do to it;
//! - `server`: what it serves: the loop, and the table of connections;
//! - `connection`: one client: when to read, to write, to wait and to close; `receiving` and
//!   `sending` are its two halves;
//! - `request`, `host`, `body`, `route`, `response`: HTTP, which knows nothing of sockets;
//! - `site`: what all connections of a worker share; `bodies`: the memory that their requests hold;
//! - `counts`: what `/status` tells, of all workers; `figures`: what their loops tell of
//!   themselves;
//!   `status_json`: the page that shows both;
//! - `access_log`: what is told of each answer; `log`: what the operator is told; `pipe`: where
//!   whoever reads them is not waited for.

#![forbid(unsafe_code)]
#![allow(
    clippy::must_use_candidate,
    missing_docs,
    unreachable_pub,
    reason = "outside of the crate only tests use it: `pub` means for its other files"
)]

mod access_log;
pub mod board;
mod bodies;
mod body;
mod connection;
pub mod counts;
mod cpu_masks;
mod descriptors;
mod figures;
mod host;
mod listeners;
mod log;
mod master;
pub mod options;
mod pid_file;
mod pipe;
mod program;
mod receiving;
mod request;
mod response;
mod route;
#[cfg(test)]
mod scripted;
mod sending;
pub mod server;
pub mod site;
mod socket_files;
mod status_json;
pub mod worker;

pub use program::run;
