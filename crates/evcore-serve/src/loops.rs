//! The parts of the workers' loops, and the functions that run a worker.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use evcore::balancer::{WorkerGroup, WorkerId};
use evcore::{Builder, EventLoop, Listener};
use evcore_prefork::{CANNOT_START, Supervisor};

use crate::event::{Event, OnEvent};
use crate::handover::Handover;
use crate::listeners::add_all;
use crate::parts::Parts;
use crate::proxy_protocol::ProxyProtocol;
use crate::worker::Worker;

/// The exit code of a worker that has failed, and that the supervisor replaces.
pub(crate) const FAILED: i32 = 1;

pub(crate) type Configure = Arc<dyn Fn(Builder) -> Builder + Send + Sync>;

/// The parts that the loops of all workers are made of, except the listeners.
#[derive(Clone)]
pub(crate) struct Loops {
    pub(crate) group: WorkerGroup,
    pub(crate) handover: Option<u32>,
    pub(crate) rebalance: bool,
    pub(crate) proxy_protocol: Option<ProxyProtocol>,
    pub(crate) configure: Configure,
    pub(crate) stop_timeout: Duration,
    pub(crate) on_event: OnEvent,
}

impl Loops {
    /// Makes the supervisor report to the hook, and release what dead workers held in the group.
    pub(crate) fn watch(self, supervisor: Supervisor<'static>) -> Supervisor<'static> {
        let report = || Arc::clone(&self.on_event);
        let (start_error, ready, stuck) = (report(), report(), report());
        let (exit, reload, upgrade, stop) = (report(), report(), report(), report());
        let (kept, hang) = (report(), report());
        let group = self.group;
        supervisor
            .on_start_error(move |worker, error| start_error(Event::StartFailed(worker, error)))
            .on_ready(move |worker| ready(Event::Ready(worker)))
            .on_stuck(move |worker| stuck(Event::Stuck(worker)))
            .on_exit(move |ended| {
                // The hook runs first, so that it still finds the worker's gauges.
                exit(Event::Exited(ended));
                group.release_dead(WorkerId::from_slot(ended.worker.slot));
            })
            .on_hang(move |worker, lasted| hang(Event::Hung(worker, lasted)))
            .on_kept(move |worker, counts| kept(Event::Kept(worker, counts)))
            .on_reload(move |state| reload(Event::Reload(state)))
            .on_upgrade(move |state| upgrade(Event::Upgrade(state)))
            .on_stop(move |kind| stop(Event::Stopping(kind)))
    }

    /// Runs a worker, and returns its exit code.
    pub(crate) fn run<E: fmt::Display>(
        &self,
        supervised: evcore_prefork::Worker,
        listeners: io::Result<Vec<Listener>>,
        work: impl FnOnce(Worker) -> Result<(), E>,
    ) -> i32 {
        self.run_work(supervised, |supervised, on_ready| {
            let built = listeners.and_then(|listeners| {
                let mut ev = self.event_loop(&supervised, listeners)?;
                let handover = self.handover(&mut ev, &supervised)?;
                Ok((ev, handover))
            });
            let (ev, handover) = built.map_err(|error| error.to_string())?;
            let on_event = Arc::clone(&self.on_event);
            let worker = Worker::new(ev, supervised, self.stop_timeout, on_event)
                .handover(handover)
                .proxy_protocol(self.proxy_protocol.clone());
            work(worker.on_ready(on_ready)).map_err(|error| error.to_string())
        })
    }

    /// Runs `work`, which calls its second argument when the worker is ready. Returns the worker's
    /// exit code.
    pub(crate) fn run_work(
        &self,
        supervised: evcore_prefork::Worker,
        work: impl FnOnce(evcore_prefork::Worker, Box<dyn FnOnce()>) -> Result<(), String>,
    ) -> i32 {
        let index = supervised.index();
        if let Some(error) = supervised.affinity_error() {
            (self.on_event)(Event::Affinity(index, error));
        }
        if let Some(error) = supervised.descriptor_store_error() {
            (self.on_event)(Event::NoDescriptorStore(index, error));
        }
        let is_ready = Rc::new(Cell::new(false));
        let set_ready = Rc::clone(&is_ready);
        match work(supervised, Box::new(move || set_ready.set(true))) {
            Ok(()) => 0,
            Err(error) if is_ready.get() => {
                (self.on_event)(Event::Failed(index, error));
                FAILED
            }
            Err(error) => {
                (self.on_event)(Event::CannotStart(index, error));
                CANNOT_START
            }
        }
    }

    pub(crate) fn parts(
        &self,
        supervised: evcore_prefork::Worker,
        listeners: Vec<Listener>,
        on_ready: Box<dyn FnOnce()>,
    ) -> Parts {
        Parts {
            supervised,
            listeners,
            group: self.group.clone(),
            stop_timeout: self.stop_timeout,
            on_ready: Some(on_ready),
            stop_reports: None,
        }
    }

    /// Makes the handover of a worker; `None` if its connections do not move.
    fn handover(
        &self,
        ev: &mut EventLoop,
        supervised: &evcore_prefork::Worker,
    ) -> io::Result<Option<Handover>> {
        let (Some(version), Some(mailboxes)) = (self.handover, supervised.mailboxes()) else {
            return Ok(None);
        };
        let (on_event, index) = (Arc::clone(&self.on_event), supervised.index());
        let report = move |why: &dyn fmt::Display| {
            on_event(Event::Handover(index, why.to_string()));
        };
        let handover = Handover::new(ev, version, mailboxes.clone(), Box::new(report))?;
        ev.listeners().set_rebalancing(self.rebalance);
        Ok(Some(handover))
    }

    pub(crate) fn event_loop(
        &self,
        supervised: &evcore_prefork::Worker,
        listeners: Vec<Listener>,
    ) -> io::Result<EventLoop> {
        let member = self.group.join(WorkerId::from_slot(supervised.slot()));
        let builder = add_all((self.configure)(EventLoop::builder()), listeners);
        let mut ev = builder.group(member).build()?;
        if let Some(marks) = supervised.idle_marks() {
            ev.listeners().set_idle_marks(marks);
        }
        let handle = ev.handle();
        let descriptor = handle.descriptor();
        // A backend of the kernel has a descriptor; a backend of the program's own may have none.
        supervised.wake_fd(descriptor.ok_or(io::ErrorKind::Unsupported)?)?;
        Ok(ev)
    }
}
