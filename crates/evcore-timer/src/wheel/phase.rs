//! The phases of the wheel. A phase is a run of `pop_expired` calls with one `now`: it searches for
//! the timer that fires next, and moves timers from a coarse slot to finer ones, which *drains* the
//! coarse slot.

use super::TimerWheel;
use super::deadline_slot::{last_with_slot, level_of, slot_of, start_of, with_low};
use super::nodes::Spot;
use crate::keyed_heap::Entry;
use crate::overdue::ADMIT_MAX;

impl TimerWheel {
    #[inline]
    fn begin_phase(&mut self, now: u64) {
        self.now = now;
        self.horizon = self.horizon.max(now);
        self.plain_after = self.plain_after.max(now);
        self.in_phase = true;
        self.overdue.begin_phase();
    }

    #[inline]
    fn end_phase(&mut self) {
        self.in_phase = false;
        // No slot that starts at or before `now` is occupied, so every timer stays in its slot.
        if self.now > self.position {
            self.move_to(self.now);
            self.draining = None; // the drained slot is empty by now
        }
        let next = self.next_searched();
        self.set_quiet_until(next);
    }

    fn move_to(&mut self, position: u64) {
        self.position = position;
        self.reach = last_with_slot(position);
    }

    /// Runs a whole phase in which no timer is due. The wheel does not move.
    #[inline]
    pub(super) fn pass_quiet(&mut self, now: u64) {
        self.now = now;
        self.in_phase = false;
        self.has_more = false;
    }

    /// Runs a whole phase while no timer is armed. The wheel moves to `now` without a search.
    #[inline]
    pub(super) fn pass_empty(&mut self, now: u64) {
        self.pass_quiet(now);
        if now > self.position {
            self.horizon = self.horizon.max(now);
            self.move_to(now);
            self.draining = None; // the drained slot is empty by now
        }
        if now >= self.quiet_until {
            self.set_quiet_until(u64::MAX);
        }
    }

    /// Takes the next expired timer. Not inlined, so that it costs nothing if no timer is armed.
    #[inline(never)]
    pub(super) fn pop_armed(&mut self, now: u64) -> Option<(u32, u64)> {
        if !self.in_phase || now != self.now {
            self.begin_phase(now);
        }
        // Usually the timers fire in the order of their slots, and the first slot needs no work.
        if self.is_in_order() {
            match self.lowest_slot() {
                Some((slot, start)) if start <= now => {
                    if level_of(slot) == 0 {
                        if let Some(id) = self.lists.at_front(slot) {
                            self.has_more = false;
                            return self.fire(slot, id, start);
                        }
                    }
                }
                _ => {
                    self.has_more = false;
                    self.end_phase();
                    return None;
                }
            }
        }
        self.pop_searched()
    }

    /// Fires the timer at the front of a slot.
    #[inline]
    fn fire(&mut self, slot: u32, id: u32, deadline: u64) -> Option<(u32, u64)> {
        let Some(node) = self.nodes.near_mut(id) else {
            return self.fire_far(slot, id, deadline);
        };
        node.spot = Spot::UNARMED;
        self.armed -= 1;
        self.lists.pop_front(slot);
        Some((id, deadline))
    }

    /// Like [`fire`](Self::fire), for an id that is far above the others.
    #[cold]
    #[inline(never)]
    fn fire_far(&mut self, slot: u32, id: u32, deadline: u64) -> Option<(u32, u64)> {
        self.release(id);
        self.lists.pop_front(slot);
        Some((id, deadline))
    }

    /// Like [`pop_armed`](Self::pop_armed), in the general case.
    #[inline(never)]
    fn pop_searched(&mut self) -> Option<(u32, u64)> {
        let search = self.first_due();
        self.has_more = matches!(search, Search::Stopped);
        match search {
            Search::InSlot(slot, id, deadline) => self.fire(slot, id, deadline),
            Search::OnHeap(heap) => {
                let (id, deadline) = self.pop_from(heap)?;
                self.release(id);
                Some((id, deadline))
            }
            Search::Over => {
                self.end_phase();
                None
            }
            Search::Stopped => None,
        }
    }

    #[cold]
    fn admit(&mut self) -> bool {
        let count = ADMIT_MAX.min(self.moves_max);
        self.overdue.admit(count, &mut self.nodes)
    }

