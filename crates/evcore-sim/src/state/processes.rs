//! Processes: the objects that they hold, and their release.

use evcore::balancer::WorkerId;

use super::{State, stores::Store};
use crate::{
    event_queue::SimEvent,
    fd_table::FdTable,
    kernel_poller::Object,
    net::{Carried, EndpointId, Owner},
    rng::whole_ns,
    trace::{Detail, Event},
};

#[derive(Debug, Default)]
pub(crate) struct Process {
    pub(crate) descriptors: FdTable,
    /// The groups in which the process has a role, and its id in each.
    pub(crate) memberships: Vec<(u32, WorkerId)>,
    pub(crate) pollers: Vec<u32>,
    /// True if the process was killed or has exited. The calls of its handles have no effect.
    pub(crate) is_dead: bool,
    pub(crate) is_reaped: bool,
    /// True if `Workers` drive the process, so that its waits return at once.
    pub(crate) driven_by_workers: bool,
    /// The process that keeps the idle connections of this one if this one is killed.
    pub(crate) store: Option<Store>,
    pub(crate) is_store: bool,
    /// The connections that killed processes have left to this one, with their descriptors.
    pub(crate) kept: Vec<(Carried, i32)>,
    /// True if the last wait under `Workers` began without an event, so that it slept.
    pub(crate) has_slept: bool,
}

impl State {
    /// Starts a process. If it is a worker, `worker` is its index, and `Workers` drive it.
    pub(crate) fn spawn_process(&mut self, worker: Option<usize>) -> u32 {
        let id = u32::try_from(self.processes.len()).expect("there are fewer processes");
        self.processes.push(Process {
            driven_by_workers: worker.is_some(),
            ..Process::default()
        });
        if let Some(index) = worker {
            let process = id;
            self.detail(|| Detail::IsWorker { process, index });
        }
        self.note(Event::ProcessBegan(id));
        id
    }

    pub(crate) fn is_alive(&self, process: u32) -> bool {
        !self.processes[process as usize].is_dead
    }

    pub(crate) fn close_descriptor(&mut self, process: u32, fd: i32) {
        let descriptors = &mut self.processes[process as usize].descriptors;
        let Some(object) = descriptors.remove(fd) else {
            return;
        };
        match object {
            Object::Endpoint(id) => self.release(Carried::Endpoint(id)),
            Object::Counter(_) => {}
            Object::Channel(id) => {
                self.remove_watches_of(process, fd);
                self.release(Carried::Channel(id));
            }
            Object::Listener(id) => {
                // A registration of a shared listener belongs to one of its descriptors.
                self.remove_watches_of(process, fd);
                self.close_listener(id);
            }
            Object::Udp(id) => {
                self.remove_watches_of(process, fd);
                self.net.udp.close(id);
            }
            Object::Notifier(_) => self.remove_watches_of(process, fd),
        }
    }

    pub(crate) fn reset_descriptor(&mut self, process: u32, fd: i32, id: EndpointId) {
        let descriptors = &mut self.processes[process as usize].descriptors;
        let object = descriptors.remove(fd);
        let is_last = self.net.endpoint(id).duplicates == 0;
        match object {
            Some(_) if is_last => self.reset(id),
            Some(_) => self.release(Carried::Endpoint(id)),
            None => {}
        }
    }

    /// Begins a wait under `Workers`. Returns whether it ends at once, because of an event.
    pub(crate) fn begin_wait(&mut self, process: u32) -> bool {
        let has_events = self.has_events(process);
        self.processes[process as usize].has_slept = !has_events;
        self.set_sleeping(process, !has_events);
        has_events
    }

    pub(crate) fn set_sleeping(&mut self, process: u32, is_sleeping: bool) {
        for poller in &self.processes[process as usize].pollers {
            self.pollers[*poller as usize].is_sleeping = is_sleeping;
        }
    }

