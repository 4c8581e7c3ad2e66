//! How the kernel is asked for a thread's CPUs, and told of them.
//!
//! A set is a row of bits, and the kernel's own is as long as it was built and booted for. Types of
//! a fixed size end at CPU 1,023; these grow until the kernel has room.

#![allow(
    unsafe_code,
    reason = "sched_getaffinity and sched_setaffinity, with sets of any length"
)]

use std::{ffi::c_ulong, io};

use crate::{Cpus, Error, Result};

/// The unit of a set.
type Word = c_ulong;

const WORD_BITS: usize = Word::BITS as usize;

/// Where the asking begins: enough for nearly all machines.
const CPUS_AT_FIRST: usize = 1024;

/// Where it ends: more than any kernel can be built for.
const CPUS_MOST: usize = 1 << 16;

/// The CPUs that this thread may use.
pub(crate) fn allowed() -> Result<Cpus> {
    grow_until_told(get).map_err(Error::os(
        "reading the CPUs that this process may use (sched_getaffinity)",
    ))
}

/// Keeps this thread, and the threads that it starts, on these CPUs.
pub(crate) fn stay(cpus: &Cpus) -> Result<()> {
    set_of(cpus).and_then(|set| put(&set)).map_err(Error::os(
        "tying this thread to its CPUs (sched_setaffinity)",
    ))
}

/// Asks with longer and longer sets, until the kernel's fits.
fn grow_until_told(mut ask: impl FnMut(&mut [Word]) -> io::Result<()>) -> io::Result<Cpus> {
    let mut cpus = CPUS_AT_FIRST;
    loop {
        let mut set = vec![0; cpus / WORD_BITS];
        match ask(&mut set) {
            Ok(()) => return Ok(numbers(&set)),
            Err(error) if is_too_short(&error) && cpus < CPUS_MOST => cpus *= 2,
            Err(error) => return Err(error),
        }
    }
}

/// Linux says EINVAL of a set that has not room for its own, FreeBSD ERANGE.
fn is_too_short(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ERANGE))
}

fn numbers(set: &[Word]) -> Cpus {
    let is_set = |cpu: &usize| set[cpu / WORD_BITS] >> (cpu % WORD_BITS) & 1 == 1;
    (0..set.len() * WORD_BITS).filter(is_set).collect()
}

fn set_of(cpus: &Cpus) -> io::Result<Vec<Word>> {
    let room = cpus.iter().last().map_or(0, |last| last.saturating_add(1));
    if room > CPUS_MOST {
        let message = format!("no machine has {room} CPUs");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let mut set = vec![0; room.max(CPUS_AT_FIRST).div_ceil(WORD_BITS)];
    for cpu in cpus.iter() {
        set[cpu / WORD_BITS] |= 1 << (cpu % WORD_BITS);
    }
    Ok(set)
}

fn get(set: &mut [Word]) -> io::Result<()> {
    // SAFETY: the kernel writes at most the bytes of the set, whose size it is told, and the C
    // library clears what is left of them; 0 is this thread.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(set), set.as_mut_ptr().cast()) };
    result_of(result)
}

fn put(set: &[Word]) -> io::Result<()> {
    // SAFETY: the kernel reads at most the bytes of the set, whose size it is told; 0 is this
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

    /// A kernel that was built for so many CPUs, of which the thread may use one.
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
    fn a_set_grows_until_the_kernels_fits() {
        for (built_for, allowed) in [(64, 0), (1024, 1023), (1025, 1024), (8192, 5000)] {
            let told = grow_until_told(kernel(built_for, allowed)).unwrap();
            assert_eq!(told, Cpus::from_iter([allowed]));
        }
    }

    #[test]
    fn the_growing_has_an_end() {
        let mut asked = 0;
        let refusal = grow_until_told(|_| {
            asked += 1;
            Err(io::Error::from_raw_os_error(libc::EINVAL))
        });
        assert_eq!(refusal.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(asked, 7, "1,024 doubled six times");
    }

    #[test]
    fn another_error_ends_it_at_once() {
        let refusal = grow_until_told(|_| Err(io::Error::from_raw_os_error(libc::EPERM)));
        assert_eq!(refusal.unwrap_err().raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn a_set_is_read_as_it_was_written() {
        let cpus = Cpus::from_iter([0, 63, 64, 1023, 1024, 65_535]);
        assert_eq!(numbers(&set_of(&cpus).unwrap()), cpus);
    }

    #[test]
    fn a_number_beyond_all_machines_takes_no_memory() {
        for far in [65_536, usize::MAX] {
            let refusal = set_of(&Cpus::from_iter([far])).unwrap_err();
            assert_eq!(refusal.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
