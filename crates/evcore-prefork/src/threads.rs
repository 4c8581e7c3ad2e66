//! Runs the workers of a master as threads.

use std::{
    convert::Infallible,
    io,
    num::NonZeroU32,
    os::{fd::BorrowedFd, unix::net::UnixStream},
    panic::{self, AssertUnwindSafe},
    sync::Arc,
    thread::{self, JoinHandle},
};

use crate::{
    affinity::Affinity,
    exit::ExitCause,
    mailboxes::{Mailboxes, Table},
    signals,
    slot::Slot,
    spawn::{Child, End, Spawn, Spawned},
    stop::Stop,
    successor::Successor,
    thread_channel::ThreadChannel,
    worker::{MasterLink, Worker},
};

pub(crate) struct Threads<F> {
    /// The function that each worker runs; `None` once no more workers are started.
    work: Option<Arc<F>>,
    /// Number of workers in a generation.
    workers: usize,
    affinity: Option<Affinity>,
    mailboxes: Option<Arc<Table>>,
    /// The write end of the master's self-pipe.
    waker: Arc<UnixStream>,
}

impl<F> Threads<F> {
    pub(crate) fn new(
        work: F,
        workers: usize,
        affinity: Option<Affinity>,
        mailboxes: Option<Arc<Table>>,
        waker: UnixStream,
    ) -> Self {
        Self {
            work: Some(Arc::new(work)),
            workers,
            affinity,
            mailboxes,
            waker: Arc::new(waker),
        }
    }
}

impl<F: Fn(Worker) -> i32 + Send + Sync + 'static> Spawn for Threads<F> {
    type Child = Thread;
    type Forked = Infallible;

    const DOING: &'static str = "starting a thread";

    fn spawn(&mut self, slot: Slot) -> io::Result<Spawned<Thread, Infallible>> {
        let channel = Arc::new(ThreadChannel::new(Arc::clone(&self.waker)));
        let mut worker = Worker::new(slot, self.workers, MasterLink::Thread(Arc::clone(&channel)));
        if let Some(table) = &self.mailboxes {
            worker.set_mailboxes(Mailboxes::new(Arc::clone(table), slot));
        }
        let affinity = self.affinity.clone();
        let work = self.work.clone();
        let work = work.expect("no worker is started after a stop");
        let ended = Arc::clone(&channel);
        let name = format!("worker-{}", slot.index);
        // A thread inherits the mask of its creator. The signals are blocked, so that no worker
        // gets them.
        signals::block();
        let thread = thread::Builder::new().name(name).spawn(move || {
            worker.apply(affinity.as_ref());
            let result = panic::catch_unwind(AssertUnwindSafe(|| work(worker)));
            // The work is dropped before the end is reported, because its values must not outlive
            // the last worker.
            drop(work);
            ended.end(match result {
                Ok(code) => ExitCause::Exited(code),
                Err(payload) => ExitCause::of_panic(&*payload),
            });
        });
        signals::unblock();
        Ok(Spawned::Child(Thread {
            channel,
            thread: Some(thread?),
        }))
    }

    fn run_forked(self, _: Slot, never: Infallible) -> ! {
        match never {}
    }

    fn close(&mut self) {
        self.work = None;
        self.mailboxes = None;
    }
}

/// A worker that is a thread. When this is dropped, the thread runs on.
#[derive(Debug)]
pub(crate) struct Thread {
    channel: Arc<ThreadChannel>,
    /// The thread; `None` once it was joined.
    thread: Option<JoinHandle<()>>,
}

impl Child for Thread {
    fn pid(&self) -> Option<NonZeroU32> {
        None
    }

    fn stop(&self, stop: Stop) {
        self.channel.stop(stop.severity());
    }

    /// Does nothing, because worker threads share all descriptors and need no successor.
    fn replace(&self, _: Successor) {}

    fn kill(&self) {
        self.channel.stop(Stop::Fast.severity());
    }

    fn reopen(&self) {
        self.channel.reopen();
    }

    fn is_ready(&mut self) -> bool {
        self.channel.is_ready()
    }

    fn ready_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn try_wait(&mut self) -> Option<End> {
        let cause = self.channel.take_end()?;
        // A thread reports its end as its last action, so this does not wait for long.
        let _ = self.thread.take().map(JoinHandle::join);
        Some(End { cause, stop: None })
    }

    fn wait(&mut self) {}
}
