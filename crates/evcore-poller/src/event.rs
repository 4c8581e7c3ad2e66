//! One thing that a wait brings back.

use crate::Ready;

/// One descriptor's readiness, under the key it was registered with.
///
/// ```
/// use evcore_poller::{EventSink, Events, Ready};
///
/// let mut events = Events::with_capacity(1);
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
    /// How many bytes can be read, where the kernel says so (kqueue): whoever has read that many
    /// needs no further read to learn that there is no more for now. (Of a listener: how many
    /// connections wait.)
    #[must_use]
    #[inline]
    pub fn available(&self) -> Option<u32> {
        (self.available != Available::UNKNOWN).then_some(self.available.0)
    }
}

impl Available {
    /// The kernel did not say.
    pub(crate) const UNKNOWN: Self = Self(u32::MAX);
}

impl From<u32> for Available {
    /// The highest number means that there is none; one byte less is as good a hint.
    #[inline]
    fn from(bytes: u32) -> Self {
        Self(bytes.min(Self::UNKNOWN.0 - 1))
    }
}
