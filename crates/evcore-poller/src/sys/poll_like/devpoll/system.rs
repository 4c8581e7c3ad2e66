//! The system calls of the `/dev/poll` backend.

#![allow(unsafe_code, reason = "the device's calls are made through libc")]

use std::{
    ffi::c_int,
    fs::OpenOptions,
    mem::size_of_val,
    os::fd::{AsRawFd, OwnedFd, RawFd},
};

use rustix::io::Errno;

use super::Sys;
use crate::{
    error::{Error, Result},
    sys::{errno, raw_fd},
};

#[derive(Debug)]
pub(in crate::sys) struct System {
    device: OwnedFd,
}

impl System {
    pub(in crate::sys) fn open() -> Result<Self> {
        // The standard library opens files with O_CLOEXEC.
        let opened = OpenOptions::new().read(true).write(true).open("/dev/poll");
        let device = opened.map_err(|source| Error::Os {
            call: "open(/dev/poll)",
            source,
        })?;
        Ok(Self {
            device: device.into(),
        })
    }
}

/// The kernel's `struct dvpoll`. (illumos has one more member, which `DP_POLL` does not read.)
#[repr(C)]
struct List {
    entries: *mut libc::pollfd,
    count: libc::nfds_t,
    timeout: c_int,
}

/// `DP_POLL`, which the `libc` crate does not have.
const POLL: c_int = (0xd0 << 8) | 1;

impl Sys for System {
    fn is_open(&self, fd: RawFd) -> Result<(), Errno> {
        raw_fd::is_open(fd)
    }

    fn write(&mut self, changes: &[libc::pollfd]) -> Result<(), Errno> {
        let size = size_of_val(changes);
        // SAFETY: the kernel reads the entries of `changes`, which have no padding, and is given
        // their size in bytes. If a descriptor was closed since it was registered, the kernel
        // watches nothing, or the file that has its number now. Watching the wrong file touches no
        // memory.
        let written =
            unsafe { libc::write(self.device.as_raw_fd(), changes.as_ptr().cast(), size) };
        match usize::try_from(written) {
            Ok(written) if written == size => Ok(()),
            // The device writes everything or fails.
            Ok(_) => Err(Errno::IO),
            Err(_) => Err(errno::last()),
        }
    }

    fn poll(&mut self, list: &mut [libc::pollfd], timeout: c_int) -> Result<usize, Errno> {
        let mut argument = List {
            entries: list.as_mut_ptr(),
            count: libc::nfds_t::try_from(list.len()).unwrap_or(libc::nfds_t::MAX),
            timeout,
        };
        // SAFETY: the argument outlives the call. It has the layout of the kernel's structure, and
        // points to `count` entries, to which the kernel writes.
        let found = unsafe { libc::ioctl(self.device.as_raw_fd(), POLL, &raw mut argument) };
        usize::try_from(found).map_err(|_| errno::last())
    }
}
