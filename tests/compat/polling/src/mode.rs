//! The modes of a registration.

use std::io;

use evcore_poller::{Capabilities, Mode};

/// The number of reports that a ready descriptor gets.
///
/// ```
/// assert!(polling::PollMode::Oneshot < polling::PollMode::Level);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PollMode {
    /// Once, and again after a `modify`. `add` and `modify` use this mode.
    Oneshot,
    /// In every wait while the readiness lasts.
    Level,
    /// Once for each change, and again after a `modify`. The kernel must have edges.
    Edge,
    /// The same as `Oneshot` here.
    EdgeOneshot,
}

impl PollMode {
    /// Translates the mode for our poller.
    ///
    /// Our `Edge` exists on every backend. If the kernel has no edges, our `Edge` needs a `rearm`
    /// for each drained side, which programs over `polling` do not call.
    pub(crate) fn ours(self, native: Capabilities) -> io::Result<Mode> {
        match self {
            Self::Oneshot | Self::EdgeOneshot => Ok(Mode::Oneshot),
            Self::Level => Ok(Mode::Level),
            Self::Edge if native.edge => Ok(Mode::Edge),
            Self::Edge => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this backend has no edge-triggered mode; see `supports_edge`",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edge_is_refused_where_the_kernel_has_none() {
        let mut native = Capabilities::default();
        let refused = PollMode::Edge.ours(native).expect_err("no edge");
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
        assert_eq!(PollMode::Level.ours(native).expect("level"), Mode::Level);
        native.edge = true;
        assert_eq!(PollMode::Edge.ours(native).expect("edge"), Mode::Edge);
    }
}
