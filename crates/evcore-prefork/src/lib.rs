#![doc = include_str!("../README.md")]
//!
//! # Signals
//!
//! As nginx has them:
//!
//! | sent to | signal | what happens |
//! |---|---|---|
//! | master | TERM, INT | TERM to all workers; a second later KILL to those that are left |
//! | master | QUIT | QUIT to all workers; after the stop timeout as for TERM |
//! | master | HUP | a new set of workers; when they serve, QUIT to the old, and so on |
//! | master | USR1 | the hook for the master's own logs, then USR1 to all workers |
//! | master | USR2 | the program is started again, and inherits what it was given to pass on |
//! | master | WINCH | QUIT to all workers, and so on; the master stays; HUP brings workers back |
//! | master | CHLD | the dead are reaped, the hook is called, replacements are forked |
//! | worker | TERM, INT | [`Stop::Fast`] |
//! | worker | QUIT | [`Stop::Graceful`] |
//! | worker | USR1 | one more in [`Worker::reopens`] |
//! | worker | HUP, USR2, WINCH | nothing |
//!
//! TERM or INT during a graceful stop makes it fast. Ctrl-C sends INT to master and workers alike,
//! to the same effect as TERM to the master. HUP reloads whoever sends it, so a master outlives its
//! terminal. WINCH is what a terminal sends too, when its window changes: a master in the
//! foreground of its terminal heeds none (nginx: one that is no daemon).
//!
//! HUP, USR2 and WINCH that come at once are taken in this order: USR2, WINCH, HUP.
//!
//! # Reload
//!
//! The listeners stay open in the master, so nobody is refused or reset: clients wait in the
//! backlog until somebody accepts. The old workers are asked to finish only when each new one has
//! said that it [is ready](Worker::ready), or has lived for the
//! [timeout](Supervisor::ready_timeout); until then those of both sets that die are replaced. If
//! all new workers refuse ([`DO_NOT_RESTART`]), the old ones go on. Up to four sets of workers may
//! live at once, each with a time of its own to finish; further reloads wait. If the workers of all
//! old sets were killed and still do not end, a reload is refused ([`Reload::Stuck`]).
//!
//! # A new binary
//!
//! USR2 starts the program again, from the file that it was started from, with the same arguments.
//! It finds the listeners by [`inherited`]. The old master goes on beside it until it is told to
//! QUIT, or may be told to take over again: WINCH to send its workers away, HUP to bring them back.
//! If the new binary ends first, workers that were sent away come back by themselves. So as long as
//! the old one lives, the new one removes nothing that both serve by ([`predecessor_lives`]), and
//! starts no newer binary. A stop for the whole process group, such as Ctrl-C, ends both, also while
//! the new one is being started.
//!
//! # The master's death
//!
//! A worker whose master dies is told [`Stop::Fast`], however the master died and whether or not
//! the worker had begun; but nobody is left to kill one that does not listen. It is told by SIGIO,
//! from a socket that only the master holds the other end of; a worker that closes all descriptors
//! that it does not know is not told. (Run on Linux; type-checked for the BSDs, macOS and illumos.)

mod supervisor;
mod worker;

mod threads;

mod affinity;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
mod cpu_set;
mod cpus;

mod error;
mod exit;
mod reload;
mod upgrade;

mod master;
mod roster;
mod set;
mod stopping;
mod team;

mod bell;
mod crew;
mod letterbox;

mod foreground;
mod fork;
mod leash;
mod signals;
mod sync;
mod told;

pub use affinity::Affinity;
pub use cpus::Cpus;
pub use error::{Error, Result};
pub use exit::{DO_NOT_RESTART, Outcome, WorkerExit};
pub use reload::Reload;
pub use supervisor::Supervisor;
pub use threads::{ThreadEnd, ThreadExit, Threads};
pub use upgrade::{INHERITED, Upgrade, inherited, predecessor_lives};
pub use worker::{Stop, Worker};
