#![doc = include_str!("../README.md")]
//!
//! # How to test your own server
//!
//! 1. **Make it generic.** Take any [`Acceptor`](evcore::Acceptor), which brings its stream type
//!    with it, and use the stream through [`Transport`](evcore::Transport). If it connects to other
//!    servers, take any [`Connector`](evcore::Connector). Read the time from
//!    [`EventLoop::clock`](evcore::EventLoop::clock), and take random numbers and a
//!    [`Pool`](evcore::pool::Pool) from the caller.
//! 2. **Make it repeatable.** Use no [`Instant`](std::time::Instant), no thread, no order of a
//!    `HashMap`, and nothing that depends on an address in memory. These differ from run to run, so
//!    a seed would not repeat a failure. Run one seed twice and compare [`Sim::trace_hash`].
//! 3. **Run it in a [`Sim`].** [`Process::builder`] returns a [`Builder`](evcore::Builder) with the
//!    simulated clock and backend, and [`Process::listen`] a listener for it. The [`Process`]
//!    itself is the connector, and [`Process::thread_pool`] and [`Process::bind_udp`] return thread
//!    pools and UDP sockets. A server whose own loop calls
//!    [`EventLoop::wait`](evcore::EventLoop::wait) runs unchanged: its waits let simulated time
//!    pass, and fail at the limit that [`Sim::set_time_limit`] sets. A server with several workers,
//!    or one that a test stops or kills, implements [`App`] and runs under [`Workers`], with a
//!    [`SimGroup`] as its worker group.
//! 4. **Add clients**, as many as [`Sim::clients`] decides. A client with a [`Script`] runs a fixed
//!    list of operations. A [`Client`] of your own decides at each event what it does next. A test
//!    that calls [`Sim::connect`] is itself the client, between two waits.
//! 5. **Check invariants**, during the run and at its end: no client is lost (see below), nothing
//!    is served twice, and everything that was opened is closed.
//! 6. **Inject faults** under [`check`]: [`Faults::lossless`] in one test, [`Faults::all`] in
//!    another. If a seed fails, `check` prints [what is stuck](#what-a-failure-shows).
//! 7. **Check that the test finds bugs.** Plant one, such as a buffer that is not cleared, and
//!    count the seeds until the test fails. [`Sim::fault_count`] shows how often a fault has
//!    occurred.
//!
//! # No client may be lost
//!
//! This is the most important invariant. Under [`Faults::lossless`] each client completes: it gets
//! its whole answer, and a client that ends its stream sees the server close. Check the outcome of
//! every client, not only the bytes that arrived:
//!
//! ```
//! # use evcore_sim::{ClientOutcome, ScriptHandle};
//! fn check_clients(clients: &[ScriptHandle]) {
//!     for client in clients {
//!         assert_eq!(client.outcome(), Some(ClientOutcome::Completed), "{client:?}");
//!     }
//! }
//! ```
//!
//! Under [`Faults::all`] a client may also end without its answer, because a fault
//! ([`ScriptHandle::is_lost_to_fault`]) or a timeout of the server has ended its connection.
//!
//! Two frequent bugs of edge-triggered servers change no byte, so only this check finds them. On
//! kernels without edges, a forgotten `rearm` stalls the connection. On kernels with edges, a
//! server that takes a short read for the end of the data stalls the connection if the peer has
//! already ended its stream. So run consecutive seeds, which use both kinds of kernel, and let some
//! clients end their stream with [`Script::shutdown_write`] and [`Script::recv_eof`]. The server's
//! idle timeout must not end a stalled connection before the check.
//!
//! # What a failure shows
//!
//! A server that forgets to rearm a stream for reading loses a client. [`check`] then looks for a
//! smaller run that fails at the same place, and prints (some lines are left out):
//!
//! ```text
//! no_client_is_lost failed with seed 1 after 604.422008699s of simulated time (trace 55086744aa2cfcf8).
//! Of 22 other runs, the smallest that fails at the same place has seed 3, 1 in place of 10 clients, and no fault; it took 600.737518168s.
//! Open connections:
//!   client 0, 10.0.0.1:7 <- 198.18.0.0:49152, last active at 0.001502772 s
//!     client 0: waits for 1,018 bytes
//!     worker 1: has 1,018 bytes unread; is registered as 3v1 for nothing; READ is not rearmed, and it is ready; its last report was READABLE at 0.000825992 s
//! The last turns of worker 1, which waits after turn 3, until 3600.001 s at most:
//!      0.000825992 worker 1 begins turn 3 with 1 event
//!      0.000825992 worker 1 gets the report that 3v1 is READABLE: client 0, 10.0.0.1:7 <- 198.18.0.0:49152
//!      0.000825992 worker 1 takes Ready(3v1, READABLE)
//!      0.000825992 worker 1 receives 256 bytes: client 0, 10.0.0.1:7 <- 198.18.0.0:49152
//!      0.000825992 worker 1 sends 256 bytes: client 0, 10.0.0.1:7 <- 198.18.0.0:49152
//!      0.000825992 worker 1 finds nothing to receive: client 0, 10.0.0.1:7 <- 198.18.0.0:49152
//!      0.000825992 worker 1 changes a registration to nothing: client 0, 10.0.0.1:7 <- 198.18.0.0:49152
//!      0.001502772 1,018 bytes arrive at worker 1: client 0, 10.0.0.1:7 <- 198.18.0.0:49152
//! Repeat it with:
//!     EVCORE_SIM_SEED=3 EVCORE_SIM_CLIENTS=1 EVCORE_SIM_FAULTS=none cargo test -p my-server --test sim -- --exact no_client_is_lost
//! The seed that failed first:
//!     EVCORE_SIM_SEED=1 cargo test -p my-server --test sim -- --exact no_client_is_lost
//! The picture of this run:
//!     target/debug/evcore-sim/no_client_is_lost-1.html
//! ```
//!
//! The page draws the clients and the workers as lanes, with turns as bars, segments as arrows and
//! faults as triangles. A table has the state of every worker and of every open connection at the
//! cursor, which the arrow keys move.
//!
//! [`check`] can leave out only clients that the test starts by [`Sim::clients`]. It runs a failing
//! test up to some 120 times, so the test must not fail because an earlier run has changed a global
//! variable. With a correct server, the test must also pass with fewer clients and fewer faults.
//!
//! `tests/sim/planted_bugs.rs` shows the two frequent bugs, five more, and how soon each is found.
//! `tests/portable_server.rs` is a server that runs on sockets and in a simulation, and
//! `tests/sim/proxy.rs` a proxy.
#![forbid(unsafe_code)]

mod sim;

mod config;
mod faults;
mod probability;

mod process;

mod backend;
mod descriptor;
mod group;
mod listener;
mod stream;
mod thread_pool;
mod udp_socket;

mod client;
mod client_event;
mod client_outcome;
mod script;

mod app;
mod worker;
mod workers;

mod check;
mod command;
mod panics;
mod report;
mod restriction;
mod shrink;

mod event_queue;
mod fd_table;
mod kernel_poller;
mod net;
mod notifier;
mod rng;
mod role;
mod state;
mod timeline;
mod trace;
mod watch_id;

pub use app::App;
pub use check::{FailureReport, check, explain};
pub use client::{Client, ClientCx};
pub use client_event::ClientEvent;
pub use client_outcome::ClientOutcome;
pub use config::SimConfig;
pub use descriptor::SimDescriptor;
pub use faults::{Fault, Faults};
pub use group::{SimGroup, SimMember};
pub use listener::SimListener;
pub use probability::Probability;
pub use process::Process;
pub use rng::Rng;
pub use script::{Script, ScriptHandle};
pub use sim::Sim;
pub use stream::SimStream;
pub use timeline::Timeline;
pub use udp_socket::SimUdpSocket;
pub use workers::Workers;
