//! One event of a wait.

use crate::ready::Ready;

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
    /// The readiness of the descriptor.
    pub ready: Ready,
}
