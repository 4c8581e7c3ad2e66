//! How far the machine's local time is from UTC, and when.
//!
//! With the feature `local-time` jiff knows; without it, everywhere is UTC.
//! jiff is not 1.0 yet, so no type of it leaves this file.

pub(crate) use imp::Zone;

#[cfg(feature = "local-time")]
mod imp {
    use jiff::Timestamp;
    use jiff::tz::TimeZone;

    #[derive(Clone, Debug)]
    pub(crate) struct Zone(TimeZone);

    impl Zone {
        /// The zone of `TZ` or else of `/etc/localtime`; UTC when neither can be read.
        pub(crate) fn local() -> Self {
            Self(TimeZone::system())
        }

        pub(crate) fn utc() -> Self {
            Self(TimeZone::UTC)
        }

        /// A zone by the POSIX rule that `TZ` could hold.
        #[cfg(test)]
        pub(crate) fn posix(rule: &str) -> Self {
            Self(TimeZone::posix(rule).expect("a valid rule"))
        }

        pub(crate) fn offset_at(&self, unix_seconds: i64) -> i32 {
            let (first, last) = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
            let instant = Timestamp::from_second(unix_seconds.clamp(first, last))
                .expect("drawn into jiff's range");
            self.0.to_offset(instant).seconds()
        }
    }
}

#[cfg(not(feature = "local-time"))]
mod imp {
    #[derive(Clone, Debug)]
    pub(crate) struct Zone;

    impl Zone {
        pub(crate) fn local() -> Self {
            Self
        }

        pub(crate) fn utc() -> Self {
            Self
        }

        pub(crate) fn offset_at(&self, _unix_seconds: i64) -> i32 {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utc_is_nowhere_ahead_of_itself() {
        for unix_seconds in [i64::MIN, -1, 0, 1_782_864_000, i64::MAX] {
            assert_eq!(Zone::utc().offset_at(unix_seconds), 0);
        }
    }

    #[cfg(feature = "local-time")]
    #[test]
    fn the_offset_changes_at_the_second_that_the_rule_names() {
        let berlin = Zone::posix("CET-1CEST,M3.5.0,M10.5.0/3");
        let (spring, autumn) = (1_774_746_000, 1_792_890_000); // 2026, 01:00 UTC
        assert_eq!(berlin.offset_at(spring - 1), 3_600);
        assert_eq!(berlin.offset_at(spring), 7_200);
        assert_eq!(berlin.offset_at(autumn - 1), 7_200);
        assert_eq!(berlin.offset_at(autumn), 3_600);
    }

    #[cfg(feature = "local-time")]
    #[test]
    fn instants_beyond_the_calendar_have_an_offset_too() {
        let kathmandu = Zone::posix("<+0545>-5:45");
        assert_eq!(kathmandu.offset_at(i64::MIN), 20_700);
        assert_eq!(kathmandu.offset_at(i64::MAX), 20_700);
    }
}
