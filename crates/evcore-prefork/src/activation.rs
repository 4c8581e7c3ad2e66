//! Socket activation: a service manager opens the listeners, and starts the program with them.
//!
//! The protocol is `sd_listen_fds` of systemd. The names of the descriptors (`LISTEN_FDNAMES`) are
//! ignored.

#![allow(unsafe_code, reason = "descriptors known by their numbers")]

use std::{
    env,
    ffi::OsStr,
    os::fd::{OwnedFd, RawFd},
    process,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    error::{Error, Result},
    passed_fds,
};

/// The environment variable that holds the number of descriptors that a service manager passes. They
/// have the numbers from 3 up.
pub const LISTEN_FDS: &str = "LISTEN_FDS";

/// The environment variable that holds the id of the process that the descriptors are for.
const LISTEN_PID: &str = "LISTEN_PID";

/// The variables of the protocol.
pub(crate) const VARIABLES: [&str; 3] = [LISTEN_PID, LISTEN_FDS, "LISTEN_FDNAMES"];

/// Returns whether the variables are for this process, and not left over from another one.
pub(crate) fn is_for_this_process() -> bool {
    let pid = env::var_os(LISTEN_PID).and_then(|pid| number(&pid));
    pid == Some(i64::from(process::id()))
}

/// Takes the descriptors that a service manager such as systemd has opened for this process, in the
/// order of its configuration. The list is empty without such sockets, and if the variables are for
/// another process.
///
/// From now on this process owns them, and `exec` closes them. Call it once, at the start, before
/// other descriptors are opened.
///
/// # Errors
///
/// [`Error::BadActivation`] if `LISTEN_PID` is not a process id, if `LISTEN_FDS` is not the number of
/// descriptors that are open, or at the second call.
///
/// ```
/// let mut activated = evcore_prefork::activated()?.into_iter();
/// let listener = match activated.next() {
///     Some(descriptor) => std::net::TcpListener::from(descriptor),
///     None => std::net::TcpListener::bind("127.0.0.1:0")?,
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn activated() -> Result<Vec<OwnedFd>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let (Some(pid), Some(count)) = (env::var_os(LISTEN_PID), env::var_os(LISTEN_FDS)) else {
        return Ok(Vec::new());
    };
    let refuse = |variable, text: &OsStr, why: String| Error::BadActivation {
        variable,
        text: text.to_string_lossy().into_owned(),
        why,
    };
    match number(&pid) {
        Some(number) if number == i64::from(process::id()) => {}
        Some(number) if number > 0 => return Ok(Vec::new()),
        _ => {
            let why = "it is not a process id".to_owned();
            return Err(refuse(LISTEN_PID, &pid, why));
        }
    }
    let end = number(&count).and_then(end_of).ok_or_else(|| {
        let why = "it is not a number of descriptors from 1 up".to_owned();
        refuse(LISTEN_FDS, &count, why)
    })?;
    if TAKEN.swap(true, Ordering::AcqRel) {
        let why = "they were taken before".to_owned();
        return Err(refuse(LISTEN_FDS, &count, why));
    }
    // SAFETY: the service manager has opened them for this process to own, and they are taken once.
    let taken = unsafe { passed_fds::take(passed_fds::FIRST..end) };
    taken.map_err(|number| {
        let why = format!("descriptor {number} is not open");
        refuse(LISTEN_FDS, &count, why)
    })
}

/// Parses digits only.
fn number(text: &OsStr) -> Option<i64> {
    let text = text.to_str()?;
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_digits.then(|| text.parse().ok())?
}

/// One past the last of `count` passed descriptors.
fn end_of(count: i64) -> Option<RawFd> {
    let count = RawFd::try_from(count).ok().filter(|count| *count > 0)?;
    passed_fds::FIRST.checked_add(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_descriptors_is_at_least_one() {
        let end = |text: &str| number(OsStr::new(text)).and_then(end_of);
        assert_eq!(end("1"), Some(4));
        assert_eq!(end("7"), Some(10));
        assert_eq!(end("2147483644"), Some(RawFd::MAX));
        for bad in [
            "",
            "0",
            "-1",
            "+1",
            "x",
            "1x",
            " 1",
            "2147483645",
            "99999999999999999999",
        ] {
            assert_eq!(end(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_process_without_a_service_manager_gets_nothing() {
        assert!(activated().unwrap().is_empty());
    }
}
