//! The role of a process in a worker group.

use evcore::balancer::{Member, MutexHandle};

use crate::notifier::Notifier;

/// The role of a process in the group.
#[derive(Debug)]
pub(crate) enum Role {
    Member(Member<Notifier>),
    Lock(MutexHandle),
}
