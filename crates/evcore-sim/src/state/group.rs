//! Worker groups: the processes of their members, and the pollers that a notification wakes.
//!
//! The protocol itself is the real `WorkerGroup`.

use evcore::{
    Ready,
    balancer::{Member, MutexHandle, Policy, WorkerId},
};

use super::State;
use crate::{
    kernel_poller::Object,
    notifier::{Group, Notifier, NotifierId},
    role::Role,
    trace::Event,
};

impl State {
    pub(crate) fn new_group(&mut self, policy: Policy, workers: usize) -> u32 {
        self.groups.push(Group::new(policy, workers));
        u32::try_from(self.groups.len() - 1).expect("there are fewer groups")
    }

    /// Adds a process to a group. Returns its membership and the descriptor of its notifier.
    pub(crate) fn join(
        &mut self,
        group: u32,
        process: u32,
        id: WorkerId,
    ) -> (Member<Notifier>, i32) {
        let slot = id.slot();
        self.note(Event::Joined { process, slot });
        let member = self.group(group).shared.join(id);
        let process = &mut self.processes[process as usize];
        process.memberships.push((group, id));
        let object = Object::Notifier(NotifierId { group, slot });
        (member, process.descriptors.insert(object))
    }

    pub(crate) fn lock_handle(&mut self, group: u32, process: u32, id: WorkerId) -> MutexHandle {
        let process = &mut self.processes[process as usize];
        process.memberships.push((group, id));
        self.group(group).shared.mutex().lock_handle(id)
    }

    pub(crate) fn lock_owner(&self, group: u32) -> Option<WorkerId> {
        self.group(group).shared.mutex().owner()
    }

    /// Releases the lock and the memberships of a dead process, as its parent does.
    pub(crate) fn release_dead(&mut self, process: u32) {
        for (group, id) in self.processes[process as usize].memberships.clone() {
            self.group(group).shared.release_dead(id);
            self.wake_notified(group);
        }
    }

    /// Keeps the role of a killed process, so that its destructor does not run.
    pub(crate) fn keep_role_of_dead(&mut self, role: Role) {
        self.dead_roles.push(role);
    }

    /// Wakes the members that were notified since the last call.
    pub(crate) fn wake_notified(&mut self, group: u32) {
        for (slot, watches) in self.group(group).take_new() {
            self.note(Event::Notified { group, slot });
            for watch in watches {
                self.mark_ready(watch, Ready::READABLE);
                self.wake_sleeper(watch.poller);
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
