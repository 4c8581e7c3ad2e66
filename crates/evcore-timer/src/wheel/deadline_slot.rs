//! The slot of a deadline.
//!
//! A tick has eight digits of eight bits, and each digit has a level of 256 slots. A deadline is on
//! the level of the highest digit in which it differs from the wheel's position, in the slot of its
//! own digit. So the slot depends on deadline and position alone, and everything on a level is due
//! before everything on a higher one.

/// Slots per level. With ticks of a millisecond two levels cover more than a minute, which is enough
/// for most timers of a server.
pub(super) const SLOTS: u32 = 1 << DIGIT_BITS;

/// Enough levels that every `u64` has a slot.
pub(super) const LEVELS: u32 = u64::BITS / DIGIT_BITS;

/// Bits of a tick per level.
const DIGIT_BITS: u32 = 8;

/// The slot of a deadline at or after `position`.
///
/// Slots are numbered across all levels, beginning with the finest.
#[inline]
pub(super) fn slot_of(deadline: u64, position: u64) -> u32 {
    debug_assert!(deadline >= position, "{deadline} is before {position}");
    // The lowest bit changes no level, and avoids a special case if nothing differs.
    let highest_bit = ((deadline ^ position) | 1).ilog2();
    let level = highest_bit / DIGIT_BITS;
    level * SLOTS + digit(deadline, level)
}

/// The level of a slot.
#[inline]
pub(super) fn level_of(slot: u32) -> u32 {
    slot / SLOTS
}

/// The first tick of a slot, as seen from `position`.
///
/// On level 0 a slot has only this tick: the deadline of its timers.
#[inline]
pub(super) fn start_of(slot: u32, position: u64) -> u64 {
    let shift = level_of(slot) * DIGIT_BITS;
    let digits_above = (position >> shift) & !u64::from(SLOTS - 1);
    (digits_above | u64::from(slot % SLOTS)) << shift
}

/// One digit of a tick.
#[inline]
fn digit(tick: u64, level: u32) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "only the lowest bits are kept"
    )]
    let low = (tick >> (level * DIGIT_BITS)) as u32;
    low % SLOTS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_next_255_ticks_have_slots_of_their_own() {
        let slots: Vec<u32> = (256..512).map(|tick| slot_of(tick, 256)).collect();
        assert_eq!(slots, (0..256).collect::<Vec<u32>>());
    }

    #[test]
    fn a_carry_moves_a_near_deadline_up() {
        assert_eq!(slot_of(256, 255), SLOTS + 1);
        assert_eq!(slot_of(65_536, 65_535), 2 * SLOTS + 1);
    }

    #[test]
    fn the_last_tick_has_a_slot_on_the_last_level() {
        assert_eq!(slot_of(u64::MAX, 0), LEVELS * SLOTS - 1);
        assert_eq!(slot_of(u64::MAX, u64::MAX), 255);
    }

    fn position_and_deadline() -> impl Strategy<Value = (u64, u64)> {
        // The shift spreads the pairs over all levels; plain `any` would only reach the highest.
        (any::<u64>(), any::<u64>(), 0..64_u32).prop_map(|(position, ahead, shift)| {
            (position, position.saturating_add(ahead >> shift))
        })
    }

    proptest! {
        #[test]
        fn a_slot_starts_between_the_position_and_its_deadlines(
            (position, deadline) in position_and_deadline(),
        ) {
            let slot = slot_of(deadline, position);
            let start = start_of(slot, position);
            prop_assert!(start <= deadline);
            prop_assert!(start > position || level_of(slot) == 0);
            prop_assert!(start == deadline || level_of(slot) > 0);
        }

        #[test]
        fn from_the_start_of_a_slot_its_deadlines_are_finer(
            (position, deadline) in position_and_deadline(),
        ) {
            let slot = slot_of(deadline, position);
            let lower = slot_of(deadline, start_of(slot, position));
            prop_assert!(level_of(slot) == 0 || level_of(lower) < level_of(slot));
        }

        #[test]
        fn earlier_slots_hold_earlier_deadlines(
            (position, a) in position_and_deadline(),
            ahead in any::<u64>(),
            shift in 0..64_u32,
        ) {
            let b = position.saturating_add(ahead >> shift);
            let (slot_a, slot_b) = (slot_of(a, position), slot_of(b, position));
            prop_assert!(slot_a == slot_b || (slot_a < slot_b) == (a < b));
        }
    }
}
