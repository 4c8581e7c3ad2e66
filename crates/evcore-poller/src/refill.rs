//! The result of `AnyBackend::refill`, which waits on epoll and replaces the events in a buffer.

#[cfg(any(target_os = "linux", target_os = "android"))]
use rustix::io::Errno;

/// The result of `AnyBackend::refill`. Its parts stay in registers.
#[derive(Clone, Copy)]
#[cfg_attr(
    not(any(target_os = "linux", target_os = "android")),
    expect(dead_code, reason = "only epoll makes a variant other than Boxed")
)]
pub(crate) enum Refill {
    /// There is one event, with these flags of epoll. This event may be the waker's. The buffer has
    /// room for another event.
    One { key: u64, flags: u32 },
    /// There are this many events, and room for another one. None of them is the waker's.
    Some(usize),
    /// The buffer has no room for another event, or one of several events is the waker's.
    FullOrWoken,
    /// The call has failed. The buffer may still have the events of the previous wait.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Failed(Errno),
    /// The backend is called through `dyn Backend`. There was no wait, so the caller waits.
    Boxed,
}
