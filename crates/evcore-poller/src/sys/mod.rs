//! The backends. Each implements the waits of a poller by one kernel interface, such as epoll. Only
//! the backends call the operating system to wait.

use crate::{
    backend::Backend,
    backend_kind::BackendKind,
    error::{Error, Result},
};

mod any_backend;
mod chunked_wait;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod epoll;
mod errno;
// The model needs Linux, because the BSDs lack one of the error numbers of event ports.
#[cfg(all(test, target_os = "linux"))]
mod fake_kernel;
mod fork_guard;
#[cfg(target_os = "linux")]
mod io_uring;
// Linux runs the tests of kqueue, over a model of the kernel.
#[cfg(any(
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "netbsd",
    target_os = "openbsd",
    all(test, target_os = "linux"),
))]
mod kqueue;
mod poll_call;
mod poll_like;
mod raw_fd;
#[cfg(not(any(target_os = "illumos", target_os = "solaris")))]
mod select;
#[cfg(all(test, target_os = "linux"))]
mod tests;

pub(crate) use any_backend::AnyBackend;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use epoll::failed as epoll_failed;
pub(crate) use fork_guard::ForkGuard;

/// Makes [`AVAILABLE`] and [`open`] from one list, so that each condition is written once.
macro_rules! backends {
    ($($(#[$here:meta])? $kind:ident => $open:expr,)+) => {
        /// The backends of this system, best first.
        pub(crate) const AVAILABLE: &[BackendKind] = &[$($(#[$here])? BackendKind::$kind,)+];

        pub(crate) fn open(kind: BackendKind) -> Result<AnyBackend> {
            $(
                $(#[$here])?
                if kind == BackendKind::$kind {
                    return $open;
                }
            )+
            Err(Error::Absent { kind, available: AVAILABLE })
        }
    };
}

backends! {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Epoll => epoll::Epoll::new().map(AnyBackend::Epoll),
    #[cfg(any(
        target_vendor = "apple",
        target_os = "freebsd",
        target_os = "netbsd",
        target_os = "openbsd",
    ))]
    Kqueue => boxed(kqueue::Kqueue::<_>::new()),
    #[cfg(any(target_os = "illumos", target_os = "solaris"))]
    EventPorts => boxed(poll_like::port::open()),
    #[cfg(any(target_os = "illumos", target_os = "solaris"))]
    DevPoll => boxed(poll_like::devpoll::open()),
    Poll => boxed(poll_like::poll::open()),
    #[cfg(not(any(target_os = "illumos", target_os = "solaris")))]
    Select => boxed(select::Select::new()),
    #[cfg(any(target_os = "linux", target_os = "android"))]
    EpollMasked => epoll::Epoll::masked().map(AnyBackend::Epoll),
    #[cfg(target_os = "linux")]
    IoUring => boxed(io_uring::IoUring::new()),
}

fn boxed<B: Backend + 'static>(opened: Result<B>) -> Result<AnyBackend> {
    opened.map(|backend| AnyBackend::Boxed(Box::new(backend)))
}
