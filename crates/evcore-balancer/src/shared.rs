//! Memory that a process shares with the children it forks.
//!
//! The kernel's anonymous shared mapping: all zeros at first, inherited across `fork`, gone at
//! `exec` and with the last process that has it. Or a mapping of a file in memory, which is gone
//! with the last descriptor of it. Neither has a name, so nothing is left behind after a crash.
//!
//! This is the only file of the crate that has unsafe code.

#![allow(unsafe_code, reason = "mmap and munmap, and the slice between them")]

use std::{ffi::c_void, fmt, io, ops::Deref, os::fd::OwnedFd, ptr, ptr::NonNull, slice};

use rustix::{
    io::Errno,
    mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap},
};

use crate::{
    SeatWords,
    cells::Cells,
    header::{HEADER_BYTES, Header, Kind},
    memory_file,
    refusal::refused,
    sheet::Words,
    sync::{AtomicU32, SharedU32},
};

/// A slice of `T` in memory shared across `fork`; unmapped from this process when dropped.
pub(crate) struct Shared<T: SharedContent> {
    // Invariant: `mapping` is the beginning of a mapping of `mapped_bytes`, which only `drop` ends.
    mapping: NonNull<c_void>,
    mapped_bytes: usize,
    // Invariant: `start` and `len` values from there lie in the mapping.
    start: NonNull<T>,
    len: usize,
    /// What to find it by after `exec`.
    file: Option<OwnedFd>,
}

/// What may live in memory that other processes write at any time.
///
/// # Safety
///
/// Every field is an atomic (so that access from anywhere is no data race), all bytes zero is a
/// valid value, and there is nothing to drop.
pub(crate) unsafe trait SharedContent: Send + Sync {}

// SAFETY: an atomic integer; zero is a number.
unsafe impl SharedContent for AtomicU32 {}

// SAFETY: atomic integers and nothing else; zero is a number.
unsafe impl SharedContent for Cells {}

// SAFETY: atomic integers and nothing else; zero is a number.
unsafe impl<const N: usize> SharedContent for Words<N> {}

// SAFETY: atomic integers and nothing else; zero is a number.
unsafe impl SharedContent for SeatWords<SharedU32> {}

// SAFETY: an atomic integer and nothing else; zero is a number.
#[cfg(evcore_planted)]
unsafe impl SharedContent for SharedU32 {}

impl<T: SharedContent> Shared<T> {
    /// Maps `len` values, all zero. `len` must be at least one, and `len` values fit in memory.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        // Every system we know has pages of 4 KiB or more.
        const { assert!(align_of::<T>() <= 4096, "a mapping is aligned to a page") };

        let mapped_bytes = size_of::<T>() * len;
        // SAFETY: without a hint the kernel chooses addresses that nothing uses.
        let mapping = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                mapped_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )
        };
        let mapping = mapping.map_err(not_mapped(mapped_bytes))?;
        let mapping = NonNull::new(mapping).expect("mmap answers with an error, not with null");
        Ok(Self {
            mapping,
            mapped_bytes,
            start: mapping.cast(),
            len,
            file: None,
        })
    }

    /// Maps `len` values, all zero, of a file that a program can inherit. `len` as in
    /// [`new`](Self::new).
    pub(crate) fn inheritable(kind: Kind, len: usize) -> io::Result<Self> {
        let header = Header {
            kind,
            item_bytes: size_of::<T>(),
            items: len,
        };
        Self::map(memory_file::create(header)?, header)
    }

    /// Maps what another program has made by [`inheritable`](Self::inheritable).
    pub(crate) fn inherit(file: OwnedFd, kind: Kind) -> io::Result<Self> {
        let header = memory_file::check(&file, kind, size_of::<T>())?;
        Self::map(file, header)
    }

    /// The file that the values are in, if they are in one.
    pub(crate) fn file(&self) -> Option<&OwnedFd> {
        self.file.as_ref()
    }

    /// Maps a file of this header and size.
    fn map(file: OwnedFd, header: Header) -> io::Result<Self> {
        const { assert!(align_of::<T>() <= HEADER_BYTES, "values follow the header") };

        let mapped_bytes = header.file_bytes();
        // SAFETY: without a hint the kernel chooses addresses that nothing uses.
        let mapping = unsafe {
            mmap(
                ptr::null_mut(),
                mapped_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        };
        let mapping = mapping.map_err(not_mapped(mapped_bytes))?;
        let mapping = NonNull::new(mapping).expect("mmap answers with an error, not with null");
        // SAFETY: the header is in the mapping, whose size is that of header and values.
        let start = unsafe { mapping.byte_add(HEADER_BYTES) };
        Ok(Self {
            mapping,
            mapped_bytes,
            start: start.cast(),
            len: header.items,
            file: Some(file),
        })
    }
}

fn not_mapped(bytes: usize) -> impl FnOnce(Errno) -> io::Error {
    refused(format!("mapping {bytes} bytes of shared memory (mmap)"))
}

impl<T: SharedContent> Deref for Shared<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: by the invariant the mapping is there as long as `self` is; by `SharedContent`
        // what it holds is valid from the start and may be changed by others at any time.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: SharedContent> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the whole of our own mapping, which by `&mut self` nobody borrows any more.
        let unmapped = unsafe { munmap(self.mapping.as_ptr(), self.mapped_bytes) };
        debug_assert!(unmapped.is_ok(), "munmap of our own mapping: {unmapped:?}");
    }
}

// SAFETY: a mapping belongs to the process, not to a thread, and its content is `Send`.
unsafe impl<T: SharedContent> Send for Shared<T> {}

// SAFETY: `&Shared` gives `&[T]` and no more, and its content is `Sync`.
unsafe impl<T: SharedContent> Sync for Shared<T> {}

impl<T: SharedContent + fmt::Debug> fmt::Debug for Shared<T> {
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
        let words = Shared::<AtomicU32>::new(3000).unwrap();
        assert_eq!(words.len(), 3000);
        assert!(words.iter().all(|word| word.load(Relaxed) == 0));
    }

    #[test]
    fn what_one_thread_stores_another_loads() {
        let words = Shared::<AtomicU32>::new(2).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| words[1].store(7, Relaxed));
        });
        assert_eq!(words[1].load(Relaxed), 7);
        assert_eq!(words[0].load(Relaxed), 0);
    }

    #[test]
    fn the_kernel_refuses_an_empty_mapping() {
        let error = Shared::<AtomicU32>::new(0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(
            error
                .to_string()
                .starts_with("mapping 0 bytes of shared memory (mmap) failed: ")
        );
    }
}
