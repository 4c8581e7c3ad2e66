//! The names of the phases of a turn, which is one iteration of the loop.

/// A phase of a turn. `turn.rs` has their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Events,
    /// Chooses the idle connections whose slots this turn needs.
    ChooseEvictions,
    Accepts,
    ReleaseLock,
    /// The beginning of a shutdown, and a wake-up from another thread.
    Wakes,
    Timers,
    Posts,
    Evictions,
    Over,
    /// The next turn is planned, and its wait has not begun.
    Prepared,
}
