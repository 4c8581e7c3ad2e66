//! The local time zone: the offset from UTC at an instant.
//!
//! With the feature `local-time` it comes from jiff; without it, local time is UTC.
//! jiff is not 1.0 yet, so its types do not leave this file.

pub(crate) use imp::Zone;

#[cfg(feature = "local-time")]
mod imp {
    use jiff::Timestamp;
    use jiff::tz::TimeZone;

    #[derive(Clone, Debug)]
    pub(crate) struct Zone(TimeZone);

    impl Zone {
        /// The zone of `TZ` if that is set, otherwise of `/etc/localtime`; UTC if it cannot be
        /// found there.
        pub(crate) fn local() -> Self {
            Self(TimeZone::system())
        }

        pub(crate) fn utc() -> Self {
            Self(TimeZone::UTC)
        }

        /// A zone by a POSIX rule, as in `TZ`.
        #[cfg(test)]
        pub(crate) fn posix(rule: &str) -> Self {
            Self(TimeZone::posix(rule).expect("a valid rule"))
        }

        pub(crate) fn offset_at(&self, unix_seconds: i64) -> i32 {
            let (first, last) = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
            let instant = Timestamp::from_second(unix_seconds.clamp(first, last))
                .expect("limited to the range of jiff");
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
    fn utc_has_no_offset_at_any_instant() {
        for unix_seconds in [i64::MIN, -1, 0, 1_782_864_000, i64::MAX] {
            assert_eq!(Zone::utc().offset_at(unix_seconds), 0);
        }
    }

    #[cfg(feature = "local-time")]
    #[test]
    fn the_offset_changes_at_the_second_of_the_rule() {
        let berlin = Zone::posix("CET-1CEST,M3.5.0,M10.5.0/3");
        let (spring, autumn) = (1_774_746_000, 1_792_890_000); // 2026, 01:00 UTC
        assert_eq!(berlin.offset_at(spring - 1), 3_600);
        assert_eq!(berlin.offset_at(spring), 7_200);
        assert_eq!(berlin.offset_at(autumn - 1), 7_200);
        assert_eq!(berlin.offset_at(autumn), 3_600);
    }

    #[cfg(feature = "local-time")]
    #[test]
    fn instants_out_of_range_have_an_offset() {
        let kathmandu = Zone::posix("<+0545>-5:45");
        assert_eq!(kathmandu.offset_at(i64::MIN), 20_700);
        assert_eq!(kathmandu.offset_at(i64::MAX), 20_700);
    }
}
