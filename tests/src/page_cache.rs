//! The pages of a file that are in memory (Linux 6.5 and later).

#![allow(unsafe_code, reason = "libc has no function for this call")]

use std::{fs::File, os::fd::AsRawFd};

/// The system call number of `cachestat` on most architectures. On the others, the call fails.
const CACHESTAT: libc::c_long = 451;

/// The number of a file's pages that are in memory; `None` if the kernel does not report it.
///
/// A read with `RWF_NOWAIT` is not enough: it checks only some pages, and makes the kernel read
/// ahead.
#[must_use]
pub fn pages_in_memory(file: &File) -> Option<u64> {
    let whole = [0_u64; 2];
    let mut found = [0_u64; 5];
    // SAFETY: the kernel reads an offset and a length, and writes five numbers. Both arrays are
    // that long.
    let result = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_raw_fd(),
            whole.as_ptr(),
            found.as_mut_ptr(),
            0,
        )
    };
    (result == 0).then_some(found[0])
}
