//! The error for a bad command line.

use std::fmt;

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The error for a bad command line: one line that names the option and the allowed values.
#[derive(Debug)]
pub struct OptionError(pub(crate) String);

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Takes the first paragraph of the message as one line, and leaves out the usage below it.
impl From<clap::Error> for OptionError {
    fn from(error: clap::Error) -> Self {
        let message = error.to_string();
        let first = message.split("\n\n").next().unwrap_or_default();
        let first = first.strip_prefix("error: ").unwrap_or(first);
        let words: Vec<_> = first.split_whitespace().collect();
        let mut line = words.join(" ");
        if error.kind() == ErrorKind::UnknownArgument {
            let similar = match error.get(ContextKind::SuggestedArg) {
                Some(ContextValue::String(similar)) => format!("did you mean '{similar}'? "),
                _ => String::new(),
            };
            line.push_str(&format!("; {similar}--help lists the options"));
        }
        Self(line)
    }
}
