//! The layout of an event in memory. The layout is epoll's, so that the kernel can write into the
//! program's buffer. All backends use this layout, so reading an event needs no case distinction.

use crate::ready::Ready;

/// One event, in the layout of Linux's `struct epoll_event`.
///
/// On x86-64 the layout has no padding, so that it is the same for 32-bit programs.
#[derive(Clone, Copy)]
#[cfg_attr(target_arch = "x86_64", repr(C, packed(4)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C))]
pub(crate) struct Entry {
    /// epoll's flags. [`Ready`] has the same bits.
    flags: u32,
    key: u64,
}

impl Entry {
    #[inline]
    pub(crate) fn new(key: u64, ready: Ready) -> Self {
        Self {
            flags: ready.bits().into(),
            key,
        }
    }

    /// The union of all flags, and of the bits of all keys.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[inline]
    pub(crate) fn union(entries: &[Self]) -> Self {
        // The first entry is handled separately, so that a batch of one does not enter the loop.
        let Some((first, rest)) = entries.split_first() else {
            return Self { flags: 0, key: 0 };
        };
        rest.iter().fold(*first, |union, entry| Self {
            flags: union.flags | entry.flags,
            key: union.key | entry.key,
        })
    }

    #[inline]
    pub(crate) fn key(self) -> u64 {
        self.key
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[inline]
    pub(crate) fn flags(self) -> u32 {
        self.flags
    }

    #[inline]
    pub(crate) fn ready(self) -> Ready {
        Ready::from_flags(self.flags)
    }
}

// `sys/epoll.rs` lets the kernel write entries, so the layout must be the kernel's.
#[cfg(any(target_os = "linux", target_os = "android"))]
const _: () = {
    use std::mem::offset_of;

    use rustix::event::epoll::Event;

    assert!(size_of::<Entry>() == size_of::<Event>());
    assert!(align_of::<Entry>() >= align_of::<Event>());
    assert!(offset_of!(Entry, flags) == offset_of!(Event, flags));
    assert!(offset_of!(Entry, key) == offset_of!(Event, data));
};
