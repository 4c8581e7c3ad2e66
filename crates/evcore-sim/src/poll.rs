//! What a kernel keeps of one poller: what is watched, and a list of what may be ready.
//!
//! The algorithm is epoll's. Whatever changes puts its watch on the list; a wait goes through the
//! list, asks each socket what holds, and leaves on it what is watched by level. So a wait costs
//! with what is ready and not with what is watched, and an edge is a change, not a difference.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use evcore::{
    Interest, Mode, Ready,
    poller::{Capabilities, Registration},
};

use crate::{
    net::{EndId, ListenerId},
    notifier::NotifierId,
};

/// A watch, by its poller and its id there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchId {
    pub(crate) poller: u32,
    pub(crate) id: u32,
}

/// What a descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    End(EndId),
    Listener(ListenerId),
    Notifier(NotifierId),
}

/// One registration.
#[derive(Debug)]
struct Watch {
    key: u64,
    fd: i32,
    object: Object,
    interest: Interest,
    ends: Ready,
    mode: Mode,
    exclusive: bool,
    /// A one-shot that has not fired.
    armed: bool,
    // Invariant: it is on the list exactly if this is set.
    queued: bool,
    /// What it is to report although it does not hold.
    untrue: Ready,
}

/// One poller's side in the kernel.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) process: u32,
    capabilities: Capabilities,
    watches: Vec<Option<Watch>>,
    list: VecDeque<u32>,
    /// Somebody sleeps in a wait of this, and nothing has woken him yet.
    pub(crate) sleeps: bool,
    /// Raised by wakers, from anywhere.
    woken: Arc<AtomicBool>,
}

impl Instance {
    pub(crate) fn new(process: u32, capabilities: Capabilities) -> Self {
        Self {
            process,
            capabilities,
            watches: Vec::new(),
            list: VecDeque::new(),
            sleeps: false,
            woken: Arc::default(),
        }
    }

    /// What a waker raises.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.woken)
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }

    /// Begins to watch.
    pub(crate) fn add(&mut self, new: &Registration, object: Object) {
        let id = new.id();
        if self.watches.len() <= id {
            self.watches.resize_with(id + 1, || None);
        }
        // Where this "kernel" has not the mode, the front keeps it, over levels.
        let mode = match new.mode {
            Mode::Edge if self.capabilities.edge => Mode::Edge,
            Mode::Oneshot if self.capabilities.oneshot => Mode::Oneshot,
            _ => Mode::Level,
        };
        self.watches[id] = Some(Watch {
            key: new.key,
            fd: new.fd,
            object,
            interest: new.interest,
            ends: new.ends,
            mode,
            exclusive: new.exclusive,
            armed: true,
            queued: false,
            untrue: Ready::NONE,
        });
    }

    /// Watches for something else, and arms a one-shot again. `false`: there is no such watch.
    pub(crate) fn modify(&mut self, new: &Registration) -> bool {
        let Some(watch) = self.watch_mut(new.id()) else {
            return false;
        };
        (watch.interest, watch.ends) = (new.interest, new.ends);
        watch.armed = true;
        true
    }

    /// Ends a watch, and says what it was of.
    pub(crate) fn remove(&mut self, id: usize) -> Option<Object> {
        let watch = self.watches.get_mut(id)?.take()?;
        if watch.queued {
            self.list.retain(|queued| *queued as usize != id);
        }
        Some(watch.object)
    }

    /// The ids of all watches of a descriptor.
    pub(crate) fn of_descriptor(&self, fd: i32) -> impl Iterator<Item = usize> {
        let watches = self.watches.iter().enumerate();
        watches.filter_map(move |(id, watch)| watch.as_ref().filter(|it| it.fd == fd).map(|_| id))
    }

    pub(crate) fn is_exclusive(&self, id: u32) -> bool {
        let watch = self.watches.get(id as usize).and_then(Option::as_ref);
        watch.is_some_and(|watch| watch.exclusive)
    }

    /// Whether what may be ready is something that others were not told of.
    pub(crate) fn is_chosen(&self) -> bool {
        self.list.iter().any(|id| self.is_exclusive(*id))
    }

    /// Puts a watch on the list of what may be ready.
    pub(crate) fn queue(&mut self, id: u32) {
        let Some(watch) = self.watch_mut(id as usize) else {
            return;
        };
        if !watch.queued && watch.armed {
            watch.queued = true;
            self.list.push_back(id);
        }
    }

    /// Has a watch report something although nothing has changed: what holds, or something untrue.
    pub(crate) fn trouble(&mut self, id: usize, untrue: bool) -> bool {
        let Some(watch) = self.watch_mut(id) else {
            return false;
        };
        if watch.queued || !watch.armed {
            return false;
        }
        if untrue {
            watch.untrue = answering(watch.interest);
        }
        self.queue(u32::try_from(id).expect("ids are below 2^24"));
        true
    }

    /// How many ids there are, in use or not.
    pub(crate) fn ids(&self) -> usize {
        self.watches.len()
    }

    /// What may be ready, to be put into another order.
    pub(crate) fn list_mut(&mut self) -> &mut [u32] {
        self.list.make_contiguous()
    }

    /// Whether a wait would end at once. What is on the list for nothing leaves it.
    pub(crate) fn would_report(&mut self, holds: impl Fn(Object) -> Ready) -> bool {
        while let Some(id) = self.list.front() {
            let id = *id as usize;
            let Some(watch) = self.watch_mut(id) else {
                self.list.pop_front();
                continue;
            };
            if !watch.ready(&holds).is_empty() {
                return true;
            }
            watch.queued = false;
            self.list.pop_front();
        }
        false
    }

    /// Whether a waker was used since this was called last.
    pub(crate) fn take_woken(&mut self) -> bool {
        self.woken.swap(false, Ordering::AcqRel)
    }

    /// What is ready, at most `room` of it, as keys and readiness.
    pub(crate) fn collect(
        &mut self,
        room: usize,
        holds: impl Fn(Object) -> Ready,
    ) -> Vec<(u64, Ready)> {
        let mut reported = Vec::new();
        for _ in 0..self.list.len() {
            if reported.len() == room {
                break;
            }
            let Some(id) = self.list.pop_front() else {
                break;
            };
            let Some(watch) = self.watch_mut(id as usize) else {
                continue;
            };
            watch.queued = false;
            let ready = watch.ready(&holds);
            if ready.is_empty() {
                continue;
            }
            watch.untrue = Ready::NONE;
            reported.push((watch.key, ready));
            match watch.mode {
                Mode::Level => self.queue(id),
                Mode::Oneshot => watch.armed = false,
                Mode::Edge => {}
            }
        }
        reported
    }

    fn watch_mut(&mut self, id: usize) -> Option<&mut Watch> {
        self.watches.get_mut(id)?.as_mut()
    }
}

impl Watch {
    /// What is to be reported now.
    fn ready(&self, holds: impl Fn(Object) -> Ready) -> Ready {
        if !self.armed {
            return Ready::NONE;
        }
        let ends = if self.exclusive {
            self.ends & (Ready::ERROR | Ready::WRITE_CLOSED)
        } else {
            self.ends
        };
        (holds(self.object) & (answering(self.interest) | ends)) | self.untrue
    }
}

/// The readiness that answers an interest.
fn answering(interest: Interest) -> Ready {
    let mut ready = Ready::NONE;
    for (asked, bit) in [
        (Interest::READ, Ready::READABLE),
        (Interest::WRITE, Ready::WRITABLE),
        (Interest::PRIORITY, Ready::PRIORITY),
    ] {
        if interest.contains(asked) {
            ready |= bit;
        }
    }
    ready
}
