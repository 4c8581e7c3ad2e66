#![doc = include_str!("../README.md")]
//!
//! # Signals
//!
//! | sent to | signal | what happens |
//! |---|---|---|
//! | master | TERM, INT | TERM to all workers; a second later KILL to those that are left |
//! | master | QUIT | QUIT to all workers; after the stop timeout as for TERM |
//! | master | CHLD | the dead are reaped, the hook is called, replacements are forked |
//! | worker | TERM, INT | [`Stop::Fast`] |
//! | worker | QUIT | [`Stop::Graceful`] |
//!
//! TERM or INT during a graceful stop makes it fast. Ctrl-C sends INT to master and workers alike,
//! and so does what TERM at the master does. All other signals do what they did before: HUP, the
//! terminal's farewell, ends a process that does not ignore it, and so a master (whose workers then
//! stop, see below) unless it was started by nohup or has left its terminal's session.
//!
//! # The master's death
//!
//! On Linux and FreeBSD a worker whose master dies is told [`Stop::Fast`], however the master died
//! and whether or not the worker had begun; but nobody is left to kill one that does not listen.
//! On Linux a worker that changes its user or group afterwards is no longer told. On other systems
//! it is told only if the master died before the worker had begun.

mod supervisor;
mod worker;

mod error;
mod exit;

mod master;
mod roster;
mod stopping;

mod bell;
mod crew;

mod fork;
mod signals;

pub use error::{Error, Result};
pub use exit::{DO_NOT_RESTART, Outcome, WorkerExit};
pub use supervisor::Supervisor;
pub use worker::{Stop, Worker};
