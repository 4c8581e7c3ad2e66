//! The descriptors of a simulated process. The lowest free number is used first.

use std::{cmp::Reverse, collections::BinaryHeap};

use evcore::poller::Target;

use crate::kernel_poller::Object;

/// The first number. It is above Linux's default maximum (`fs.nr_open`), so that a person who reads
/// an error message recognises a simulated number. It is low enough for the table of descriptors in
/// the poller, which has one bit for each number.
const FIRST_FD: i32 = 1 << 20;

pub(crate) fn target(fd: i32) -> Target<'static> {
    Target::Simulated(number(fd))
}

pub(crate) fn number(fd: i32) -> u32 {
    u32::try_from(fd).expect("the first number is positive")
}

/// The open descriptors of a process, with the object of each.
#[derive(Debug, Default)]
pub(crate) struct FdTable {
    objects: Vec<Option<Object>>,
    // Invariant: the indices without an object.
    free: BinaryHeap<Reverse<i32>>,
}

impl FdTable {
    /// Number of open descriptors.
    pub(crate) fn open(&self) -> usize {
        self.objects.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, object: Object) -> i32 {
        let number = match self.free.pop() {
            Some(Reverse(number)) => number,
            None => {
                self.objects.push(None);
                i32::try_from(self.objects.len() - 1).expect("there are fewer descriptors")
            }
        };
        *self.slot(FIRST_FD + number).expect("its slot exists") = Some(object);
        FIRST_FD + number
    }

    pub(crate) fn remove(&mut self, fd: i32) -> Option<Object> {
        let object = self.slot(fd)?.take()?;
        self.free.push(Reverse(fd - FIRST_FD));
        Some(object)
    }

    pub(crate) fn object(&self, fd: i32) -> Option<Object> {
        let number = usize::try_from(fd.checked_sub(FIRST_FD)?).ok()?;
        *self.objects.get(number)?
    }

    pub(crate) fn numbers(&self) -> Vec<i32> {
        (FIRST_FD..)
            .zip(&self.objects)
            .filter(|(_, object)| object.is_some())
            .map(|(fd, _)| fd)
            .collect()
    }

    fn slot(&mut self, fd: i32) -> Option<&mut Option<Object>> {
        let number = usize::try_from(fd.checked_sub(FIRST_FD)?).ok()?;
        self.objects.get_mut(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{EndpointId, ListenerId};

    #[test]
    fn the_lowest_free_number_is_used_first() {
        let mut table = FdTable::default();
        let listener = Object::Listener(ListenerId(0));
        let numbers: Vec<_> = (0..4).map(|_| table.insert(listener)).collect();
        assert_eq!(table.remove(numbers[2]), Some(listener));
        assert_eq!(table.remove(numbers[1]), Some(listener));
        assert_eq!(table.remove(numbers[1]), None);
        let endpoint = Object::Endpoint(EndpointId::client(7));
        assert_eq!(table.insert(endpoint), numbers[1]);
        assert_eq!(table.object(numbers[1]), Some(endpoint));
        assert_eq!(table.object(numbers[2]), None);
        assert_eq!(table.object(0), None);
        assert_eq!(table.open(), 3);
        assert_eq!(table.numbers(), [numbers[0], numbers[1], numbers[3]]);
    }
}