    /// Returns whether a wait of this process would return at once.
    pub(crate) fn has_events(&mut self, process: u32) -> bool {
        let pollers = self.processes[process as usize].pollers.len();
        (0..pollers).any(|index| {
            let poller = self.processes[process as usize].pollers[index];
            self.would_report(poller)
        })
    }

    /// Returns whether a sleeping process was woken, by an event or by a waker.
    pub(crate) fn is_process_woken(&self, process: u32) -> bool {
        let pollers = &self.processes[process as usize].pollers;
        let mut pollers = pollers.iter().map(|index| &self.pollers[*index as usize]);
        pollers.any(|poller| !poller.is_sleeping || poller.is_woken())
    }

    pub(super) fn remove_watches_of(&mut self, process: u32, fd: i32) {
        for poller in self.processes[process as usize].pollers.clone() {
            let ids: Vec<_> = self.pollers[poller as usize].watches_of_fd(fd).collect();
            for id in ids {
                let _ = self.unwatch(poller, id);
            }
        }
    }

    /// Kills a process. The kernel closes its descriptors, except those that its store keeps. The
    /// accept lock and the memberships stay with the dead process until the parent notices the
    /// death.
    pub(crate) fn kill(&mut self, process: u32) {
        self.note(Event::Killed(process));
        self.keep_idle(process);
        self.mark_lost_to_kill(process);
        self.is_killing = true;
        self.close_all(process);
        self.is_killing = false;
        let after_ns = whole_ns(self.rng.duration(&self.config.reap_delay));
        self.schedule_after(after_ns, SimEvent::Reap(process));
    }

    /// Records that a kill ends the connections that the process owns, and those that wait at its
    /// own listeners. A process owns the connections that it watches; a store owns those that it
    /// keeps. A connection that the process does not own may be in a handover. If it has another
    /// descriptor, it has to survive the kill. Otherwise it counts as lost when its descriptor is
    /// closed.
    fn mark_lost_to_kill(&mut self, process: u32) {
        let descriptors = &self.processes[process as usize].descriptors;
        let mut taken = Vec::new();
        let numbers = descriptors.numbers().into_iter();
        for object in numbers.filter_map(|fd| descriptors.object(fd)) {
            match object {
                Object::Endpoint(id) if self.is_watched_by(id, process) => taken.push(id),
                Object::Endpoint(id) if self.is_kept_by(id, process) => taken.push(id),
                Object::Listener(id) => {
                    let socket = self.net.listeners.socket(id);
                    taken.extend(socket.queue.iter().filter(|_| socket.closes_with_last()));
                }
                Object::Endpoint(_)
                | Object::Notifier(_)
                | Object::Udp(_)
                | Object::Channel(_)
                | Object::Counter(_) => {}
            }
        }
        taken.into_iter().for_each(|id| self.mark_lost_to_fault(id));
    }

    fn is_watched_by(&self, id: EndpointId, process: u32) -> bool {
        let mut watches = self.net.endpoint(id).watches.iter();
        watches.any(|watch| self.pollers[watch.poller as usize].process == process)
    }

    fn is_kept_by(&self, id: EndpointId, process: u32) -> bool {
        let is_owner =
            matches!(self.net.endpoint(id).owner, Owner::Process(owner, _) if owner == process);
        self.processes[process as usize].is_store && is_owner
    }

    /// Lets a process exit by itself. The process releases at once all that it holds.
    pub(crate) fn exit(&mut self, process: u32) {
        self.note(Event::Exited(process));
        self.close_all(process);
        self.release_dead(process);
    }

    fn close_all(&mut self, process: u32) {
        for fd in self.processes[process as usize].descriptors.numbers() {
            self.close_descriptor(process, fd);
        }
        self.processes[process as usize].is_dead = true;
        self.set_sleeping(process, false);
    }

    /// Lets the parent notice a death and release the process's lock and memberships.
    pub(crate) fn reap(&mut self, process: u32) {
        self.note(Event::Reaped(process));
        self.release_dead(process);
        self.processes[process as usize].is_reaped = true;
    }
}
