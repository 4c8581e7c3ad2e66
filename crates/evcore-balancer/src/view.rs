//! What a worker sees of the others when it plans a turn.

/// What a worker sees of the others, at about one moment.
///
/// ```
/// use evcore_balancer::{Keeper, View};
///
/// let view = View::alone();
/// assert_eq!(view.keeper, Keeper::Nobody);
/// assert_eq!(view.least, None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Who has the duty to listen.
    pub keeper: Keeper,
    /// The least loaded of the *others* that has a free place and has answered what calls it got.
    pub least: Option<Peer>,
    /// This look has answered a call.
    pub called: bool,
}

impl View {
    /// What there is to see where there are no others.
    #[must_use]
    pub const fn alone() -> Self {
        Self {
            keeper: Keeper::Nobody,
            least: None,
            called: false,
        }
    }

    pub(crate) fn seat_of_least(&self) -> Option<u32> {
        self.least.map(|peer| peer.seat)
    }
}

/// Who has the duty to listen: the one worker that may not stop before another has taken that over.
///
/// Any other worker may stop at any time, since the keeper listens.
///
/// ```
/// use evcore_balancer::Keeper;
///
/// assert_ne!(Keeper::Me, Keeper::Other);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// Nobody: all are full, or the one who was has died.
    Nobody,
    /// This worker.
    Me,
    /// Another worker, whose listeners are registered.
    Other,
}

/// Another worker, as one sees it.
///
/// ```
/// let peer = evcore_balancer::Peer { seat: 3, load: 17 };
/// assert_eq!(peer.load, 17);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The number of its seat.
    pub seat: u32,
    /// How many connections it has.
    pub load: u32,
}
