//! Socket activation: a service manager opens the listeners, and starts the program with them.
//!
//! The protocol is `sd_listen_fds` of systemd. It also passes the descriptors that the service
//! manager has kept since the last run of the service. Their names (`LISTEN_FDNAMES`) show their
//! purpose.

#![allow(unsafe_code, reason = "descriptors known by their numbers")]

use std::{
    env,
    ffi::OsStr,
    os::fd::{OwnedFd, RawFd},
    process,
    sync::{Mutex, PoisonError},
};

use crate::{
    error::{Error, Result},
    passed_fds,
    stored::{Purpose, StoredMailboxes},
};

/// The environment variable that holds the number of descriptors that a service manager passes. The
/// descriptors have the numbers from 3 up.
pub const LISTEN_FDS: &str = "LISTEN_FDS";

pub(crate) const LISTEN_PID: &str = "LISTEN_PID";

/// The environment variable that holds the names of the descriptors, with colons between them.
const LISTEN_FDNAMES: &str = "LISTEN_FDNAMES";

pub(crate) const VARIABLES: [&str; 3] = [LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES];

/// The descriptors that a service manager has passed to this process, by their purpose; `None`
/// until they are taken.
static PASSED: Mutex<Option<Passed>> = Mutex::new(None);

#[derive(Debug, Default)]
struct Passed {
    /// The descriptors of socket units; `None` after they were taken.
    activated: Option<Vec<OwnedFd>>,
    listeners: Vec<OwnedFd>,
    mailboxes: StoredMailboxes,
}

/// Returns whether the variables are for this process, and not left over from another one.
pub(crate) fn is_for_this_process() -> bool {
    let pid = env::var_os(LISTEN_PID).and_then(|pid| number(&pid));
    pid == Some(i64::from(process::id()))
}

/// Takes the descriptors that a service manager such as systemd has opened for this process, in the
/// order of its configuration. The list is empty if there are no such descriptors, or if the
/// variables are for another process.
///
/// From now on this process owns them, and `exec` closes them. Call it once, at the start, before
/// other descriptors are opened.
///
/// # Errors
///
/// [`Error::BadActivation`] if `LISTEN_PID` is not a process id, if `LISTEN_FDS` is not a number
/// from 1 up, or if one of the descriptors that it counts is not open. A second call returns this
/// error too, if descriptors were passed to this process.
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
    let taken = with_passed(|passed| passed.activated.take())?;
    match taken {
        None => Ok(Vec::new()),
        Some(Some(activated)) => Ok(activated),
        Some(None) => {
            let text = env::var_os(LISTEN_FDS).unwrap_or_default();
            Err(refuse(LISTEN_FDS, &text, "they were taken before".into()))
        }
    }
}

/// Takes the listeners that the last run of this service had, and that the service manager has kept
/// under the name [`STORED_LISTENER`](crate::STORED_LISTENER). The list is in no order. It is empty
/// if there are no such listeners, and after the first call.
///
/// From now on this process owns them, and `exec` closes them. The first call of this function or
/// of [`activated`] takes all passed descriptors. So make this first call at the start, before
/// other descriptors are opened.
///
/// # Errors
///
/// The errors of [`activated`], except that of a second call.
///
/// ```
/// let mut stored = evcore_prefork::stored_listeners()?.into_iter();
/// let listener = match stored.next() {
///     Some(descriptor) => std::net::TcpListener::from(descriptor),
///     None => std::net::TcpListener::bind("127.0.0.1:0")?,
/// };
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn stored_listeners() -> Result<Vec<OwnedFd>> {
    let taken = with_passed(|passed| std::mem::take(&mut passed.listeners))?;
    Ok(taken.unwrap_or_default())
}

/// Takes the mailboxes (sockets by which workers reach each other) that the service manager has
/// kept. The result is empty if the program has called neither [`activated`] nor
/// [`stored_listeners`], because other code may then own the descriptors with these numbers.
pub(crate) fn stored_mailboxes() -> StoredMailboxes {
    let mut passed = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
    let passed = passed.as_mut();
    passed.map_or_else(StoredMailboxes::default, |passed| {
        std::mem::take(&mut passed.mailboxes)
    })
}

