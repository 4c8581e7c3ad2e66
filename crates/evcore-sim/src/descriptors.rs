//! The descriptors of a simulated process: the lowest free number first, up to a limit.

use std::{cmp::Reverse, collections::BinaryHeap};

use evcore::poller::Target;

use crate::poll::Object;

/// Above what Linux gives out by default (`fs.nr_open`), so that a message shows which kind a number
/// is of; and low enough for the poller's table of one bit each.
const FIRST: i32 = 1 << 20;

/// What a poller watches for a descriptor.
pub(crate) fn target(fd: i32) -> Target<'static> {
    Target::Simulated(u32::try_from(fd).expect("numbers begin with FIRST"))
}

/// What each number stands for.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    objects: Vec<Option<Object>>,
    // Invariant: the numbers below the table's end that stand for nothing.
    vacant: BinaryHeap<Reverse<i32>>,
}

impl Descriptors {
    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.objects.len() - self.vacant.len()
    }

    pub(crate) fn insert(&mut self, object: Object) -> i32 {
        let number = match self.vacant.pop() {
            Some(Reverse(number)) => number,
            None => {
                self.objects.push(None);
                i32::try_from(self.objects.len() - 1).expect("there are fewer descriptors")
            }
        };
        *self.slot(FIRST + number).expect("it has a slot") = Some(object);
        FIRST + number
    }

    pub(crate) fn remove(&mut self, fd: i32) -> Option<Object> {
        let object = self.slot(fd)?.take()?;
        self.vacant.push(Reverse(fd - FIRST));
        Some(object)
    }

    pub(crate) fn object(&self, fd: i32) -> Option<Object> {
        let number = usize::try_from(fd.checked_sub(FIRST)?).ok()?;
        *self.objects.get(number)?
    }

    /// All that are open, by their numbers.
    pub(crate) fn numbers(&self) -> Vec<i32> {
        (FIRST..)
            .zip(&self.objects)
            .filter(|(_, object)| object.is_some())
            .map(|(fd, _)| fd)
            .collect()
    }

    fn slot(&mut self, fd: i32) -> Option<&mut Option<Object>> {
        let number = usize::try_from(fd.checked_sub(FIRST)?).ok()?;
        self.objects.get_mut(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{EndId, ListenerId};

    #[test]
    fn the_lowest_free_number_comes_first() {
        let mut descriptors = Descriptors::default();
        let listener = Object::Listener(ListenerId(0));
        let numbers: Vec<_> = (0..4).map(|_| descriptors.insert(listener)).collect();
        assert_eq!(descriptors.remove(numbers[2]), Some(listener));
        assert_eq!(descriptors.remove(numbers[1]), Some(listener));
        assert_eq!(descriptors.remove(numbers[1]), None);
        let end = Object::End(EndId::client(7));
        assert_eq!(descriptors.insert(end), numbers[1]);
        assert_eq!(descriptors.object(numbers[1]), Some(end));
        assert_eq!(descriptors.object(numbers[2]), None);
        assert_eq!(descriptors.object(0), None);
        assert_eq!(descriptors.open(), 3);
        assert_eq!(descriptors.numbers(), [numbers[0], numbers[1], numbers[3]]);
    }
}
