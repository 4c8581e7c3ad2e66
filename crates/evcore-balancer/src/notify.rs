//! A trait that wakes a worker from its wait, and the descriptor that the worker's poller watches
//! for that.

use std::{fmt, os::fd::BorrowedFd};

/// Wakes a member of a [`WorkerGroup`](crate::WorkerGroup) from its wait.
///
/// A server needs no implementation of its own, because
/// [`WorkerGroup::new`](crate::WorkerGroup::new) makes descriptors. A simulator implements the
/// trait for its own pollers, and so runs the same group protocol.
///
/// ```
/// use evcore_balancer::{GroupMember, Notify, Policy, WorkerGroup, WorkerId};
/// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
///
/// #[derive(Debug, Default)]
/// struct Flag(AtomicBool);
///
/// impl Notify for Flag {
///     fn notify(&self) {
///         self.0.store(true, Relaxed);
///     }
///     fn clear(&self) {
///         self.0.store(false, Relaxed);
///     }
/// }
///
/// # fn main() -> std::io::Result<()> {
/// let flags = vec![Flag::default(), Flag::default()];
/// let group = WorkerGroup::with_notifiers(Policy::least_loaded(), flags)?;
/// let [one, two] = [0, 1].map(|slot| group.join(WorkerId::from_slot(slot)));
/// one.notify(two.id());
/// assert!(two.is_notified());
/// # Ok(())
/// # }
/// ```
#[doc(hidden)] // Only simulators need it.
pub trait Notify: fmt::Debug + Send + Sync {
    /// Ends the present wait of the member, or its next one if it does not wait now. Any worker may
    /// call it.
    fn notify(&self);

    /// Clears all notifications so far, so that they do not end the next wait.
    fn clear(&self);

    /// The notifier that a poller watches; `None` if a notification ends the wait by other means.
    fn watched(&self) -> Option<Notifier<'_>> {
        None
    }
}

/// A descriptor, real or simulated, that becomes readable when a worker is notified.
///
/// ```
/// use evcore_balancer::{GroupMember, Notifier, Policy, WorkerGroup, WorkerId};
///
/// let group = WorkerGroup::new(Policy::least_loaded(), 1)?;
/// let member = group.join(WorkerId::from_slot(0));
/// assert!(matches!(member.notifier(), Some(Notifier::Descriptor(_))));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Notifier<'a> {
    /// An open descriptor.
    Descriptor(BorrowedFd<'a>),
    /// The number of a simulated descriptor.
    Simulated(u32),
}
