//! The Gregorian date and the time of day of a Unix time.
//!
//! Times are limited to the years 1970 to 9999, so the arithmetic is unsigned and a year has four
//! digits. There are no leap seconds, as in Unix time.

/// The last second with a year of four digits: 9999-12-31T23:59:59.
const LAST_SECOND: i64 = 253_402_300_799;

const SECONDS_A_DAY: u64 = 86_400;

/// The days from 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_1970: u32 = 719_468;

/// The days of 400 years, after which the calendar repeats.
const DAYS_A_CYCLE: u32 = 146_097;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    /// The year, 1970 to 9999.
    pub(crate) year: u32,
    /// The month, 1 to 12.
    pub(crate) month: u32,
    /// The day of the month, 1 to 31.
    pub(crate) day: u32,
    /// The day of the week, 0 to 6 from Sunday.
    pub(crate) weekday: u32,
    /// The hour, 0 to 23.
    pub(crate) hour: u32,
    /// The minute, 0 to 59.
    pub(crate) minute: u32,
    /// The second, 0 to 59.
    pub(crate) second: u32,
}

impl Civil {
    /// Returns the local time at `unix_seconds` with an offset of `offset_seconds` from UTC.
    ///
    /// The sum is limited to the years 1970 to 9999. If only the instant were limited, the offset
    /// could move the sum out of the range.
    pub(crate) fn at(unix_seconds: i64, offset_seconds: i32) -> Self {
        let local = unix_seconds
            .saturating_add(i64::from(offset_seconds))
            .clamp(0, LAST_SECOND)
            .unsigned_abs();
        let days = u32::try_from(local / SECONDS_A_DAY).expect("8,030 years are < 2^32 days");
        let second_of_day = (local % SECONDS_A_DAY) as u32;
        let (year, month, day) = date(days);
        Self {
            year,
            month,
            day,
            // 1970-01-01 was a Thursday.
            weekday: (days + 4) % 7,
            hour: second_of_day / 3_600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
        }
    }
}

/// Returns the date that is `days` after 1970-01-01.
///
/// This counts years from 1 March. So the leap day is the last day of its year and moves no other
/// day, and the lengths of the months repeat as 31, 30, 31, 30, 31, which add up to 153.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn date(days: u32) -> (u32, u32, u32) {
    let days = days + DAYS_BEFORE_1970;
    let (cycle, day_of_cycle) = (days / DAYS_A_CYCLE, days % DAYS_A_CYCLE);
    let year_of_cycle = year_of_cycle(day_of_cycle);
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);

    // 0 is March and 11 is February.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;

    let year = 400 * cycle + year_of_cycle;
    if month < 10 {
        (year, month + 3, day)
    } else {
        (year + 1, month - 9, day)
    }
}

/// Returns the year of a day in a 400-year cycle, 0 to 399, counted from 1 March.
///
/// The leap days up to the day are subtracted, so that each year has 365 days. Every 4th year ends
/// with a leap day. Every 100th year does not, but the 400th does.
fn year_of_cycle(day: u32) -> u32 {
    (day - day / 1_460 + day / 36_524 - day / 146_096) / 365
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date_of(unix_seconds: i64) -> (u32, u32, u32) {
        let Civil {
            year, month, day, ..
        } = Civil::at(unix_seconds, 0);
        (year, month, day)
    }

    /// The day after a date, by the plain rules of the calendar.
    fn tomorrow((year, month, day): (u32, u32, u32)) -> (u32, u32, u32) {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        match (month, day) {
            (12, 31) => (year + 1, 1, 1),
            (_, day) if day == length => (year, month + 1, 1),
            _ => (year, month, day + 1),
        }
    }

    #[test]
    fn every_day_from_1970_to_9999_follows_the_day_before() {
        let mut expected = (1970, 1, 1);
        let mut days = 0;
        while expected.0 < 10_000 {
            assert_eq!(date(days), expected);
            expected = tomorrow(expected);
            days += 1;
        }
        assert_eq!(i64::from(days) * 86_400 - 1, LAST_SECOND);
    }

    #[test]
    fn weekdays_repeat_after_seven_days() {
        let weekdays: Vec<u32> = (0..8).map(|d| Civil::at(d * 86_400, 0).weekday).collect();
        assert_eq!(weekdays, [4, 5, 6, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn the_last_second_of_a_day_is_before_midnight() {
        let midnight = 1_709_251_200; // 2024-03-01
        let before = Civil::at(midnight - 1, 0);
        assert_eq!((before.month, before.day), (2, 29));
        assert_eq!((before.hour, before.minute, before.second), (23, 59, 59));
        assert_eq!(date_of(midnight), (2024, 3, 1));
    }

    #[test]
    fn times_out_of_range_are_limited_to_its_ends() {
        let first = Civil::at(0, 0);
        let last = Civil::at(LAST_SECOND, 0);
        assert_eq!(Civil::at(-1, 0), first);
        assert_eq!(Civil::at(i64::MIN, i32::MIN), first);
        assert_eq!(Civil::at(LAST_SECOND + 1, 0), last);
        assert_eq!(Civil::at(i64::MAX, i32::MAX), last);
    }

    #[test]
    fn an_offset_does_not_lead_out_of_the_range() {
        assert_eq!(Civil::at(0, -1), Civil::at(0, 0));
        assert_eq!(Civil::at(LAST_SECOND, 1), Civil::at(LAST_SECOND, 0));
        // The instant is before 1970, the local time is not.
        assert_eq!(Civil::at(-3_600, 3_600), Civil::at(0, 0));
        assert_eq!(Civil::at(-3_600, 3_601).second, 1);
    }
}
