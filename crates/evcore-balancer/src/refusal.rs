//! The errors of the operating system, with what failed and what to do about it.

use std::{fmt, io};

use rustix::io::Errno;

/// An error of the same kind, whose message names what was being done.
pub(crate) fn refused<E: Into<io::Error>>(doing: impl fmt::Display) -> impl FnOnce(E) -> io::Error {
    move |error| {
        let error = error.into();
        let advice = advice(&error);
        io::Error::new(error.kind(), format!("{doing} failed: {error}{advice}"))
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => "; raise the limit on descriptors (ulimit -n), or use fewer workers",
        Some(Errno::NFILE) => "; the whole system is out of files: raise its limit (fs.file-max)",
        Some(Errno::NOMEM) => "; free memory, or raise the limit on it (ulimit -v)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_what_failed_and_what_to_do_and_the_kind_stays() {
        let error = refused("making an eventfd")(Errno::MFILE);
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
}