    /// Finds the timer that fires next in this phase.
    fn first_due(&mut self) -> Search {
        if self.overdue.is_admitting() && !self.admit() {
            return Search::Stopped;
        }
        let heap = self.first_on_heaps();
        // Of equal deadlines, far timers fire before those in slots, and overdue ones after them.
        let limit = match heap {
            Some((OnHeap::Far, deadline)) => deadline - 1,
            Some((OnHeap::Overdue, deadline)) => deadline,
            None => self.now,
        };
        let mut moves_left = self.moves_max;
        while let Some((slot, start)) = self.first_slot() {
            if start > limit {
                break;
            }
            let Some(id) = self.lists.first(slot) else {
                // Dropping a slot that timers have left costs as much as a move. One move is kept
                // for a drain.
                if moves_left <= 1 {
                    return Search::Stopped;
                }
                moves_left -= 1;
                continue;
            };
            if level_of(slot) == 0 {
                return Search::InSlot(slot, id, start);
            }
            moves_left -= self.drain(slot, start, moves_left);
            if self.draining.is_some() {
                return Search::Stopped;
            }
        }
        heap.map_or(Search::Over, |(heap, _)| Search::OnHeap(heap))
    }

    /// Returns whether the timers fire in the order of their slots: no heap has a timer, and no
    /// slot is being drained.
    #[inline]
    fn is_in_order(&self) -> bool {
        self.draining.is_none() && self.far.is_empty() && self.overdue.is_empty()
    }

    /// The heap with the timer that is due first, and the timer's deadline.
    fn first_on_heaps(&self) -> Option<(OnHeap, u64)> {
        let far = self.far.first().map(|entry| entry.deadline);
        let overdue = self.overdue.first_due().map(|(_, deadline)| deadline);
        let first = match (far, overdue) {
            (Some(far), Some(overdue)) if overdue < far => Some((OnHeap::Overdue, overdue)),
            (Some(far), _) => Some((OnHeap::Far, far)),
            (None, overdue) => overdue.map(|deadline| (OnHeap::Overdue, deadline)),
        };
        first.filter(|&(_, deadline)| deadline <= self.now)
    }

    fn pop_from(&mut self, heap: OnHeap) -> Option<(u32, u64)> {
        match heap {
            OnHeap::Far => {
                let Entry { id, deadline, .. } = self.far.pop(&mut self.nodes)?;
                Some((id, deadline))
            }
            OnHeap::Overdue => self.overdue.pop_due(&mut self.nodes),
        }
    }

    /// The first slot that may have timers, and the slot's first tick.
    #[inline]
    fn first_slot(&self) -> Option<(u32, u64)> {
        match self.draining {
            Some(slot) if self.lists.has_chunk(slot) => Some((slot, self.position)),
            _ => self.lowest_slot(),
        }
    }

    /// The lowest slot that may have timers, and the slot's first tick.
    #[inline]
    fn lowest_slot(&self) -> Option<(u32, u64)> {
        let slot = self.lists.lowest_occupied()?;
        Some((slot, start_of(slot, self.position)))
    }

    /// A tick before which no timer is due: the earliest of the heaps' deadlines and the start of
    /// the first slot that has timers.
    #[inline(never)]
    fn next_searched(&mut self) -> u64 {
        let far = self.far.first().map(|entry| entry.deadline);
        let on_heaps = [far, self.overdue.next_deadline()];
        let on_heaps = on_heaps.into_iter().flatten().min().unwrap_or(u64::MAX);
        // One call drops at most `moves_max` slots that timers have left. If others remain, the
        // result may be early.
        for _ in 0..self.moves_max {
            match self.first_slot() {
                Some((slot, _)) if self.lists.first(slot).is_none() => {}
                first => return first.map_or(on_heaps, |(_, start)| start.min(on_heaps)),
            }
        }
        self.first_slot()
            .map_or(on_heaps, |(_, start)| start.min(on_heaps))
    }

    /// Takes a timer off its list or heap, and looks for the next one, because the timer may be the
    /// earliest.
    #[inline(never)]
    pub(super) fn take_off_first(&mut self, spot: Spot) {
        self.take_off(spot);
        if self.armed > 0 {
            // A slot may begin before `quiet_until`, because the wheel stays behind while nothing
            // is due.
            let next = self.next_searched().max(self.quiet_until);
            self.set_quiet_until(next);
        }
    }

    /// Moves the wheel to the start of a coarse slot, the first that is occupied, and moves at most
    /// `count` of its timers to finer levels. Returns how many it moved.
    #[inline(never)] // so that the code which takes a due timer stays short
    fn drain(&mut self, slot: u32, start: u64, count: usize) -> usize {
        self.move_to(start);
        let list_of = |low| slot_of(with_low(start, low), start);
        let moved = self.lists.cascade(&mut self.nodes, slot, count, list_of);
        self.draining = self.lists.first(slot).map(|_| slot);
        moved
    }
}

/// The result of a search for the timer that fires next.
enum Search {
    /// The slot on the finest level, its first timer, and the deadline of all its timers.
    InSlot(u32, u32, u64),
    OnHeap(OnHeap),
    /// No timer is left in this phase.
    Over,
    /// The call has done as much work as a call may do.
    Stopped,
}

/// The heap of a timer that has no slot.
#[derive(Clone, Copy)]
enum OnHeap {
    Far,
    Overdue,
}
