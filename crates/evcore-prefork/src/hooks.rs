//! The functions of the application that the master calls.

use std::{io, time::Duration};

use crate::{
    exit::{WorkerExit, WorkerInfo},
    interval::Interval,
    kept::KeptCounts,
    reload::Reload,
    stop::Stop,
    upgrade::Upgrade,
};

type WorkerHook<'a> = Box<dyn FnMut(&WorkerInfo) + 'a>;

/// The hooks of a supervisor. Unset ones do nothing.
pub(crate) struct Hooks<'a> {
    pub(crate) on_start: WorkerHook<'a>,
    pub(crate) on_start_error: StartErrorHook<'a>,
    pub(crate) on_ready: WorkerHook<'a>,
    pub(crate) on_stuck: WorkerHook<'a>,
    pub(crate) on_hang: HangHook<'a>,
    pub(crate) on_exit: Box<dyn FnMut(&WorkerExit) + 'a>,
    pub(crate) on_kept: KeptHook<'a>,
    pub(crate) on_reload: Box<dyn FnMut(Reload) + 'a>,
    pub(crate) on_reopen: Box<dyn FnMut() + 'a>,
    pub(crate) on_upgrade: Box<dyn FnMut(&Upgrade) + 'a>,
    pub(crate) on_stop: Box<dyn FnMut(Stop) + 'a>,
    pub(crate) intervals: Vec<Interval<'a>>,
}

type HangHook<'a> = Box<dyn FnMut(&WorkerInfo, Duration) + 'a>;

type KeptHook<'a> = Box<dyn FnMut(&WorkerInfo, KeptCounts) + 'a>;

type StartErrorHook<'a> = Box<dyn FnMut(&WorkerInfo, &io::Error) + 'a>;

impl Default for Hooks<'_> {
    fn default() -> Self {
        Self {
            on_start: Box::new(|_| {}),
            on_start_error: Box::new(|_, _| {}),
            on_ready: Box::new(|_| {}),
            on_stuck: Box::new(|_| {}),
            on_hang: Box::new(|_, _| {}),
            on_exit: Box::new(|_| {}),
            on_kept: Box::new(|_, _| {}),
            on_reload: Box::new(|_| {}),
            on_reopen: Box::new(|| {}),
            on_upgrade: Box::new(|_| {}),
            on_stop: Box::new(|_| {}),
            intervals: Vec::new(),
        }
    }
}
