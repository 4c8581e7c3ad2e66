//! Memory that a process shares with the children that it forks.
//!
//! The memory is an anonymous shared mapping: all zero at first, inherited by `fork`, unmapped by
//! `exec`, and freed with the last process that has it.
//!
//! This is the only file of the crate with unsafe code.

#![allow(unsafe_code, reason = "mmap and munmap, and the slice between them")]

use std::{ffi::c_void, fmt, io, ops::Deref, ptr, ptr::NonNull, slice};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::{line::Line, member_words::MemberWords, os_error::failed, sync::AtomicU32};

pub(crate) struct SharedSlice<T: SharedContent> {
    // Invariant: the start of a mapping of `len` values, which only `drop` unmaps.
    mapping: NonNull<c_void>,
    len: usize,
    content: std::marker::PhantomData<T>,
}

/// A type that may live in memory that other processes write at any time.
///
/// # Safety
///
/// Every field is an atomic (so that no access is a data race), all bytes zero is a valid value,
/// and no field needs a drop.
pub(crate) unsafe trait SharedContent: Send + Sync {}

// SAFETY: an atomic integer; zero is a valid number.
unsafe impl SharedContent for AtomicU32 {}

// SAFETY: atomic integers and nothing else; zero is a valid number.
unsafe impl SharedContent for MemberWords {}

// SAFETY: atomic integers and nothing else; zero is a valid number.
unsafe impl<const N: usize> SharedContent for Line<N> {}

impl<T: SharedContent> SharedSlice<T> {
    /// Maps this many values, all zero. There must be at least one, and their size must fit into a
    /// `usize`.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        // Every supported system has pages of 4 KiB or more.
        const { assert!(align_of::<T>() <= 4096, "a mapping is aligned to a page") };

        let bytes = size_of::<T>() * len;
        // SAFETY: without a hint the kernel chooses addresses that nothing uses.
        let mapping = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )
        };
        let mapping = mapping.map_err(failed(format_args!(
            "mapping {bytes} bytes of shared memory (mmap)"
        )))?;
        Ok(Self {
            mapping: NonNull::new(mapping).expect("mmap returns an error, not null"),
            len,
            content: std::marker::PhantomData,
        })
    }
}

impl<T: SharedContent> Deref for SharedSlice<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        let start = self.mapping.cast().as_ptr();
        // SAFETY: by the invariant the mapping lasts as long as `self`. By `SharedContent` its
        // content is valid from the start, and others may change it at any time.
        unsafe { slice::from_raw_parts(start, self.len) }
    }
}

impl<T: SharedContent> Drop for SharedSlice<T> {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping that `new` has made, and by `&mut self` nothing borrows
        // it.
        let unmapped = unsafe { munmap(self.mapping.as_ptr(), size_of::<T>() * self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping: {unmapped:?}");
    }
}

// SAFETY: a mapping belongs to the process, not to a thread, and its content is `Send`.
unsafe impl<T: SharedContent> Send for SharedSlice<T> {}

// SAFETY: `&SharedSlice` only gives `&[T]`, and its content is `Sync`.
unsafe impl<T: SharedContent> Sync for SharedSlice<T> {}

impl<T: SharedContent + fmt::Debug> fmt::Debug for SharedSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::Ordering::Relaxed, thread};

    use super::*;

    #[test]
    fn memory_is_zero_at_first() {
        let words = SharedSlice::<AtomicU32>::new(3000).unwrap();
        assert_eq!(words.len(), 3000);
        assert!(words.iter().all(|word| word.load(Relaxed) == 0));
    }

    #[test]
    fn one_thread_loads_what_another_stored() {
        let words = SharedSlice::<AtomicU32>::new(2).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| words[1].store(7, Relaxed));
        });
        assert_eq!(words[1].load(Relaxed), 7);
        assert_eq!(words[0].load(Relaxed), 0);
    }

    #[test]
    fn debug_shows_the_values() {
        let words = SharedSlice::<AtomicU32>::new(2).unwrap();
        words[1].store(7, Relaxed);
        assert_eq!(format!("{words:?}"), "[0, 7]");
    }

    #[test]
    fn the_kernel_refuses_an_empty_mapping() {
        let error = SharedSlice::<AtomicU32>::new(0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let message = error.to_string();
        let expected = "mapping 0 bytes of shared memory (mmap) failed: ";
        assert!(message.starts_with(expected), "{message}");
    }
}
