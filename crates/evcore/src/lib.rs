#![doc = include_str!("../README.md")]
//!
//! # Where to look
//!
//! - [`EventLoop::next_step`] documents the order of a turn, which is one iteration of the loop.
//! - [`Step`] lists the cases that the application handles.
//! - [`Connections`] keeps the application's streams and values by token.
//! - [`Builder`] has the settings.
//! - [`InstrumentOptions::flight_recorder`] turns on records of the loop's last actions, which the
//!   program can read after a failure.
//!
//! Each part of the loop is a crate of its own, re-exported here under its name without the prefix
//! `evcore-`.
//!
//! # TLS
//!
//! A TLS library that reads and writes through `Read` and `Write` can use
//! [`EdgeStream::io`](net::EdgeStream::io). With rustls, the value of a connection is its session,
//! `Connections<ServerConnection>`, and the function `echo` of the example above becomes:
//!
//! ```
//! use evcore::{EdgeStream, EventLoop};
//! use rustls::ServerConnection;
//! use std::io::{self, ErrorKind, Read, Write};
//!
//! /// Sends back the bytes that arrive, until a call would block. The end of the
//! /// stream is an error, too.
//! fn echo(
//!     stream: &mut EdgeStream,
//!     tls: &mut ServerConnection,
//!     ev: &mut EventLoop,
//! ) -> io::Result<()> {
//!     let mut buffer = [0; 16 * 1024];
//!     loop {
//!         // While the client reads nothing, nothing is read from it.
//!         while tls.wants_write() {
//!             tls.write_tls(&mut stream.io(ev))?;
//!         }
//!         match rustls::Stream::new(tls, &mut stream.io(ev)).read(&mut buffer)? {
//!             0 => return Err(ErrorKind::UnexpectedEof.into()),
//!             // This has room, because rustls buffers up to 64 KiB.
//!             n => tls.writer().write_all(&buffer[..n])?,
//!         }
//!     }
//! }
//! ```
//!
//! The example `tls` is the whole server, with timeouts for the handshake and for silent clients,
//! and an orderly end of the session.
//!
//! # Tracing
//!
//! With the feature `tracing`, which is off by default, each [`Record`] is an event of the crate
//! [`tracing`](https://docs.rs/tracing). Without the feature this code is not built. With it, a
//! step takes some 200 instructions more, even if no subscriber takes the event.
//!
//! | target | at `DEBUG` | at `TRACE` | nginx's debug log |
//! |---|---|---|---|
//! | `evcore::turn` | | turn began, turn ended, ready, woken, shutting down | `worker cycle`, `epoll: fd: ev:` |
//! | `evcore::balancer` | planned | accept lock taken, released | `accept mutex locked` |
//! | `evcore::accept` | accepted | | `accept: fd:` |
//! | `evcore::poller` | stale | | `epoll: stale event` |
//! | `evcore::timer` | | armed, disarmed, expired | `event timer add`, `event timer del` |
//! | `evcore::posted` | | posted | `post event` |
//! | `evcore::connections` | registered, closed, evicted | | `epoll add event`, `reusable connection` |
//!
//! Errors are not among these events: the calls of the loop return them, and
//! [`ListenersMut::take_error`] returns those of listeners.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

// Most of the public items.
mod acceptor;
mod budgets;
mod builder;
mod connections;
mod connector;
mod edge_stream;
mod error;
mod event_loop;
mod handle;
mod idle;
mod listeners_mut;
mod posting;
mod remove;
mod shutdown;
mod stats;
mod step;
mod timers_mut;
mod token_map;

// The order of a turn.
mod phase;
mod phases;
mod turn;
mod waits;

// The tables, the poller's keys, and the units of time.
mod batch;
mod keys;
mod slots;
mod time;

// The state of accepting, eviction and shutdown.
mod accepting;
mod eviction;
mod idle_marks;
mod listeners;
mod shutdown_times;

// Instruments.
mod instruments;
mod measuring;
mod record;
#[cfg(feature = "tracing")]
mod trace;

pub use acceptor::Acceptor;
pub use budgets::Budgets;
pub use builder::Builder;
pub use connections::Connections;
pub use connector::Connector;
pub use edge_stream::EdgeStream;
pub use error::{Error, ListenerError, Result};
pub use event_loop::EventLoop;
pub use handle::Handle;
pub use instruments::{Instruments, SlowTurn};
pub use listeners_mut::ListenersMut;
pub use record::Record;
pub use stats::Stats;
pub use step::{Accepted, Step};
pub use timers_mut::TimersMut;
pub use token_map::TokenMap;
pub use waits::Sleep;

pub use evcore_balancer as balancer;
pub use evcore_clock as clock;
pub use evcore_instrument as instrument;
pub use evcore_net as net;
pub use evcore_poller as poller;
pub use evcore_pool as pool;
pub use evcore_posted as posted;
pub use evcore_timer as timer;
pub use evcore_token as token;

pub use evcore_instrument::{Histogram, Histograms, InstrumentOptions};
pub use evcore_net::{Address, Listener, SendBuffer, Stream, Transport};
pub use evcore_poller::{Interest, Mode, Ready};
pub use evcore_token::Token;

/// One of the timers of a token. [`Builder::timers_per_token`] sets their number, which is 2 by
/// default.
///
/// ```
/// use evcore::{EventLoop, Timer};
/// use std::time::Duration;
///
/// /// Limits how long a client may send nothing.
/// const IDLE: Timer = Timer::new(0);
/// /// Limits a whole request.
/// const REQUEST: Timer = Timer::new(1);
///
/// let mut ev = EventLoop::builder().build()?;
/// let token = ev.add_unwatched()?;
/// ev.arm(token, IDLE, Duration::from_secs(60));
/// ev.arm(token, REQUEST, Duration::from_secs(300));
/// assert!(ev.disarm(token, REQUEST));
/// # Ok::<(), evcore::Error>(())
/// ```
///
/// The type is an item of [`timer`]:
#[doc(inline)]
pub use evcore_timer::Timer;

// Each of these types can be made on one thread and used on another.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<EventLoop>();
    is_send::<Handle>();
    is_send::<Builder>();
};
