//! A value that an inbox did not take, with the reason.

use std::error::Error;
use std::fmt;

/// What [`Sender::send`](crate::Sender::send) hands back: the value, and why it was not taken.
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
    /// The inbox holds as many values as it may: try again later, or shed load.
    Full(T),
    /// The inbox is gone, so no value will be taken any more.
    Closed(T),
}

impl<T> SendError<T> {
    /// The value that was not taken.
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
    /// The reason alone, so that a value needs no `Debug` to be sent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(self.name()).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the inbox is full: send again when its receiver has drained it",
            Self::Closed(_) => "the inbox is closed: its receiver is gone",
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
    fn an_error_says_why_whatever_it_carries() {
        let (full, closed) = (SendError::Full(Job), SendError::Closed(Job));
        assert_eq!(format!("{full:?} {closed:?}"), "Full(..) Closed(..)");
        assert!(full.to_string().contains("full"));
        assert!(closed.to_string().contains("gone"));
    }
}
