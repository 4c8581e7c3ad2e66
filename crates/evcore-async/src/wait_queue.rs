//! A queue of tasks that wait for room (in a pool of threads, or in the loop for another
//! connection), in the order in which they came.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::mem;
use std::task::Waker;

/// A queue of tasks. A task keeps its place until it gets room or gives up.
#[derive(Default)]
pub(crate) struct WaitQueue {
    /// The wakers of the tasks that wait, by the numbers of their places.
    wakers: RefCell<BTreeMap<u64, Waker>>,
    /// The number of the next place.
    places: Cell<u64>,
}

impl WaitQueue {
    pub(crate) fn place(&self) -> Place<'_> {
        let number = self.places.get();
        self.places.set(number + 1);
        let queue = self;
        Place { queue, number }
    }

    /// Wakes the task that has waited for longest. The waker stays in the queue, so no other task
    /// becomes the first before the woken one leaves its place.
    pub(crate) fn wake_first(&self) {
        let wakers = self.wakers.borrow();
        let waker = wakers.values().next().cloned();
        drop(wakers);
        waker.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn wake_all(&self) {
        if self.wakers.borrow().is_empty() {
            return;
        }
        let wakers = mem::take(&mut *self.wakers.borrow_mut());
        wakers.into_values().for_each(Waker::wake);
    }
}

pub(crate) struct Place<'a> {
    queue: &'a WaitQueue,
    number: u64,
}

impl Place<'_> {
    /// Returns whether no task in front of this one waits.
    pub(crate) fn is_first(&self) -> bool {
        let wakers = self.queue.wakers.borrow();
        wakers
            .keys()
            .next()
            .is_none_or(|first| *first >= self.number)
    }

    /// Stores the task's waker, in place of an earlier one, until all tasks are woken or the task
    /// leaves its place.
    pub(crate) fn wait(&self, waker: &Waker) {
        let waker = waker.clone();
        let _replaced = self.queue.wakers.borrow_mut().insert(self.number, waker);
    }
}

/// Gives up the place. If the task's waker was still in the queue, wakes the task that is now
/// first, because there may be room for that task.
impl Drop for Place<'_> {
    fn drop(&mut self) {
        let waker = self.queue.wakers.borrow_mut().remove(&self.number);
        if waker.is_some() {
            self.queue.wake_first();
        }
    }
}
