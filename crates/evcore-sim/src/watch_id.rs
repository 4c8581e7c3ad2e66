//! The name of a registration.

/// A registration, by its poller and its id there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchId {
    pub(crate) poller: u32,
    pub(crate) id: u32,
}
