//! One event of a wait.

use crate::Ready;

/// One descriptor's readiness, under the key it was registered with.
///
/// ```
/// use evcore_poller::{EventSink, Events, Ready};
///
/// let mut events = Events::bounded(1);
/// EventSink::from(&mut events).push(7, Ready::READABLE); // as a backend does in a wait
/// for event in &events {
///     assert!(event.key == 7 && event.ready.is_readable());
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The key that was given to [`Poller::add`](crate::Poller::add), all 64 bits.
    pub key: u64,
    /// What the descriptor is ready for.
    pub ready: Ready,
    pub(crate) available: Available,
}

/// How many bytes can be read, if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Available(u32);

impl Event {
    /// Returns how many bytes can be read, if the kernel reports it (kqueue). After reading that
    /// many bytes, no further read is needed to find that the descriptor is drained. For a
    /// listener, it is the number of connections that wait.
    #[must_use]
    #[inline]
    pub fn available(&self) -> Option<u32> {
        (self.available != Available::UNKNOWN).then_some(self.available.0)
    }
}

impl Available {
    /// The kernel did not report it.
    pub(crate) const UNKNOWN: Self = Self(u32::MAX);
}

impl From<u32> for Available {
    /// The highest number stands for unknown. One byte less is as good a hint.
    #[inline]
    fn from(bytes: u32) -> Self {
        Self(bytes.min(Self::UNKNOWN.0 - 1))
    }
}
