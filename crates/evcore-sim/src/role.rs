//! The role of a process in a worker group.

use evcore::balancer::GroupMember;

/// A membership of a process in a worker group, or its handle to the accept lock.
pub(crate) type Role = Box<dyn GroupMember>;
