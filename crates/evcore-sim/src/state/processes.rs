//! Processes: what they hold, and what becomes of it when they are gone.

use evcore::balancer::WorkerId;

use super::State;
use crate::{
    agenda::Happening, descriptors::Descriptors, net::EndId, poll::Object, rng::whole_ns,
    trace::What,
};

/// A process.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pub(crate) descriptors: Descriptors,
    /// The groups that it has a part in, and which worker it is there.
    pub(crate) memberships: Vec<(u32, WorkerId)>,
    /// Its pollers, by their places.
    pub(crate) pollers: Vec<u32>,
    /// It was killed or has exited: nothing that its remains say is heard any more.
    pub(crate) is_dead: bool,
    /// Its death was noticed.
    pub(crate) is_reaped: bool,
    /// Its waits do not wait: somebody else lets time pass.
    pub(crate) is_driven: bool,
}

impl State {
    /// Begins a process.
    pub(crate) fn begin_process(&mut self, is_driven: bool) -> u32 {
        let id = u32::try_from(self.processes.len()).expect("there are fewer processes");
        self.processes.push(Process {
            is_driven,
            ..Process::default()
        });
        self.note(What::Begin, u64::from(id), 0);
        id
    }

    pub(crate) fn is_alive(&self, process: u32) -> bool {
        !self.processes[process as usize].is_dead
    }

    /// Closes a descriptor of a process that lives.
    pub(crate) fn close_descriptor(&mut self, process: u32, fd: i32) {
        let descriptors = &mut self.processes[process as usize].descriptors;
        let Some(object) = descriptors.remove(fd) else {
            return;
        };
        match object {
            Object::End(id) => self.close(id),
            Object::Listener(id) => {
                // A listener's watches are each of one of its descriptors.
                self.forget_watches_of(process, fd);
                self.leave_listener(id);
            }
            Object::Notifier(_) => self.forget_watches_of(process, fd),
        }
    }

    /// Destroys the connection that a descriptor is of.
    pub(crate) fn reset_descriptor(&mut self, process: u32, fd: i32, id: EndId) {
        let descriptors = &mut self.processes[process as usize].descriptors;
        if descriptors.remove(fd).is_some() {
            self.reset(id);
        }
    }

    /// A process begins to sleep in its pollers' waits, or sleeps no more.
    pub(crate) fn set_sleeping(&mut self, process: u32, sleeps: bool) {
        for poller in &self.processes[process as usize].pollers {
            self.pollers[*poller as usize].sleeps = sleeps;
        }
    }

    /// Whether a wait of this process would end at once.
    pub(crate) fn has_news(&mut self, process: u32) -> bool {
        let pollers = self.processes[process as usize].pollers.len();
        (0..pollers).any(|place| {
            let poller = self.processes[process as usize].pollers[place];
            self.would_report(poller)
        })
    }

    /// Whether a process that sleeps was woken: by what has happened, or by a waker.
    pub(crate) fn is_roused(&self, process: u32) -> bool {
        let pollers = &self.processes[process as usize].pollers;
        let mut pollers = pollers.iter().map(|place| &self.pollers[*place as usize]);
        pollers.any(|poller| !poller.sleeps || poller.is_woken())
    }

    fn forget_watches_of(&mut self, process: u32, fd: i32) {
        for poller in self.processes[process as usize].pollers.clone() {
            let ids: Vec<_> = self.pollers[poller as usize].of_descriptor(fd).collect();
            for id in ids {
                let _ = self.unwatch(poller, id);
            }
        }
    }

    /// Kills a process: the kernel closes what it had. It keeps the lock and its place in the group
    /// until the parent notices.
    pub(crate) fn kill(&mut self, process: u32) {
        self.note(What::Die, u64::from(process), 0);
        self.close_all(process);
        let after_ns = whole_ns(self.rng.time(&self.conditions.reap));
        self.enter_after(after_ns, Happening::Reap(process));
    }

    /// A process exits by itself: what its destructors give back and what the kernel closes is free
    /// at once.
    pub(crate) fn exit(&mut self, process: u32) {
        self.note(What::Exit, u64::from(process), 0);
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

    /// The parent notices a death, and releases what the process held.
    pub(crate) fn reap(&mut self, process: u32) {
        self.note(What::Reap, u64::from(process), 0);
        self.release_dead(process);
        self.processes[process as usize].is_reaped = true;
    }
}
