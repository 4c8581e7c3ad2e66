//! The example server's contract, over real sockets, on every poller that this system has.

mod access_log;
mod bodies;
mod descriptors;
mod file_sizes;
mod listening;
mod log_pipes;
mod options;
mod places;
mod refusals;
mod refused;
mod requests;
mod segments;
mod sharing;
mod status;
mod timeouts;
