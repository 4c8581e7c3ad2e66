//! The identity of a registration with a poller.

/// A registration, by its poller and the poller's id for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchId {
    pub(crate) poller: u32,
    pub(crate) id: u32,
}
