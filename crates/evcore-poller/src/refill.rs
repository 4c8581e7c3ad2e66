//! The result of a wait on epoll that replaces the events of a buffer.

#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::io::Errno;

/// The result of a wait on epoll. Its parts stay in registers.
#[derive(Clone, Copy)]
#[cfg_attr(
    not(any(target_os = "linux", target_os = "android")),
    expect(dead_code, reason = "only epoll makes the others")
)]
pub(crate) enum Refill {
    /// There is one event with these of epoll's flags, and room for another. It may be the waker's.
    One { key: u64, flags: u32 },
    /// There is this number of events, and room for another. None is the waker's.
    Some(usize),
    /// There is no room for another event, or one is the waker's.
    FullOrWoken,
    /// There is none, since the call has failed.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Failed(Errno),
    /// The backend is not epoll.
    Boxed,
}
