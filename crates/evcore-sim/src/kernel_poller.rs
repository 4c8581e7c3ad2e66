//! The kernel's side of one poller: its registrations, and a list of those that may be ready.
//!
//! The algorithm is epoll's: a change of an object puts its registrations on the ready list, and a
//! wait keeps the level-triggered registrations of ready objects there. So the cost of a wait
//! depends on the number of ready objects, not on the number of registrations.

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
    net::{Carried, ChannelId, CounterId, EndpointId, ListenerId, UdpId},
    notifier::NotifierId,
};

/// The object that a descriptor refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    Endpoint(EndpointId),
    Listener(ListenerId),
    Notifier(NotifierId),
    Udp(UdpId),
    Channel(ChannelId),
    Counter(CounterId),
}

impl From<Carried> for Object {
    fn from(carried: Carried) -> Self {
        match carried {
            Carried::Endpoint(id) => Self::Endpoint(id),
            Carried::Channel(id) => Self::Channel(id),
            Carried::Counter(id) => Self::Counter(id),
        }
    }
}

/// A change of every kind of readiness, such as a hang-up, an error or a new registration.
pub(crate) const ANY_CHANGE: Ready = Ready::all();

#[derive(Debug)]
struct Watch {
    key: u64,
    fd: i32,
    object: Object,
    interest: Interest,
    /// The hang-ups and errors to report.
    ends: Ready,
    mode: Mode,
    exclusive: bool,
    /// `false` for a one-shot registration that has reported.
    armed: bool,
    // Invariant: true exactly if the registration is on the ready list.
    is_queued: bool,
    /// The readiness that the registration reports next, although it need not hold.
    spurious: Ready,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) key: u64,
    pub(crate) object: Object,
    pub(crate) ready: Ready,
}

/// The kernel's side of one poller.
#[derive(Debug)]
pub(crate) struct KernelPoller {
    pub(crate) process: u32,
    capabilities: Capabilities,
    watches: Vec<Option<Watch>>,
    ready_list: VecDeque<u32>,
    /// True if the poller's process sleeps in a wait and was not woken yet.
    pub(crate) is_sleeping: bool,
    woken: Arc<AtomicBool>,
}

impl KernelPoller {
    pub(crate) fn new(process: u32, capabilities: Capabilities) -> Self {
        Self {
            process,
            capabilities,
            watches: Vec::new(),
            ready_list: VecDeque::new(),
            is_sleeping: false,
            woken: Arc::default(),
        }
    }

