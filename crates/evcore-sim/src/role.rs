//! The role of a process in a worker group.

use evcore::balancer::GroupMember;

/// A membership, or a handle to the accept lock.
pub(crate) type Role = Box<dyn GroupMember>;
