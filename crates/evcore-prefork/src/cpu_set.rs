//! Reading and setting the CPUs of a thread.
//!
//! A set is an array of bits. The length of the kernel's own set depends on how the kernel was
//! built and booted. The C library's types end at CPU 1,023, so the arrays here grow until the
//! kernel's set fits.

#![allow(
    unsafe_code,
    reason = "sched_getaffinity and sched_setaffinity, with sets of any length"
)]

use std::{ffi::c_ulong, io};

use crate::error::{Error, Result};

type Word = c_ulong;

const WORD_BITS: usize = Word::BITS as usize;

/// The number of CPUs of the first attempt, which is enough for nearly all machines.
const CPUS_FIRST: usize = 1024;

/// The number of CPUs of the last attempt.
const CPUS_MAX: usize = 1 << 16;

pub(crate) fn allowed() -> Result<Vec<usize>> {
    grow_until_it_fits(get_affinity).map_err(Error::os(
        "reading the CPUs that this process may use (sched_getaffinity)",
    ))
}

/// Runs this thread, and the threads that it starts, on these CPUs. The numbers must ascend.
pub(crate) fn pin(cpus: &[usize]) -> Result<()> {
    set_of(cpus)
        .and_then(|set| set_affinity(&set))
        .map_err(Error::os(
            "pinning this thread to its CPUs (sched_setaffinity)",
        ))
}

fn grow_until_it_fits(
    mut read: impl FnMut(&mut [Word]) -> io::Result<()>,
) -> io::Result<Vec<usize>> {
    let mut cpus = CPUS_FIRST;
    loop {
        let mut set = vec![0; cpus / WORD_BITS];
        match read(&mut set) {
            Ok(()) => return Ok(numbers(&set)),
            Err(error) if is_too_short(&error) && cpus < CPUS_MAX => cpus *= 2,
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether the error means that the kernel's set is longer than the array: EINVAL on Linux,
/// and ERANGE on FreeBSD.
fn is_too_short(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ERANGE))
}

fn numbers(set: &[Word]) -> Vec<usize> {
    let is_set = |cpu: &usize| set[cpu / WORD_BITS] >> (cpu % WORD_BITS) & 1 == 1;
    (0..set.len() * WORD_BITS).filter(is_set).collect()
}

fn set_of(cpus: &[usize]) -> io::Result<Vec<Word>> {
    let length = cpus.last().map_or(0, |last| last.saturating_add(1));
    if length > CPUS_MAX {
        let message = format!("no machine has {length} CPUs");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let mut set = vec![0; length.max(CPUS_FIRST).div_ceil(WORD_BITS)];
    for cpu in cpus {
        set[cpu / WORD_BITS] |= 1 << (cpu % WORD_BITS);
    }
    Ok(set)
}

fn get_affinity(set: &mut [Word]) -> io::Result<()> {
    // SAFETY: the kernel writes at most the bytes of the set, whose size is passed. The C library
    // clears the rest of the set. 0 is this thread.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(set), set.as_mut_ptr().cast()) };
    result_of(result)
}

fn set_affinity(set: &[Word]) -> io::Result<()> {
    // SAFETY: the kernel reads at most the bytes of the set, whose size is passed. 0 is this
    // thread.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(set), set.as_ptr().cast()) };
    result_of(result)
}

fn result_of(result: i32) -> io::Result<()> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that was built for this many CPUs, of which the thread may use one.
    fn kernel(built_for: usize, allowed: usize) -> impl FnMut(&mut [Word]) -> io::Result<()> {
        move |set| {
            if set.len() * WORD_BITS < built_for {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            set[allowed / WORD_BITS] |= 1 << (allowed % WORD_BITS);
            Ok(())
        }
    }

    #[test]
    fn a_set_grows_until_the_kernels_set_fits() {
        for (built_for, allowed) in [(64, 0), (1024, 1023), (1025, 1024), (8192, 5000)] {
            let read = grow_until_it_fits(kernel(built_for, allowed)).unwrap();
            assert_eq!(read, [allowed]);
        }
    }

    #[test]
    fn a_set_stops_growing_at_the_maximum() {
        let mut calls = 0;
        let refusal = grow_until_it_fits(|_| {
            calls += 1;
            Err(io::Error::from_raw_os_error(libc::EINVAL))
        });
        assert_eq!(refusal.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(calls, 7, "1,024 doubled six times");
    }

    #[test]
    fn another_error_is_returned_at_once() {
        let refusal = grow_until_it_fits(|_| Err(io::Error::from_raw_os_error(libc::EPERM)));
        assert_eq!(refusal.unwrap_err().raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn a_set_is_read_as_it_was_written() {
        let cpus = [0, 63, 64, 1023, 1024, 65_535];
        assert_eq!(numbers(&set_of(&cpus).unwrap()), cpus);
    }

    #[test]
    fn a_huge_cpu_number_allocates_nothing() {
        for far in [65_536, usize::MAX] {
            let refusal = set_of(&[far]).unwrap_err();
            assert_eq!(refusal.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
