//! The descriptor stores of a master: one for each worker, and those of workers that have ended.
//!
//! A store is a process that keeps the idle connections of its worker if the worker dies. Its place
//! is memory that it shares with the master.

use std::{
    collections::BTreeMap,
    fmt, io,
    mem::{self, ManuallyDrop},
    os::fd::AsRawFd,
    sync::atomic::{
        AtomicU8,
        Ordering::{Acquire, Release},
    },
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid},
};

use crate::{
    error::{Error, Result},
    exit::WorkerInfo,
    idle_marks::RETURNED,
    kept::{HandOn, KeptCounts},
    shared_slice::shared_slice,
    store_place::StorePlace,
    store_process::{self, Successors},
    successor::Successor,
    worker::Worker,
};

/// The stores, which are children of the master. Dropping this value kills them.
pub(crate) struct DescriptorStores<'a> {
    /// The function that runs in each store; `None` in a worker.
    hand_on: Option<HandOn<'a>>,
    master: Pid,
    places: &'static [StorePlace],
    /// The kind of worker that takes the connections of the stores, as a [`Successor`].
    successor: &'static AtomicU8,
    /// The place of each slot's store, as an index of `places`.
    of_slots: BTreeMap<usize, usize>,
    /// The places of stores whose workers have ended, each with its worker.
    left: Vec<(usize, WorkerInfo)>,
}

impl<'a> DescriptorStores<'a> {
    /// Makes room for two stores per slot: one for its worker, and one for a worker that has ended.
    ///
    /// # Errors
    ///
    /// [`Error::Os`] if the kernel lacks the system calls of a store, or has no memory.
    pub(crate) fn new(hand_on: HandOn<'a>, slots: usize) -> Result<Self> {
        store_process::require()?;
        let doing = "mapping memory for descriptor stores (mmap)";
        Ok(Self {
            hand_on: Some(hand_on),
            master: getpid(),
            places: shared_slice(2 * slots).map_err(Error::os(doing))?,
            // All zero is `Successor::Generation`.
            successor: &shared_slice(1).map_err(Error::os(doing))?[0],
            of_slots: BTreeMap::new(),
            left: Vec::new(),
        })
    }

    /// Chooses the place of the store of a worker that is about to be forked. If all places are in
    /// use, the worker gets no store.
    pub(crate) fn prepare(&mut self, slot: usize) {
        self.of_slots.remove(&slot);
        let left = self.left.iter().map(|(place, _)| place);
        let used: Vec<_> = self.of_slots.values().chain(left).collect();
        let free = (0..self.places.len()).find(|place| !used.contains(&place));
        self.of_slots.extend(free.map(|place| (slot, place)));
    }

    /// Makes the store of this worker, which was just forked. If that fails, the worker has no
    /// store, and its [`descriptor_store_error`](Worker::descriptor_store_error) has the reason.
    pub(crate) fn begin(mut self, worker: &mut Worker, slot: usize) -> ReturnReport {
        let place = self.of_slots.get(&slot).map(|place| &self.places[*place]);
        // The other stores belong to the master, so this process must not end them.
        self.of_slots.clear();
        self.left.clear();
        // The captured values are the master's, also if no store can be made.
        let hand_on = ManuallyDrop::new(self.hand_on.take().expect("a worker begins once"));
        let mailboxes = worker.mailboxes().expect("the supervisor has made them");
        let mailboxes = [Successor::Generation, Successor::Binary]
            .map(|successor| mailboxes.to_successor(successor).as_raw_fd());
        let successors = Successors {
            mailboxes,
            kind: self.successor,
        };
        let full = || io::Error::other("too many stores of dead workers are left");
        let begun = place.ok_or_else(full).and_then(|place| {
            store_process::begin(worker.info(), self.master, place, successors, &hand_on)
        });
        let return_report = ReturnReport(begun.as_ref().ok().copied());
        let doing = "making the descriptor store of a worker (clone)";
        worker.set_idle_marks(begun.map_err(Error::os(doing)));
        return_report
    }

    pub(crate) fn set_successor(&self, successor: Successor) {
        self.successor.store(successor as u8, Release);
    }

    /// Records that the worker of a slot has ended. Kills its store if no worker will take the
    /// connections that the store keeps.
    pub(crate) fn worker_ended(&mut self, worker: &WorkerInfo, has_successor: bool) {
        let Some(place) = self.of_slots.remove(&worker.slot) else {
            return;
        };
        if let (Some(store), false) = (self.pid(place), has_successor) {
            kill(store);
        }
        self.left.push((place, *worker));
    }

    pub(crate) fn reap(&mut self, report: &mut dyn FnMut(&WorkerInfo, KeptCounts)) {
        let places = self.places;
        self.left.retain(|(place, worker)| {
            let place = &places[*place];
            let store = Pid::from_raw(place.pid.load(Acquire));
            let is_left = store.is_some_and(|store| !has_ended(store, WaitOptions::NOHANG));
            if !is_left {
                if let Some(counts) = place.free() {
                    report(worker, counts);
                }
            }
            is_left
        });
        // If the store of a living worker was killed, the worker goes on without a store.
        for place in self.of_slots.values() {
            if let Some(store) = self.pid(*place) {
                if has_ended(store, WaitOptions::NOHANG) {
                    self.places[*place].free();
                }
            }
        }
    }

    /// Waits until the stores of dead workers have ended, because the workers of another master
    /// take the connections that they keep.
    pub(crate) fn wait(&mut self) {
        for (place, _) in mem::take(&mut self.left) {
            self.wait_for(place);
        }
    }

    fn pid(&self, place: usize) -> Option<Pid> {
        Pid::from_raw(self.places[place].pid.load(Acquire))
    }

    fn wait_for(&self, place: usize) {
        if let Some(store) = self.pid(place) {
            has_ended(store, WaitOptions::empty());
            self.places[place].free();
        }
    }
}

impl Drop for DescriptorStores<'_> {
    fn drop(&mut self) {
        let places = mem::take(&mut self.of_slots).into_values();
        let places = places.chain(self.left.drain(..).map(|(place, _)| place));
        let places: Vec<usize> = places.collect();
        places
            .iter()
            .filter_map(|place| self.pid(*place))
            .for_each(kill);
        places.into_iter().for_each(|place| self.wait_for(place));
    }
}

fn kill(store: Pid) {
    // A store that has ended waits to be reaped, so no other process has its number.
    let _ = kill_process(store, Signal::KILL);
}

fn has_ended(store: Pid, options: WaitOptions) -> bool {
    loop {
        match waitpid(Some(store), options) {
            Ok(None) => return false,
            Err(Errno::INTR) => {}
            Ok(Some(_)) | Err(_) => return true,
        }
    }
}

impl fmt::Debug for DescriptorStores<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DescriptorStores")
            .field("of_slots", &self.of_slots)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// Reports that a worker's function has returned. The worker's store then ends, and hands nothing
/// on.
#[derive(Debug)]
pub(crate) struct ReturnReport(Option<&'static [AtomicU8]>);

impl ReturnReport {
    pub(crate) fn report(&self) {
        if let Some(marks) = self.0 {
            // Standard input is not a connection of the server, so its mark is free.
            marks[0].store(RETURNED, Release);
        }
    }
}
