//! The backends: the only files of this crate that call the operating system to wait.

use std::{fmt, str::FromStr};

use crate::{Backend, Result};

#[cfg(any(target_os = "linux", target_os = "android"))]
mod epoll;
mod fork;
// Its tests run everywhere, over a model of the kernel.
#[cfg(any(
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "netbsd",
    target_os = "openbsd",
    test,
))]
mod kqueue;
mod number;
mod pieces;
mod poll;
// Likewise, on Linux: the BSDs lack one of its errors.
#[cfg(any(
    target_os = "illumos",
    target_os = "solaris",
    all(test, target_os = "linux")
))]
mod port;
#[cfg(not(any(target_os = "illumos", target_os = "solaris")))]
mod select;

pub(crate) use fork::Birthplace;

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
    /// macOS and the BSDs; a wait costs with what is ready.
    #[cfg(any(
        target_vendor = "apple",
        target_os = "freebsd",
        target_os = "netbsd",
        target_os = "openbsd",
    ))]
    Kqueue,
    /// illumos and Solaris; a wait costs with what is ready.
    #[cfg(any(target_os = "illumos", target_os = "solaris"))]
    EventPorts,
    /// Every Unix; a wait costs with what is watched.
    Poll,
    /// Every Unix but illumos; descriptors below 1024 alone, and a wait costs with the highest.
    #[cfg(not(any(target_os = "illumos", target_os = "solaris")))]
    Select,
}

impl Kind {
    /// The backends of this system, in the order in which [`Poller::new`](crate::Poller::new)
    /// tries them.
    #[must_use]
    pub const fn available() -> &'static [Self] {
        &[
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Epoll,
            #[cfg(any(
                target_vendor = "apple",
                target_os = "freebsd",
                target_os = "netbsd",
                target_os = "openbsd",
            ))]
            Self::Kqueue,
            #[cfg(any(target_os = "illumos", target_os = "solaris"))]
            Self::EventPorts,
            Self::Poll,
            #[cfg(not(any(target_os = "illumos", target_os = "solaris")))]
            Self::Select,
        ]
    }

    pub(crate) fn open(self) -> Result<Box<dyn Backend>> {
        Ok(match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Epoll => Box::new(epoll::Epoll::new()?),
            #[cfg(any(
                target_vendor = "apple",
                target_os = "freebsd",
                target_os = "netbsd",
                target_os = "openbsd",
            ))]
            Self::Kqueue => Box::new(kqueue::Kqueue::new()?),
            #[cfg(any(target_os = "illumos", target_os = "solaris"))]
            Self::EventPorts => Box::new(port::EventPorts::new()?),
            Self::Poll => Box::new(poll::Poll::new()?),
            #[cfg(not(any(target_os = "illumos", target_os = "solaris")))]
            Self::Select => Box::new(select::Select::new()?),
        })
    }

    const fn name(self) -> &'static str {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Self::Epoll => "epoll",
            #[cfg(any(
                target_vendor = "apple",
                target_os = "freebsd",
                target_os = "netbsd",
                target_os = "openbsd",
            ))]
            Self::Kqueue => "kqueue",
            #[cfg(any(target_os = "illumos", target_os = "solaris"))]
            Self::EventPorts => "eventport",
            Self::Poll => "poll",
            #[cfg(not(any(target_os = "illumos", target_os = "solaris")))]
            Self::Select => "select",
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
