//! The successor of a worker that stops.

/// The kind of worker that serves, or will serve, in place of one that stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Successor {
    /// A worker of a newer generation of the same master, after a reload.
    Generation,
    /// A worker of another binary: of the new one after an upgrade, or of the older one that has
    /// started this binary.
    Binary,
    /// A worker of the next start of the service. It will read the mailbox, which a service manager
    /// [keeps](crate::Supervisor::keep_mailboxes) until then. No process reads the mailbox now.
    Restart,
}
