//! What an event is in memory: as epoll writes it, so that the kernel's array is the user's.
//!
//! The other backends write the same, so that whoever reads asks nobody which it was.

use crate::Ready;

/// One event, in the layout of Linux's `struct epoll_event`.
///
/// On x86-64 that has no padding, as on x86: so that programs of 32 bits see the same.
#[derive(Clone, Copy)]
#[cfg_attr(target_arch = "x86_64", repr(C, packed(4)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C))]
pub(crate) struct Entry {
    /// Flags of epoll; those that [`Ready`] has are its bits.
    flags: u32,
    key: u64,
}

impl Entry {
    #[inline]
    pub(crate) fn new(key: u64, ready: Ready) -> Self {
        Self {
            flags: ready.to_flags(),
            key,
        }
    }

    /// What any of them has: all flags together, and the bits of all keys.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[inline]
    pub(crate) fn union(entries: &[Self]) -> Self {
        let (mut flags, mut key) = (0, 0);
        for entry in entries {
            flags |= entry.flags;
            key |= entry.key;
        }
        Self { flags, key }
    }

    #[inline]
    pub(crate) fn key(self) -> u64 {
        self.key
    }

    #[inline]
    pub(crate) fn ready(self) -> Ready {
        Ready::from_flags(self.flags)
    }
}

// The kernel's own, which `sys/epoll.rs` has it write over these.
#[cfg(any(target_os = "linux", target_os = "android"))]
const _: () = {
    use std::mem::offset_of;

    use libc::epoll_event;

    assert!(size_of::<Entry>() == size_of::<epoll_event>());
    assert!(align_of::<Entry>() >= align_of::<epoll_event>());
    assert!(offset_of!(Entry, flags) == offset_of!(epoll_event, events));
    assert!(offset_of!(Entry, key) == offset_of!(epoll_event, u64));
};
