//! Runs the workers of a master as processes.

use std::{
    io,
    num::NonZeroU32,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::process::ExitStatusExt,
    },
    panic::{self, AssertUnwindSafe},
    process::{self, ExitStatus},
    sync::Arc,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, kill_process, waitpid},
};

use crate::{
    affinity::Affinity,
    descriptor_stores::DescriptorStores,
    exit::{ExitCause, WorkerInfo},
    fork::{self, Side},
    hang::Turns,
    kept::KeptCounts,
    liveness_pipe::{ChildEnd, ParentEnd, Report},
    mailboxes::{Mailboxes, Table},
    signals,
    slot::Slot,
    spawn::{Child, End, Spawn, Spawned},
    stop::Stop,
    successor::Successor,
    worker::{MasterLink, Worker},
};

/// The exit code of Rust's runtime for a process that panics.
const PANICKED: i32 = 101;

pub(crate) struct Processes<'a, F> {
    /// The function that each worker runs; `None` once no more workers are started.
    work: Option<F>,
    /// Number of workers in a generation.
    workers: usize,
    affinity: Option<Affinity>,
    mailboxes: Option<Arc<Table>>,
    stores: Option<DescriptorStores<'a>>,
    turns: Option<Turns>,
}

impl<'a, F> Processes<'a, F> {
    pub(crate) fn new(
        work: F,
        workers: usize,
        affinity: Option<Affinity>,
        mailboxes: Option<Arc<Table>>,
        stores: Option<DescriptorStores<'a>>,
        turns: Option<Turns>,
    ) -> Self {
        Self {
            work: Some(work),
            workers,
            affinity,
            mailboxes,
            stores,
            turns,
        }
    }
}

impl<F: FnOnce(Worker) -> i32> Spawn for Processes<'_, F> {
    type Child = Process;
    type Forked = ChildEnd;

    const DOING: &'static str = "forking a worker";

    fn spawn(&mut self, slot: Slot) -> io::Result<Spawned<Process, ChildEnd>> {
        if let Some(stores) = &mut self.stores {
            stores.prepare(slot.number(self.workers));
        }
        Ok(match fork::fork()? {
            Side::Parent(pid, pipe) => Spawned::Child(Process {
                pid,
                pipe: Some(pipe),
            }),
            Side::Child(pipe) => Spawned::Forked(pipe),
        })
    }

    fn run_forked(self, slot: Slot, pipe: ChildEnd) -> ! {
        pipe.install();
        // The master may have ended before the pipe was installed.
        signals::stop_if_parent_gone();
        let mut worker = Worker::new(slot, self.workers, MasterLink::Process);
        worker.set_turns(self.turns);
        worker.apply(self.affinity.as_ref());
        if let Some(mut table) = self.mailboxes {
            // The other reference belonged to `Binary`, which this process has dropped.
            let owned = Arc::get_mut(&mut table).expect("this process has one reference");
            owned.close_receiving_ends_except(slot);
            worker.set_mailboxes(Mailboxes::new(table, slot));
        }
        let number = slot.number(self.workers);
        let return_report = self.stores.map(|stores| stores.begin(&mut worker, number));
        signals::unblock();
        let work = self.work.expect("no worker is started after a stop");
        let ended = panic::catch_unwind(AssertUnwindSafe(|| work(worker)));
        if let (Ok(_), Some(return_report)) = (&ended, return_report) {
            return_report.report();
        }
        process::exit(ended.unwrap_or(PANICKED))
    }

    fn close(&mut self) {
        self.work = None;
        self.mailboxes = None;
    }

    fn set_successor(&mut self, successor: Successor) {
        if let Some(stores) = &self.stores {
            stores.set_successor(successor);
        }
    }

    fn ended(&mut self, worker: &WorkerInfo, has_successor: bool) {
        if let Some(stores) = &mut self.stores {
            stores.worker_ended(worker, has_successor);
        }
    }

    fn reap(&mut self, report: &mut dyn FnMut(&WorkerInfo, KeptCounts)) {
        if let Some(stores) = &mut self.stores {
            stores.reap(report);
        }
    }

    fn wait(&mut self) {
        self.stores
            .as_mut()
            .into_iter()
            .for_each(|stores| stores.wait());
    }
}

/// A worker process. Until it is reaped, no other process can have its id.
#[derive(Debug)]
pub(crate) struct Process {
    pid: Pid,
    /// The liveness pipe; `None` once the worker's end is found closed.
    pipe: Option<ParentEnd>,
}

impl Process {
    fn signal(&self, signal: Signal) {
        let _ = kill_process(self.pid, signal);
    }

    fn reap(&self, options: WaitOptions) -> Option<ExitCause> {
        loop {
            match waitpid(Some(self.pid), options) {
                Ok(None) => return None,
                Ok(Some((_, status))) => {
                    let status = ExitStatus::from_raw(status.as_raw());
                    return Some(ExitCause::of_process(status));
                }
                Err(Errno::INTR) => {}
                Err(_) => return Some(ExitCause::Unknown),
            }
        }
    }
}

impl Child for Process {
    fn pid(&self) -> Option<NonZeroU32> {
        Some(self.pid.as_raw_nonzero().unsigned_abs())
    }

    fn stop(&self, stop: Stop) {
        self.signal(match stop {
            Stop::Graceful => Signal::QUIT,
            Stop::Fast => Signal::TERM,
        });
    }

    fn replace(&self, successor: Successor) {
        if let Some(pipe) = &self.pipe {
            pipe.report_successor(successor);
        }
    }

    fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn reopen(&self) {
        self.signal(Signal::USR1);
    }

    fn is_ready(&mut self) -> bool {
        match self.pipe.as_mut().map(ParentEnd::read) {
            Some(Report::Ready) => true,
            Some(Report::Closed) => {
                self.pipe = None;
                false
            }
            Some(Report::Nothing) | None => false,
        }
    }

    fn ready_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.pipe.as_ref()?.as_fd())
    }

    /// Checks this worker only, so that the application can wait for its own children.
    fn try_wait(&mut self) -> Option<End> {
        let cause = self.reap(WaitOptions::NOHANG)?;
        // Ctrl-C reaches the worker and this process, which may not have handled it yet.
        let stop = Stop::from_severity(signals::state().severity());
        Some(End { cause, stop })
    }

    fn wait(&mut self) {
        self.reap(WaitOptions::empty());
    }
}