/// Closes the mailboxes that the service manager has kept since the last run, and returns their
/// names. Call it in a program that [keeps](crate::Supervisor::keep_mailboxes) none, and make the
/// service manager remove these names (`FDSTOREREMOVE=1`, `FDNAME=`). Otherwise the connections in
/// the mailboxes stay open, and nobody serves them.
///
/// The list is empty before the first call of [`activated`] or [`stored_listeners`].
#[must_use = "the service manager must remove the names"]
pub fn close_stored_mailboxes() -> Vec<String> {
    stored_mailboxes().names()
}

/// Returns whether a service manager has opened listeners for this program, or for the older binary
/// that has started it. Descriptors of the last run that the service manager has kept do not count.
/// Only `LISTEN_FDS` and `LISTEN_FDNAMES` are read, so the result is also true if another process
/// has left these variables in the environment.
#[must_use]
pub fn is_activated() -> bool {
    // Without names, all descriptors are those of socket units.
    let names = env::var(LISTEN_FDNAMES).unwrap_or_default();
    let mut purposes = names.split(':').map(Purpose::of);
    env::var_os(LISTEN_FDS).is_some() && purposes.any(|purpose| purpose == Purpose::Activated)
}

/// Calls `take` with the passed descriptors, if there are any.
fn with_passed<T>(take: impl FnOnce(&mut Passed) -> T) -> Result<Option<T>> {
    let mut passed = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
    if passed.is_none() {
        *passed = take_passed()?;
    }
    Ok(passed.as_mut().map(take))
}

/// Takes all passed descriptors. The caller keeps them. It calls this function again only if no
/// descriptors were passed, or after an error. In both cases, the earlier call has taken nothing.
fn take_passed() -> Result<Option<Passed>> {
    let (Some(pid), Some(count)) = (env::var_os(LISTEN_PID), env::var_os(LISTEN_FDS)) else {
        return Ok(None);
    };
    match number(&pid) {
        Some(number) if number == i64::from(process::id()) => {}
        Some(number) if number > 0 => return Ok(None),
        _ => {
            let why = "it is not a process id".to_owned();
            return Err(refuse(LISTEN_PID, &pid, why));
        }
    }
    let end = number(&count).and_then(end_of).ok_or_else(|| {
        let why = "it is not a number of descriptors from 1 up".to_owned();
        refuse(LISTEN_FDS, &count, why)
    })?;
    // SAFETY: the service manager has opened them for this process to own, and they are taken once,
    // because the caller keeps the result.
    let taken = unsafe { passed_fds::take(passed_fds::FIRST..end) };
    let taken = taken.map_err(|number| {
        let why = format!("descriptor {number} is not open");
        refuse(LISTEN_FDS, &count, why)
    })?;
    let names = env::var(LISTEN_FDNAMES).unwrap_or_default();
    Ok(Some(by_purpose(taken, names.split(':'))))
}

/// Sorts descriptors by their names. A descriptor without a name is one of a socket unit.
fn by_purpose<'a>(descriptors: Vec<OwnedFd>, mut names: impl Iterator<Item = &'a str>) -> Passed {
    let mut passed = Passed::default();
    let mut activated = Vec::new();
    for descriptor in descriptors {
        match Purpose::of(names.next().unwrap_or_default()) {
            Purpose::Activated => activated.push(descriptor),
            Purpose::Listener => passed.listeners.push(descriptor),
            Purpose::Mailbox { index, end } => passed.mailboxes.add(index, end, descriptor),
        }
    }
    passed.activated = Some(activated);
    passed
}

fn refuse(variable: &'static str, text: &OsStr, why: String) -> Error {
    Error::BadActivation {
        variable,
        text: text.to_string_lossy().into_owned(),
        why,
    }
}

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
        assert!(stored_listeners().unwrap().is_empty());
        assert!(stored_mailboxes().into_pairs().is_empty());
        assert!(!is_activated());
    }

    #[test]
    fn a_descriptor_without_a_name_is_one_of_a_socket_unit() {
        let sockets = (0..5).map(|_| std::os::unix::net::UnixStream::pair().unwrap().0);
        let names = [
            "evcore-mailbox-0-receiving",
            "evcore-listener",
            "httpd.socket",
            "evcore-mailbox-0-sending",
        ];
        let passed = by_purpose(sockets.map(OwnedFd::from).collect(), names.into_iter());
        assert_eq!(passed.activated.unwrap().len(), 2);
        assert_eq!(passed.listeners.len(), 1);
        assert!(matches!(passed.mailboxes.into_pairs()[..], [Some(_)]));
    }
}
