//! Reports a test as not run if the kernel lacks or forbids an interface that the test needs.

use std::{fmt::Display, io};

use crate::not_run;

/// Returns the value that was opened. If the kernel refused to open it, reports the calling test as
/// [not run](not_run), and returns `None`.
///
/// Only two errors are refusals: `ENOSYS`, if the kernel lacks the call, and `EPERM`, if it forbids
/// the call.
///
/// # Panics
///
/// If opening failed for any other reason, because then the interface is broken.
#[track_caller]
pub fn unless_refused<T, E: Display + Into<io::Error>>(opened: Result<T, E>) -> Option<T> {
    match opened {
        Ok(opened) => Some(opened),
        Err(error) => {
            let message = error.to_string();
            assert!(is_refusal(&error.into()), "not a refusal: {message}");
            not_run(&message);
            None
        }
    }
}

fn is_refusal(error: &io::Error) -> bool {
    [Some(libc::ENOSYS), Some(libc::EPERM)].contains(&error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_forbidden_call_is_a_refusal() {
        for errno in [libc::ENOSYS, libc::EPERM] {
            assert!(is_refusal(&io::Error::from_raw_os_error(errno)));
        }
        assert_eq!(unless_refused(Ok::<_, io::Error>(7)), Some(7));
    }

    #[test]
    fn any_other_error_is_a_failure() {
        let errors = [libc::EINVAL, libc::ENOMEM, libc::EMFILE, libc::EACCES];
        let errors = errors.map(io::Error::from_raw_os_error);
        for error in errors.into_iter().chain([io::Error::other("no errno")]) {
            let opened = || unless_refused(Err::<(), _>(error));
            let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(opened));
            assert!(opened.is_err());
        }
    }
}
