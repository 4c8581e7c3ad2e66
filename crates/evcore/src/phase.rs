//! The names of a turn's phases.

/// A phase of a turn. `turn.rs` has their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Events of the kernel, in the order in which it reported them.
    Events,
    /// Chooses the idle connections whose slots this turn needs.
    ChooseEvictions,
    /// Clients of the listeners.
    Accepts,
    /// Gives the accept lock back, if this turn holds it.
    ReleaseLock,
    /// The beginning of a shutdown, and a wake-up from another thread.
    Wakes,
    /// Timers that have expired.
    Timers,
    /// The posted queue.
    Posts,
    /// Idle connections to be closed.
    Evictions,
    /// The turn is over.
    Over,
    /// The next turn is planned, and its wait has not begun.
    Prepared,
}
