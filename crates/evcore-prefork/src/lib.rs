#![doc = include_str!("../README.md")]
//!
//! # Signals
//!
//! As in nginx:
//!
//! | sent to | signal | effect |
//! |---|---|---|
//! | master | TERM, INT | fast stop: TERM to all workers, and a second later KILL to those that are left |
//! | master | QUIT | graceful stop: QUIT to all workers; after the stop timeout a fast stop |
//! | master | HUP | reload: new workers are started; when they are ready, the old ones get a graceful stop |
//! | master | USR1 | reopen: the hook for the master's own logs, then USR1 to all workers |
//! | master | USR2 | upgrade: the program is started again, and inherits the listeners that are passed on |
//! | master | WINCH | a graceful stop for all workers; the master stays, and HUP starts new workers |
//! | worker | TERM, INT | [`Stop::Fast`] |
//! | worker | QUIT | [`Stop::Graceful`] |
//! | worker | USR1 | one more in [`Worker::reopen_count`] |
//! | worker of a master | HUP, USR2, WINCH | none |
//!
//! If the workers are threads, the signals of the table go to the process. Its master sends the
//! threads the same requests, without signals.
//!
//! TERM or INT during a graceful stop makes it fast. Ctrl-C sends INT to master and workers alike,
//! with the same outcome as TERM to the master.
//!
//! A master gets HUP if its terminal hangs up. This HUP is a reload too, so the master survives.
//! A terminal also sends WINCH when its window changes. So a master in the foreground of its
//! terminal ignores WINCH, as nginx does unless it is a daemon.
//!
//! USR2, WINCH and HUP are handled in this order if they are pending at once. During a stop they
//! have no effect.
//!
//! # Replacement
//!
//! A worker that ends without a stop is replaced, unless its exit code is [`DO_NOT_RESTART`]. A
//! worker that ends with [`CANNOT_START`] before any worker was ready is replaced only if another
//! worker becomes ready.
//!
//! A worker that lived for a second or more is replaced at once. A worker that lived for less
//! counts as crashed, and so does a failed start. After a crash, a pause precedes the start of the
//! replacement. For the first crash in a slot, the pause is 100 ms. It doubles with each further
//! crash in a row, up to 10 s.
//!
//! While no worker serves, the pause is shorter: it begins at the last start of any worker, and
//! lasts at most 500 ms. Here a worker serves from its start until it ends or gets a stop. So if
//! all workers are killed, the next one starts within half a second. A server whose workers crash
//! immediately starts some two workers a second, and does not spin. If [each slot serves
//! alone](Supervisor::slots_serve_alone), this holds for each slot by itself.
//!
//! # Reload
//!
//! A listener that the workers' function has captured stays open in the master, so no connection in
//! its backlog is refused or reset. Clients wait in the backlog until a worker accepts them.
//!
//! The old workers get a stop only when no new worker is awaited. A new worker is awaited until it
//! has reported that it [is ready](Worker::ready), has lived for the
//! [timeout](Supervisor::ready_timeout) (1 second by default), or has refused to be replaced
//! ([`DO_NOT_RESTART`]). Until then, workers of both generations are replaced if they end. If all
//! new workers refuse, the old ones continue.
//!
//! Up to four generations (the workers of one start or reload) may live at once, each with its own
//! stop timeout. Further reloads wait ([`Reload::Waiting`]). If the workers of all old generations
//! do not end, a reload is given up ([`Reload::Stuck`]).
//!
//! # Upgrade
//!
//! USR2 starts the program again, from the same file, with the same arguments, if the workers are
//! processes. (On Linux, if the program was started through a symbolic link, the file is where the
//! link led then.) The new binary gets the listeners from [`inherited`]. The old master keeps running
//! until it gets a stop. It can also take over again: after WINCH, which stops its workers, HUP
//! starts new ones. If the new binary ends first, the workers that WINCH has stopped are replaced
//! by new ones. So while the old binary lives, the new one must not remove what both binaries use
//! ([`parent_binary_alive`]). During this time, the new binary starts no newer one.
//!
//! Workers that stop can reach the workers of the new binary by [mailboxes](Mailboxes), which the
//! new binary inherits. A stop signal for the whole process group, such as Ctrl-C, ends both
//! binaries, even while the new one starts.
//!
//! # Socket activation
//!
//! A service manager such as systemd can open the listeners and start the program with them.
//! [`activated`] takes them. A new binary that USR2 starts inherits them if they are [passed
//! on](Supervisor::inherit), like other listeners. A service manager with a store of descriptors
//! may also keep the [listeners](stored_listeners) and the [mailboxes](Supervisor::keep_mailboxes)
//! of the server while the service restarts.
//!
//! # The master's death
//!
//! If the master dies, for whatever reason, its worker processes get [`Stop::Fast`], including
//! those that have not begun yet. A worker that ignores the stop is not killed. The request arrives
//! by SIGIO, from a socket whose other end the master holds. A worker that closes all descriptors
//! that it has not opened itself closes this socket too, and does not get the request. (This was
//! run on Linux, and is type-checked for the BSDs, macOS and illumos.)

mod slot;
mod stop;
mod successor;
mod supervisor;
mod worker;
mod worker_index;

mod affinity;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
mod cpu_set;
mod cpus;

mod activation;
mod error;
mod exit;
mod kept;
mod mailboxes;
mod passed_fds;
mod reload;
mod stored;
mod upgrade;

mod children;
mod hang;
mod hooks;
mod interval;
mod lifecycle;
mod master;

#[cfg(target_os = "linux")]
mod descriptor_stores;
#[cfg(not(target_os = "linux"))]
#[path = "no_descriptor_stores.rs"]
mod descriptor_stores;
#[cfg(target_os = "linux")]
mod idle_marks;
mod processes;
mod spawn;
mod threads;

mod foreground;
mod fork;
mod liveness_pipe;
mod pause;
mod self_pipe;
mod shared_slice;
mod signal_state;
mod signals;
#[cfg(target_os = "linux")]
mod store_place;
#[cfg(target_os = "linux")]
mod store_process;
mod sync;
mod thread_channel;
mod wake;

pub use activation::{
    LISTEN_FDS, activated, close_stored_mailboxes, is_activated, stored_listeners,
};
pub use affinity::Affinity;
pub use cpus::Cpus;
pub use error::{Error, Result};
pub use exit::{CANNOT_START, DO_NOT_RESTART, ExitCause, Outcome, WorkerExit, WorkerInfo};
pub use kept::{Kept, KeptCounts};
pub use mailboxes::Mailboxes;
pub use passed_fds::INHERITED;
pub use reload::Reload;
pub use stop::Stop;
pub use stored::STORED_LISTENER;
pub use successor::Successor;
pub use supervisor::Supervisor;
pub use upgrade::{Upgrade, inherited, parent_binary_alive};
pub use worker::Worker;
pub use worker_index::WorkerIndex;
