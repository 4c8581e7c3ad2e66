//! Errors of the operating system, with the failed operation and advice.

use std::{fmt, io};

use rustix::io::Errno;

/// Adds the operation that failed, and advice, to the message of an error. Keeps its kind.
pub(crate) fn failed<E: Into<io::Error>>(doing: impl fmt::Display) -> impl FnOnce(E) -> io::Error {
    move |error| {
        let error = error.into();
        let advice = advice(&error);
        io::Error::new(error.kind(), format!("{doing} failed: {error}{advice}"))
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => "; raise the limit on descriptors (ulimit -n), or use fewer workers",
        Some(Errno::NFILE) => "; raise the limit of the system on open files (fs.file-max)",
        Some(Errno::NOMEM) => "; free memory, or raise the limit on it (ulimit -v)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_has_operation_and_advice_and_the_kind_stays() {
        let error = failed("making an eventfd")(Errno::MFILE);
        let reason = Errno::MFILE;
        assert_eq!(
            error.to_string(),
            format!(
                "making an eventfd failed: {reason}; raise the limit on descriptors (ulimit -n), \
                 or use fewer workers"
            )
        );
        assert_eq!(error.kind(), io::Error::from(reason).kind());
    }

    #[test]
    fn each_exhausted_resource_has_advice_of_its_own() {
        for (errno, limit) in [
            (Errno::MFILE, "ulimit -n"),
            (Errno::NFILE, "fs.file-max"),
            (Errno::NOMEM, "ulimit -v"),
        ] {
            let message = failed("making an eventfd")(errno).to_string();
            assert!(message.contains(limit), "{message}");
        }
        let message = failed("making an eventfd")(Errno::INVAL).to_string();
        let expected = format!("making an eventfd failed: {}", Errno::INVAL);
        assert_eq!(message, expected, "there is no advice");
    }
}
