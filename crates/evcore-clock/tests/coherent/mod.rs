//! The check that all parts of a snapshot belong to one update.

use evcore_clock::{Snapshot, stamp};

/// Panics unless all five strings belong to the second and the offset of the snapshot.
pub(crate) fn assert_coherent(now: &Snapshot) {
    let (unix, offset) = (now.unix_seconds(), now.offset());
    assert_eq!(now.unix_ms().div_euclid(1_000), unix);
    assert_eq!(now.http_date(), stamp::http_date(unix));
    assert_eq!(now.error_log_time(), stamp::error_log_time(unix, offset));
    assert_eq!(now.access_log_time(), stamp::access_log_time(unix, offset));
    assert_eq!(now.iso8601(), stamp::iso8601(unix, offset));
    assert_eq!(now.syslog_time(), stamp::syslog_time(unix, offset));
}
