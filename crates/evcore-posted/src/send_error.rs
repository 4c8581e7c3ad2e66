//! The error of a send, which hands the value back.

use std::error::Error;
use std::fmt;

/// The error of [`Sender::send`](crate::Sender::send) and
/// [`Sender::send_timeout`](crate::Sender::send_timeout): the value that was not sent, and why.
///
/// # Examples
///
/// ```
/// use evcore_posted::{Inbox, SendError};
///
/// let inbox = Inbox::bounded(1, || {});
/// let sender = inbox.sender();
/// assert_eq!(sender.send("first"), Ok(()));
/// assert_eq!(sender.send("second"), Err(SendError::Full("second")));
/// drop(inbox);
/// assert_eq!(sender.send("third").unwrap_err().into_value(), "third");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendError<T> {
    /// The inbox holds as many values as its limit allows: try again later, or shed load.
    Full(T),
    /// The inbox was dropped and takes no more values.
    Closed(T),
}

impl<T> SendError<T> {
    /// The value that was not sent.
    #[must_use]
    pub fn into_value(self) -> T {
        match self {
            Self::Full(value) | Self::Closed(value) => value,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Full(_) => "Full",
            Self::Closed(_) => "Closed",
        }
    }
}

impl<T> fmt::Debug for SendError<T> {
    /// Formats the reason without the value, so that values need no `Debug`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(self.name()).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the inbox is full: send again after its receiver has drained it",
            Self::Closed(_) => "the inbox is closed: its receiver was dropped",
        })
    }
}

impl<T> Error for SendError<T> {}

#[cfg(all(test, not(evcore_loom)))]
mod tests {
    use super::*;

    /// Has no `Debug`.
    struct Job;

    #[test]
    fn an_error_names_its_reason_and_needs_no_debug_of_the_value() {
        let (full, closed) = (SendError::Full(Job), SendError::Closed(Job));
        assert_eq!(format!("{full:?} {closed:?}"), "Full(..) Closed(..)");
        assert!(full.to_string().contains("full"));
        assert!(closed.to_string().contains("dropped"));
    }
}
