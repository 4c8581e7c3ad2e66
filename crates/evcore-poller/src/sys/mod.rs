//! The backends: the only files of this crate that call the operating system to wait.

use std::{fmt, str::FromStr};

use crate::{Backend, Result};

#[cfg(any(target_os = "linux", target_os = "android"))]
mod epoll;
mod pieces;
mod poll;

/// The kernel interfaces that this system has, best first.
///
/// ```
/// use evcore_poller::{Kind, Poller};
///
/// for kind in Kind::available() {
///     assert_eq!(Poller::with(*kind)?.name(), kind.to_string());
/// }
/// # Ok::<(), evcore_poller::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Linux; a wait costs with what is ready, not with what is watched.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Epoll,
    /// Every Unix; a wait costs with what is watched.
    Poll,
}

impl Kind {
    /// The backends of this system, in the order in which [`Poller::new`](crate::Poller::new)
    /// tries them.
    #[must_use]
    pub const fn available() -> &'static [Self] {
        &[
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Epoll,
            Self::Poll,
        ]
    }

    pub(crate) fn open(self) -> Result<Box<dyn Backend>> {
        Ok(match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Epoll => Box::new(epoll::Epoll::new()?),
            Self::Poll => Box::new(poll::Poll::new()?),
        })
    }

    const fn name(self) -> &'static str {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Epoll => "epoll",
            Self::Poll => "poll",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// By its name; the error lists what this system has.
impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> std::result::Result<Self, UnknownKind> {
        let known = Self::available().iter().find(|kind| kind.name() == name);
        known.copied().ok_or_else(|| UnknownKind {
            name: name.to_owned(),
        })
    }
}

/// No backend of this system has that name.
///
/// ```
/// let error = "completion".parse::<evcore_poller::Kind>().unwrap_err();
/// assert!(error.to_string().starts_with("no poller is called \"completion\" here"));
/// ```
#[derive(Debug, thiserror::Error)]
#[error("no poller is called {name:?} here; there are: {}", names())]
pub struct UnknownKind {
    name: String,
}

fn names() -> String {
    let names: Vec<_> = Kind::available().iter().map(|kind| kind.name()).collect();
    names.join(", ")
}
