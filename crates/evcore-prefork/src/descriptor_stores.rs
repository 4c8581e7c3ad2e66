//! The descriptor stores of a master: the one of each worker, and those whose worker has ended.

use std::{
    fmt,
    os::fd::AsRawFd,
    sync::atomic::{
        AtomicI32, AtomicU8,
        Ordering::{AcqRel, Acquire, Release},
    },
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid},
};

use crate::{
    error::{Error, Result},
    idle_marks::IN_ORDER,
    kept::HandOn,
    shared_slice::shared_slice,
    store_process,
    successor::Successor,
    worker::Worker,
};

/// The stores, all of which are children of this process. Nothing else reaps them.
///
/// Dropping it kills them.
pub(crate) struct DescriptorStores<'a> {
    /// The function that runs in each store; none in a worker.
    hand_on: Option<HandOn<'a>>,
    master: Pid,
    /// The store of each slot's worker; 0 if it has none. The kernel writes it when the worker makes the
    /// store.
    of_slots: &'static [AtomicI32],
    /// The stores whose workers have ended.
    left: Vec<Pid>,
}

impl<'a> DescriptorStores<'a> {
    /// Makes room for a store for each of the slots.
    ///
    /// # Errors
    ///
    /// [`Error::Os`] if the kernel lacks the calls of a store, or memory.
    pub(crate) fn new(hand_on: HandOn<'a>, slots: usize) -> Result<Self> {
        store_process::require()?;
        let of_slots = shared_slice(slots);
        Ok(Self {
            hand_on: Some(hand_on),
            master: getpid(),
            of_slots: of_slots.map_err(Error::os("mapping memory for the ids of stores (mmap)"))?,
            left: Vec::new(),
        })
    }

    /// Makes the store of a forked worker. If that fails, the worker has none, and its
    /// [`descriptor_store_error`](Worker::descriptor_store_error) has the reason.
    pub(crate) fn begin(mut self, worker: &mut Worker, slot: usize) -> InOrder {
        let place = &self.of_slots[slot];
        // The others are not this process's to end.
        self.of_slots = &[];
        self.left.clear();
        let hand_on = self.hand_on.take().expect("a worker begins once");
        let mailboxes = worker.mailboxes().expect("the supervisor has made them");
        let successors = [Successor::Generation, Successor::Binary]
            .map(|successor| mailboxes.to_successor(successor).as_raw_fd());
        match store_process::begin(worker.info(), self.master, place, successors, hand_on) {
            Ok(marks) => {
                worker.set_idle_marks(Ok(marks));
                InOrder(Some(marks))
            }
            Err(error) => {
                let doing = "making the descriptor store of a worker (clone)";
                worker.set_idle_marks(Err(Error::os(doing)(error)));
                InOrder(None)
            }
        }
    }

    /// Records that the worker of a slot has ended. Its store is killed if no worker will take what it
    /// keeps.
    pub(crate) fn worker_ended(&mut self, slot: usize, has_successor: bool) {
        let Some(store) = Pid::from_raw(self.of_slots[slot].swap(0, AcqRel)) else {
            return;
        };
        if !has_successor {
            kill(store);
        }
        self.left.push(store);
    }

    /// Reaps the stores that have ended.
    pub(crate) fn reap(&mut self) {
        self.left
            .retain(|store| !has_ended(*store, WaitOptions::NOHANG));
        for place in self.of_slots {
            let store = Pid::from_raw(place.load(Acquire));
            if store.is_some_and(|store| has_ended(store, WaitOptions::NOHANG)) {
                // Its worker lives, and so makes no other one.
                place.swap(0, AcqRel);
            }
        }
    }

    /// Waits until the stores have ended by themselves, because the workers of another master take what
    /// they keep.
    pub(crate) fn wait(&mut self) {
        for store in self.left.drain(..) {
            has_ended(store, WaitOptions::empty());
        }
    }
}

impl Drop for DescriptorStores<'_> {
    fn drop(&mut self) {
        let with_worker = self.of_slots.iter();
        let with_worker = with_worker.filter_map(|place| Pid::from_raw(place.swap(0, AcqRel)));
        self.left.extend(with_worker);
        self.left.iter().for_each(|store| kill(*store));
        self.wait();
    }
}

fn kill(store: Pid) {
    // One that has ended waits to be reaped, so no other process has its number.
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

/// The report of a worker that it ends in order: its store then ends too, and hands nothing on.
#[derive(Debug)]
pub(crate) struct InOrder(Option<&'static [AtomicU8]>);

impl InOrder {
    pub(crate) fn report(&self) {
        if let Some(marks) = self.0 {
            // Standard input is no connection of the server, so its mark is free.
            marks[0].store(IN_ORDER, Release);
        }
    }
}
