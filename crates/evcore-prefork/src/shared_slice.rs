//! Memory that a process shares with its child processes: an anonymous shared mapping, all zero at
//! first.

#![allow(unsafe_code, reason = "mmap, and the slice over the mapping")]

use std::{
    io, ptr, slice,
    sync::atomic::{AtomicU8, AtomicU32},
};

#[cfg(target_os = "linux")]
use crate::store_place::StorePlace;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// A type that other processes may write at any time.
///
/// # Safety
///
/// Each of its fields is an atomic, and all bytes zero is a valid value.
pub(crate) unsafe trait Shared: Sync + 'static {}

// SAFETY: an atomic integer; zero is a valid number.
unsafe impl Shared for AtomicU32 {}

// SAFETY: atomic integers and nothing else; zero is a valid number.
#[cfg(target_os = "linux")]
unsafe impl Shared for StorePlace {}

// SAFETY: an atomic integer; zero is a valid number.
unsafe impl Shared for AtomicU8 {}

/// Maps this many values, which must be at least one, for the rest of the process's life. A page
/// takes memory once it is read or written.
pub(crate) fn shared_slice<T: Shared>(len: usize) -> io::Result<&'static [T]> {
    const { assert!(align_of::<T>() <= 4096, "a mapping is aligned to a page") };
    // On Linux the memory is not reserved, because most of it may never be written.
    #[cfg(target_os = "linux")]
    let flags = MapFlags::SHARED | MapFlags::NORESERVE;
    #[cfg(not(target_os = "linux"))]
    let flags = MapFlags::SHARED;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: without a hint the kernel chooses addresses that nothing uses.
    let mapping = unsafe { mmap_anonymous(ptr::null_mut(), size_of::<T>() * len, access, flags) }?;
    // SAFETY: nothing unmaps it, it has room for `len` values, and by `Shared` its content is valid
    // from the start and may change at any time.
    Ok(unsafe { slice::from_raw_parts(mapping.cast(), len) })
}
