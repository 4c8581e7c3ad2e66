#![doc = include_str!("../README.md")]
//!
//! # Where to look
//!
//! - [`Runtime`] is a loop with its tasks; [`Executor`] has the tasks of a loop that you drive.
//! - [`spawn_local`] spawns a task, and a [`JoinHandle`] waits for it.
//! - [`Stream`], [`Listener`], [`UdpSocket`] and [`Watched`] wait for descriptors. [`sleep`],
//!   [`timeout`] and [`interval`] wait for a point in time. [`shutting_down`] waits for a shutdown
//!   of the loop.
//! - [`BlockingPool`] runs work that blocks. [`Child`] runs another process. [`Signals`] receives
//!   signals of this process.
//!
//! # How it works
//!
//! An `evcore::Token` identifies a thing that the loop handles. A task is a token without a
//! descriptor. A sleep is a token with a timer. A stream is a token with a descriptor, and with the
//! wakers of the tasks that read and write. The executor keeps tasks, sleeps and streams in one
//! table by token. A step of the loop wakes tasks or polls them.
//!
//! Tasks that are woken on the loop's thread while the executor polls a future, handles a step or
//! runs [`Executor::enter`] are polled in the order of their wake-ups. One step of the executor's
//! own token polls many of them. A task that is woken otherwise is polled in the step of its own
//! token. If the loop has instruments, every task is polled in the step of its own token.
//!
//! Dropping a future removes its tokens from the loop. Only the token of one sleep is kept, for the
//! next sleep. If a future is dropped outside the runtime, its tokens are removed in the next step
//! of the loop.
//!
//! # In the simulator
//!
//! The same futures run on the loop of `evcore-sim`, over simulated sockets and time. Each process
//! is an [`Executor`] with its loop. This program runs a server and two clients with a hundred
//! seeds, and with faults such as late packets, short reads and full buffers:
//!
//! ```
//! use evcore::{EventLoop, Step};
//! use evcore_async::{Executor, Listener, Stream, sleep, spawn_local};
//! use evcore_sim::{App, Faults, Process, SimListener, SimStream, Workers, check};
//! use futures_lite::{AsyncReadExt, io};
//! use std::time::Duration;
//!
//! struct Node { executor: Executor, ev: EventLoop<SimListener> } // the tasks end before the loop
//!
//! impl App for Node {
//!     fn event_loop(&mut self) -> &mut EventLoop<SimListener> { &mut self.ev }
//!     fn on_step(&mut self, step: Step<SimStream>) { self.executor.on_step(&mut self.ev, step); }
//! }
//!
//! async fn server(process: Process) -> io::Result<()> {
//!     let listener = Listener::new(process.listen(([10, 0, 0, 1], 7).into()))?;
//!     loop {
//!         let (stream, _peer) = listener.accept().await?;
//!         drop(spawn_local(async move { io::copy(&stream, &stream).await }));
//!     }
//! }
//!
//! async fn client(process: Process) -> io::Result<()> {
//!     sleep(Duration::from_secs(60)).await; // by then the server listens
//!     let mut stream = Stream::connect_with(&process, &"10.0.0.1:7".parse().unwrap()).await?;
//!     stream.write_all(b"hello").await?;
//!     let mut buffer = [0; 5];
//!     stream.read_exact(&mut buffer).await?;
//!     assert_eq!(&buffer, b"hello");
//!     Ok(())
//! }
//!
//! check("every_client_gets_its_bytes_back", 0..100, |sim| { // the body of a test
//!     sim.set_faults(Faults::lossless());
//!     let mut nodes = Workers::new(sim, 3, |process, index| {
//!         let mut ev = process.builder().build().unwrap();
//!         let executor = Executor::new(&mut ev);
//!         executor.set_resumes_panics(true); // an assertion that fails ends the run
//!         let node = process.clone();
//!         let main = async move { if index == 0 { server(node).await } else { client(node).await } };
//!         drop(executor.spawn(&mut ev, main));
//!         Node { executor, ev }
//!     });
//!     let served = |(index, node): (usize, &Node)| index == 0 || node.executor.tasks() == 0;
//!     assert!(nodes.run_until(Duration::from_secs(120), |nodes| nodes.apps().all(served)));
//! });
//! ```
//!
//! # Panics
//!
//! Calls that need the loop panic outside a runtime: [`spawn_local`], [`sleep`], [`Stream::new`]
//! and others. *Outside a runtime* means: neither in a future that a [`Runtime`] or an [`Executor`]
//! polls, nor in [`Executor::enter`]. Reads and writes of a stream or a socket that exists return
//! an error instead. No destructor of this crate panics outside a runtime.
//!
//! A sleep, a job and a wait for a shutdown panic if all 16 million tokens of the loop are in use.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

// The executor.
mod context;
mod error;
mod executor;
mod join;
mod join_error;
mod run_queue;
mod runtime;
mod shared;
mod slot;
mod spawn;
mod stuck;
mod task;
mod wait_queue;
mod waker;
mod yield_now;

// Things that futures wait for.
mod blocking;
mod child;
mod interval;
mod job;
mod listener;
mod registration;
mod shutdown;
mod signals;
mod sleep;
mod stream;
mod timeout;
mod udp_socket;
mod watched;

// Uses of streams: copying, the traits of other crates, and clients of `evcore-serve`.
mod copy;
#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "tokio")]
mod tokio;

pub use blocking::BlockingPool;
pub use child::Child;
pub use copy::copy_bidirectional;
pub use error::Error;
pub use executor::Executor;
pub use interval::{Interval, interval};
pub use job::JobOutput;
pub use join::JoinHandle;
pub use join_error::JoinError;
pub use listener::{Listener, TcpListener, UnixListener};
pub use runtime::Runtime;
pub use shutdown::{ShuttingDown, handle, is_shutting_down, shutting_down};
pub use signals::Signals;
pub use sleep::{Sleep, now, sleep, sleep_until};
pub use spawn::{Refused, spawn_local, try_spawn_local};
pub use stream::{Stream, TcpStream, UnixStream};
pub use timeout::{TimedOut, Timeout, timeout};
pub use udp_socket::UdpSocket;
pub use watched::Watched;
pub use yield_now::{YieldNow, yield_now};