    pub(crate) fn wake_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.woken)
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }

    pub(crate) fn add(&mut self, new: &Registration, object: Object) {
        let id = new.id();
        if self.watches.len() <= id {
            self.watches.resize_with(id + 1, || None);
        }
        // The `Poller` above this backend emulates the modes that the backend lacks. For these
        // modes, the registrations here are level-triggered.
        let mode = match new.mode {
            mode if mode.is_edge() && self.capabilities.edge => Mode::Edge,
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
            exclusive: new.mode.is_exclusive(),
            armed: true,
            is_queued: false,
            spurious: Ready::NONE,
        });
    }

    /// Changes a registration, and arms a one-shot again. Returns `false` if there is no such
    /// registration.
    pub(crate) fn modify(&mut self, new: &Registration) -> bool {
        let Some(watch) = self.watch_mut(new.id()) else {
            return false;
        };
        (watch.interest, watch.ends) = (new.interest, new.ends);
        watch.armed = true;
        true
    }

    pub(crate) fn remove(&mut self, id: usize) -> Option<Object> {
        let watch = self.watches.get_mut(id)?.take()?;
        if watch.is_queued {
            self.ready_list.retain(|ready| *ready as usize != id);
        }
        Some(watch.object)
    }

    pub(crate) fn watches_of_fd(&self, fd: i32) -> impl Iterator<Item = usize> {
        let watches = self.watches.iter().enumerate();
        watches.filter_map(move |(id, watch)| {
            watch.as_ref().filter(|watch| watch.fd == fd).map(|_| id)
        })
    }

    pub(crate) fn is_exclusive(&self, id: u32) -> bool {
        let watch = self.watches.get(id as usize).and_then(Option::as_ref);
        watch.is_some_and(|watch| watch.exclusive)
    }

    /// Returns whether an exclusive registration is on the ready list. The kernel may have woken no
    /// other poller for that event.
    pub(crate) fn has_exclusive_ready(&self) -> bool {
        self.ready_list.iter().any(|id| self.is_exclusive(*id))
    }

    /// Puts a registration on the ready list, if it is armed and watches for one of these changes.
    /// (Linux's `ep_poll_callback` compares in the same way. So room for sending does not make an
    /// edge-triggered registration for reading report again.)
    pub(crate) fn mark_ready(&mut self, id: u32, changes: Ready) {
        let Some(watch) = self.watch_mut(id as usize) else {
            return;
        };
        let watched = ready_for(watch.interest) | watch.ends;
        if !watch.is_queued && watch.armed && watched.intersects(changes) {
            watch.is_queued = true;
            self.ready_list.push_back(id);
        }
    }

    /// Makes a registration report its readiness, or spurious readiness, although nothing has
    /// changed. Returns `false` if the registration is missing, disarmed or on the ready list
    /// already.
    pub(crate) fn inject(&mut self, id: usize, spurious: bool) -> bool {
        let Some(watch) = self.watch_mut(id) else {
            return false;
        };
        if watch.is_queued || !watch.armed {
            return false;
        }
        if spurious {
            watch.spurious = ready_for(watch.interest);
        }
        self.mark_ready(u32::try_from(id).expect("ids are below 2^24"), ANY_CHANGE);
        true
    }

    pub(crate) fn object(&self, id: usize) -> Option<Object> {
        let watch = self.watches.get(id)?.as_ref()?;
        Some(watch.object)
    }

    /// The number of ids, in use or not.
    pub(crate) fn id_count(&self) -> usize {
        self.watches.len()
    }

    /// The ready list, to change its order.
    pub(crate) fn ready_list_mut(&mut self) -> &mut [u32] {
        self.ready_list.make_contiguous()
    }

    /// Returns whether a wait would report an event. Removes registrations that are not ready from
    /// the front of the ready list.
    pub(crate) fn would_report(&mut self, readiness: impl Fn(Object) -> Ready) -> bool {
        while let Some(id) = self.ready_list.front() {
            let id = *id as usize;
            let Some(watch) = self.watch_mut(id) else {
                self.ready_list.pop_front();
                continue;
            };
            if !watch.ready(&readiness).is_empty() {
                return true;
            }
            watch.is_queued = false;
            self.ready_list.pop_front();
        }
        false
    }

    /// Returns whether a waker was used since the last call.
    pub(crate) fn take_woken(&mut self) -> bool {
        self.woken.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn collect(
        &mut self,
        limit: usize,
        readiness: impl Fn(Object) -> Ready,
    ) -> Vec<Report> {
        let mut events = Vec::new();
        for _ in 0..self.ready_list.len() {
            if events.len() == limit {
                break;
            }
            let Some(id) = self.ready_list.pop_front() else {
                break;
            };
            let Some(watch) = self.watch_mut(id as usize) else {
                continue;
            };
            watch.is_queued = false;
            let ready = watch.ready(&readiness);
            if ready.is_empty() {
                continue;
            }
            watch.spurious = Ready::NONE;
            events.push(Report {
                key: watch.key,
                object: watch.object,
                ready,
            });
            match watch.mode {
                Mode::Level | Mode::Exclusive => self.mark_ready(id, ANY_CHANGE),
                Mode::Oneshot => watch.armed = false,
                Mode::Edge | Mode::ExclusiveEdge => {}
            }
        }
        events
    }

    fn watch_mut(&mut self, id: usize) -> Option<&mut Watch> {
        self.watches.get_mut(id)?.as_mut()
    }
}

impl Watch {
    fn ready(&self, readiness: impl Fn(Object) -> Ready) -> Ready {
        if !self.armed {
            return Ready::NONE;
        }
        let ends = if self.exclusive {
            self.ends & (Ready::ERROR | Ready::WRITE_CLOSED)
        } else {
            self.ends
        };
        (readiness(self.object) & (ready_for(self.interest) | ends)) | self.spurious
    }
}

fn ready_for(interest: Interest) -> Ready {
    let mut ready = Ready::NONE;
    for (part, bit) in [
        (Interest::READ, Ready::READABLE),
        (Interest::WRITE, Ready::WRITABLE),
        (Interest::PRIORITY, Ready::PRIORITY),
    ] {
        if interest.contains(part) {
            ready |= bit;
        }
    }
    ready
}
