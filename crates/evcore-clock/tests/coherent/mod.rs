//! What every snapshot must be, whoever updates and whatever interrupts.

use evcore_clock::{Snapshot, stamp};

/// Fails unless all five strings are those of the snapshot's own second and offset.
pub(crate) fn assert_coherent(now: &Snapshot) {
    let (unix, offset) = (now.unix_seconds(), now.offset());
    assert_eq!(now.unix_ms().div_euclid(1_000), unix);
    assert_eq!(now.http_date(), stamp::http_date(unix));
    assert_eq!(now.error_log_time(), stamp::error_log_time(unix, offset));
    assert_eq!(now.access_log_time(), stamp::access_log_time(unix, offset));
    assert_eq!(now.iso8601(), stamp::iso8601(unix, offset));
    assert_eq!(now.syslog_time(), stamp::syslog_time(unix, offset));
}
