//! The invariants of the wheel, which tests check after each change.

use super::deadline_slot::{level_of, start_of};
use super::*;

impl TimerWheel {
    pub(crate) fn with_pauses() -> Self {
        Self {
            moves_max: 2,
            ..Self::new()
        }
    }

    pub(crate) fn verify(&self) {
        let place_of = |id| self.nodes.get(id)?.spot.place();
        self.far.verify(place_of);
        let on_heaps = self.far.len() + self.overdue.verify(place_of);
        let in_slots = self.lists.verify(&self.nodes);
        assert_eq!(in_slots + on_heaps, self.armed, "number of armed timers");
        assert_eq!(self.nodes.armed(), self.armed, "number of nodes in use");
        assert!(
            self.position <= self.horizon,
            "the position is after the horizon"
        );
        let plain_after = self.horizon.max(self.quiet_until.saturating_sub(1));
        assert_eq!(self.plain_after, plain_after, "deadlines that are plain");
        assert_eq!(self.reach, last_with_slot(self.position), "last slot");
        for slot in (0..lists::LISTS).filter(|&slot| self.lists.has_chunk(slot)) {
            self.verify_slot(slot);
        }
        if let Some(slot) = self.draining {
            assert_eq!(
                start_of(slot, self.position),
                self.position,
                "start of the slot that is drained"
            );
        }
        assert!(
            self.overdue
                .deadlines()
                .all(|deadline| (self.quiet_until..=self.horizon).contains(&deadline)),
            "a timer is on the wrong heap, or before the tick of the next search"
        );
        assert!(
            self.far
                .iter()
                .all(|entry| entry.deadline >= self.quiet_until),
            "a far timer is before the tick of the next search"
        );
        assert!(
            self.in_phase
                || self
                    .overdue
                    .first_due()
                    .is_none_or(|(_, deadline)| deadline > self.now),
            "a timer is due outside a phase"
        );
    }

    /// The deadlines of a slot, from the front.
    pub(crate) fn deadlines(&self, slot: u32) -> Vec<u64> {
        let ids = self.lists.ids(slot);
        ids.into_iter().filter_map(|id| self.deadline(id)).collect()
    }

    fn verify_slot(&self, slot: u32) {
        let draining = self.draining == Some(slot);
        for deadline in self.deadlines(slot) {
            if draining {
                let finer = level_of(slot_of(deadline, self.position));
                assert!(
                    finer < level_of(slot),
                    "{deadline} does not belong to the slot that is drained"
                );
            } else {
                assert_eq!(
                    slot_of(deadline, self.position),
                    slot,
                    "slot of deadline {deadline}"
                );
            }
            assert!(
                deadline >= self.quiet_until,
                "{deadline} is before the tick of the next search"
            );
        }
    }
}
