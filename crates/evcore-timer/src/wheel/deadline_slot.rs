//! Computes the slot of the wheel in which a timer with a given deadline belongs.
//!
//! The low half of a tick has four digits of eight bits, and each digit has a level of 256 slots. A
//! deadline is on the level of the highest digit in which the deadline differs from the wheel's
//! position. The value of that digit is the number of the slot on the level. So the slot depends
//! only on deadline and position, and all timers of a level are due before those of a higher one.
//!
//! A deadline whose high half differs from the position's has no slot.

/// Slots per level. With ticks of a millisecond, two levels cover more than a minute, which is
/// enough for most timers of a server.
pub(super) const SLOTS: u32 = 1 << DIGIT_BITS;

/// Enough levels for the low half of a tick: 49 days of milliseconds.
pub(super) const LEVELS: u32 = u32::BITS / DIGIT_BITS;

/// Bits of a tick per level.
const DIGIT_BITS: u32 = 8;

/// The last deadline that has a slot, as seen from `position`. All ticks from `position` to it have
/// slots.
#[inline]
pub(super) fn last_with_slot(position: u64) -> u64 {
    with_low(position, u32::MAX)
}

/// A tick with this low half, and the high half of `position`.
#[inline]
pub(super) fn with_low(position: u64, low: u32) -> u64 {
    position >> u32::BITS << u32::BITS | u64::from(low)
}

#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "only the lowest bits are kept"
)]
pub(super) fn low(tick: u64) -> u32 {
    tick as u32
}

/// The slot of a deadline that has one. Slots are numbered across all levels, beginning with the
/// finest.
#[inline]
pub(super) fn slot_of(deadline: u64, position: u64) -> u32 {
    debug_assert!(deadline >= position, "{deadline} is before {position}");
    debug_assert!(
        deadline <= last_with_slot(position),
        "{deadline} has no slot"
    );
    // The lowest bit changes no level, and avoids a special case if nothing differs.
    let highest_bit = (low(deadline ^ position) | 1).ilog2();
    // The lowest bit of the digit: eight times the level.
    let shift = highest_bit & !(DIGIT_BITS - 1);
    let digit = (low(deadline) >> shift) & (SLOTS - 1);
    (shift * (SLOTS / DIGIT_BITS)) | digit
}

#[inline]
pub(super) fn level_of(slot: u32) -> u32 {
    slot / SLOTS
}

/// The first tick of a slot, as seen from `position`. A slot on level 0 has only this tick.
#[inline]
pub(super) fn start_of(slot: u32, position: u64) -> u64 {
    let shift = level_of(slot) * DIGIT_BITS;
    let digits_above = (position >> shift) & !u64::from(SLOTS - 1);
    (digits_above | u64::from(slot % SLOTS)) << shift
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
    fn the_last_tick_of_a_half_has_a_slot_on_the_last_level() {
        for high in [0, 1 << 32, !0 << 32] {
            let last = high | u64::from(u32::MAX);
            assert_eq!(slot_of(last, high), LEVELS * SLOTS - 1);
            assert_eq!(slot_of(last, last), 255);
            assert_eq!(with_low(high, low(last)), last);
        }
    }

    #[test]
    fn a_deadline_with_another_high_half_has_no_slot() {
        for position in [0, 1, (1 << 32) - 1] {
            assert_eq!(last_with_slot(position), (1 << 32) - 1);
        }
        assert_eq!(last_with_slot(1 << 32), (1 << 33) - 1);
        assert_eq!(last_with_slot(u64::MAX), u64::MAX);
    }

    fn position_and_deadline() -> impl Strategy<Value = (u64, u64)> {
        // The shift spreads the pairs over all levels; plain `any` would only reach the highest.
        (any::<u64>(), any::<u32>(), 0..32_u32)
            .prop_map(|(position, ahead, shift)| (position, later(position, ahead >> shift)))
    }

    /// A tick `ahead` of `tick`, or the last one with the same high half.
    fn later(tick: u64, ahead: u32) -> u64 {
        with_low(tick, low(tick).saturating_add(ahead))
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
            ahead in any::<u32>(),
            shift in 0..32_u32,
        ) {
            let b = later(position, ahead >> shift);
            let (slot_a, slot_b) = (slot_of(a, position), slot_of(b, position));
            prop_assert!(slot_a == slot_b || (slot_a < slot_b) == (a < b));
        }
    }
}
