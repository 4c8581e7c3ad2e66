//! The backends: only they call the operating system to wait.

use crate::{Backend, BackendKind, Error, Result};

#[cfg(any(target_os = "linux", target_os = "android"))]
mod epoll;
mod fork_guard;
// Its tests run on every system, over a model of the kernel.
mod chunked_wait;
#[cfg(any(
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "netbsd",
    target_os = "openbsd",
    test,
))]
mod kqueue;
mod poll;
// Its tests run on Linux: the BSDs lack one of its errors.
#[cfg(any(
    target_os = "illumos",
    target_os = "solaris",
    all(test, target_os = "linux")
))]
mod port;
mod raw_fd;
#[cfg(not(any(target_os = "illumos", target_os = "solaris")))]
mod select;

pub(crate) use fork_guard::ForkGuard;

/// Makes [`AVAILABLE`] and [`open`] from one list, so that each condition is written once.
macro_rules! backends {
    ($($(#[$here:meta])? $kind:ident => $open:expr,)+) => {
        /// The backends of this system, best first.
        pub(crate) const AVAILABLE: &[BackendKind] = &[$($(#[$here])? BackendKind::$kind,)+];

        pub(crate) fn open(kind: BackendKind) -> Result<Box<dyn Backend>> {
            $(
                $(#[$here])?
                if kind == BackendKind::$kind {
                    return Ok(Box::new($open()?));
                }
            )+
            Err(Error::Absent { kind })
        }
    };
}

backends! {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Epoll => epoll::Epoll::new,
    #[cfg(any(
        target_vendor = "apple",
        target_os = "freebsd",
        target_os = "netbsd",
        target_os = "openbsd",
    ))]
    Kqueue => kqueue::Kqueue::<_>::new,
    #[cfg(any(target_os = "illumos", target_os = "solaris"))]
    EventPorts => port::EventPorts::<_>::new,
    Poll => poll::Poll::new,
    #[cfg(not(any(target_os = "illumos", target_os = "solaris")))]
    Select => select::Select::new,
    #[cfg(any(target_os = "linux", target_os = "android"))]
    EpollMasked => epoll::Epoll::masked,
}
