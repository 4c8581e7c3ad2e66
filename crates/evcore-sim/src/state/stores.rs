//! Descriptor stores: processes that keep the idle connections of a process that is killed.

use std::sync::atomic::{AtomicU8, Ordering::Acquire};

use super::State;
use crate::{fd_table::number, kernel_poller::Object, net::Carried};

/// The mark of an idle connection, as `evcore` sets it.
const IDLE: u8 = 1;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Store {
    pub(crate) process: u32,
    /// The marks of the connections, at the numbers of their descriptors.
    pub(crate) marks: &'static [AtomicU8],
}

impl Store {
    fn has_marked(&self, fd: i32) -> bool {
        let mark = self.marks.get(number(fd) as usize);
        mark.is_some_and(|mark| mark.load(Acquire) == IDLE)
    }
}

impl State {
    /// Gives the connections that are marked as idle to the store of a process that is being
    /// killed, if the store is alive.
    pub(super) fn keep_idle(&mut self, process: u32) {
        let store = self.processes[process as usize].store;
        let Some(store) = store.filter(|store| self.is_alive(store.process)) else {
            return;
        };
        let numbers = self.processes[process as usize].descriptors.numbers();
        for fd in numbers.into_iter().filter(|fd| store.has_marked(*fd)) {
            let descriptors = &mut self.processes[process as usize].descriptors;
            let object = descriptors.remove(fd);
            let Some(Object::Endpoint(id)) = object else {
                panic!("a descriptor that is not a connection is marked as idle: {object:?}");
            };
            self.remove_watches_of(process, fd);
            let fd = self.hold(id, store.process);
            let kept = &mut self.processes[store.process as usize].kept;
            kept.push((Carried::Endpoint(id), fd));
        }
    }
}
