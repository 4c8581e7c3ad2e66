//! The atomic words in shared memory that show the state of a member to the other members of its
//! group.

// No guarantee depends on the memory order of the words of type `Count`, so loom does not model
// them.
use std::sync::atomic::AtomicU32 as Count;

use crate::sync::{AtomicU32, Ordering};

/// The words of one member, in a cache line of their own. All are zero until the slot has its first
/// member.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct MemberWords {
    /// 1 from `join` until the member leaves or is released; otherwise 0.
    pub(crate) joined: AtomicU32,
    /// 0 if the member has no room; otherwise the number of its connections plus one.
    pub(crate) load: AtomicU32,
    /// 1 from a notification until the member answers it; otherwise 0.
    pub(crate) notified: AtomicU32,
    /// 1 while the member is late; otherwise 0.
    pub(crate) late: AtomicU32,
    /// Number of clients that the members in this slot have accepted. It wraps.
    pub(crate) clients: Count,
    /// 0 if the member takes no part in evening out connections; otherwise the number of its open
    /// connections plus one.
    pub(crate) open: Count,
    pub(crate) rest: Count,
}

pub(crate) const AWAKE: u32 = 0;
pub(crate) const RESTS: u32 = 1;
/// The member rests (`Plan::rests`), and another one has woken it to end the rest.
pub(crate) const ROUSED: u32 = 2;

impl MemberWords {
    /// Answers a notification. Returns whether there was one, on which the caller must act.
    pub(crate) fn answer(&self) -> bool {
        // Acquire: the cause of the notification happens before the reaction to it.
        replace(&self.notified, 1, 0, Ordering::Acquire)
    }

    /// Rouses the member if it rests. If this returns true, the caller must wake the member.
    pub(crate) fn rouse(&self) -> bool {
        let order = std::sync::atomic::Ordering::Relaxed;
        self.rest.load(order) == RESTS
            && self
                .rest
                .compare_exchange(RESTS, ROUSED, order, order)
                .is_ok()
    }

    /// The number of the member's connections, and true if it has an unanswered notification;
    /// `None` if it has no room.
    pub(crate) fn available_load(&self) -> Option<(u32, bool)> {
        let active = self.load.load(Ordering::Relaxed).checked_sub(1)?;
        Some((active, self.notified.load(Ordering::Relaxed) != 0))
    }
}

pub(crate) fn replace(word: &AtomicU32, current: u32, new: u32, success: Ordering) -> bool {
    word.compare_exchange(current, new, success, Ordering::Relaxed)
        .is_ok()
}
