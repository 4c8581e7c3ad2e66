//! The reasons for which a receiver refuses a batch.

use std::fmt;

/// The reason for which a receiver has refused a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The program has dropped the batch, for example because it serves as many clients as it can.
    Declined,
    /// The receiver's process had no room for the descriptors.
    NoDescriptors,
    /// The receiver found the message malformed.
    Malformed,
}

impl Refusal {
    pub(crate) const fn code(self) -> u16 {
        match self {
            Self::Declined => 1,
            Self::NoDescriptors => 2,
            Self::Malformed => 3,
        }
    }

    pub(crate) const fn from_code(code: u16) -> Option<Self> {
        match code {
            1 => Some(Self::Declined),
            2 => Some(Self::NoDescriptors),
            3 => Some(Self::Malformed),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Declined => "the receiver declined",
            Self::NoDescriptors => "the receiver is out of descriptors",
            Self::Malformed => "the receiver found the message malformed",
        })
    }
}
