//! The notifiers of a simulated worker group, and the pollers that watch them. A notifier is a
//! descriptor by which the other members of the group wake its member.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use evcore::balancer::{Notify, Policy, WorkerGroup};

use crate::watch_id::WatchId;

/// A notifier, by its group and by the slot (the index in the group) of the member that it wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotifierId {
    pub(crate) group: u32,
    pub(crate) slot: usize,
}

/// The group of one server's workers, and its notifiers.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) shared: WorkerGroup<Notifier>,
    notifiers: Vec<Watched>,
}

/// A notifier and the pollers that watch it. The parent owns the notifier, so it outlives the
/// workers.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    notifier: Notifier,
    pub(crate) watches: Vec<WatchId>,
}

/// Records that a worker was notified. The state then wakes the pollers that watch the notifier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notifier(Arc<Signal>);

#[derive(Debug, Default)]
struct Signal {
    /// True while the notifier is readable.
    is_set: AtomicBool,
    /// True if the notifier was set, and the pollers are not woken yet.
    is_new: AtomicBool,
}

impl Notify for Notifier {
    fn notify(&self) {
        self.0.is_set.store(true, Relaxed);
        self.0.is_new.store(true, Relaxed);
    }

    fn clear(&self) {
        self.0.is_set.store(false, Relaxed);
    }
}

impl Group {
    pub(crate) fn new(policy: Policy, workers: usize) -> Self {
        let notifiers: Vec<_> = (0..workers).map(|_| Watched::default()).collect();
        let shared = notifiers
            .iter()
            .map(|shared| shared.notifier.clone())
            .collect();
        Self {
            shared: WorkerGroup::with_notifiers(policy, shared)
                .expect("there is memory for a group"),
            notifiers,
        }
    }

    pub(crate) fn is_set(&self, slot: usize) -> bool {
        self.notifiers[slot].notifier.0.is_set.load(Relaxed)
    }

    pub(crate) fn watches_mut(&mut self, slot: usize) -> &mut Vec<WatchId> {
        &mut self.notifiers[slot].watches
    }

    /// Takes the slots that were notified since the last call, with the pollers that watch their
    /// notifiers.
    pub(crate) fn take_new(&self) -> Vec<(usize, Vec<WatchId>)> {
        let notifiers = self.notifiers.iter().enumerate();
        let new = notifiers.filter(|(_, watched)| watched.notifier.0.is_new.swap(false, Relaxed));
        new.map(|(slot, watched)| (slot, watched.watches.clone()))
            .collect()
    }
}
