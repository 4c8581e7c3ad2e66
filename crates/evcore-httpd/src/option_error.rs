//! The error for a bad command line.

use std::fmt;

/// A bad command line: one line that names the option and the allowed values.
#[derive(Debug)]
pub struct OptionError(pub(crate) String);

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<lexopt::Error> for OptionError {
    fn from(error: lexopt::Error) -> Self {
        Self(format!("{error}; --help lists the options"))
    }
}
