//! What workers share, and what wakes them.
//!
//! `WorkerGroup` decides. Here is which process is which member, and what a notification does to
//! the pollers that watch for it.

use evcore::balancer::{Member, MutexHandle, WorkerId};

use super::State;
use crate::{
    group::Part,
    notifier::{Group, Notifier, NotifierId},
    poll::Object,
    trace::What,
};

impl State {
    /// A group for the workers of one server.
    pub(crate) fn new_group(&mut self, workers: usize) -> u32 {
        self.groups.push(Group::new(workers));
        u32::try_from(self.groups.len() - 1).expect("there are fewer servers")
    }

    /// A process joins a group: its membership, and its descriptor of the notifier.
    pub(crate) fn join(
        &mut self,
        group: u32,
        process: u32,
        id: WorkerId,
    ) -> (Member<Notifier>, i32) {
        let slot = id.slot();
        self.note(What::Join, u64::from(process), slot as u64);
        let member = self.group(group).shared.join(id);
        let process = &mut self.processes[process as usize];
        process.memberships.push((group, id));
        let object = Object::Notifier(NotifierId { group, slot });
        (member, process.descriptors.insert(object))
    }

    /// The lock of a group in the hands of a process.
    pub(crate) fn lock_handle(&mut self, group: u32, process: u32, id: WorkerId) -> MutexHandle {
        let process = &mut self.processes[process as usize];
        process.memberships.push((group, id));
        self.group(group).shared.mutex().handle(id)
    }

    pub(crate) fn lock_owner(&self, group: u32) -> Option<WorkerId> {
        self.group(group).shared.mutex().owner()
    }

    /// The parent releases all that a dead process held.
    pub(crate) fn release_dead(&mut self, process: u32) {
        for (group, id) in self.processes[process as usize].memberships.clone() {
            self.group(group).shared.release_dead(id);
            self.wake_notified(group);
        }
    }

    /// Keeps what a dead process would have dropped until the end of the world.
    pub(crate) fn keep_of_dead(&mut self, part: Part) {
        self.dead_parts.push(part);
    }

    /// Wakes the members that were notified by the call before.
    pub(crate) fn wake_notified(&mut self, group: u32) {
        for (slot, watches) in self.group(group).take_new() {
            self.note(What::Notify, u64::from(group), slot as u64);
            for watch in watches {
                self.queue(watch);
                self.rouse(watch.poller);
            }
        }
    }

    pub(crate) fn is_notified(groups: &[Group], id: NotifierId) -> bool {
        groups[id.group as usize].is_set(id.slot)
    }

    fn group(&self, group: u32) -> &Group {
        &self.groups[group as usize]
    }
}
