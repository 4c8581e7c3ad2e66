//! The calls of event ports.
//!
//! rustix has them too, but it returns neither the source of an event nor the events that a failed
//! call took.

#![allow(unsafe_code, reason = "the port's calls are made through libc")]

use std::{
    ffi::c_int,
    mem::{align_of, offset_of, size_of},
    os::fd::{AsRawFd, OwnedFd, RawFd},
    ptr,
    time::Duration,
};

use rustix::{
    event::port,
    io::{Errno, FdFlags, fcntl_setfd},
};

use super::{PortEvent, SOURCE_FD, Sys};
use crate::{
    error::{Error, Result},
    sys::errno,
};

#[derive(Debug)]
pub(in crate::sys) struct System {
    port: OwnedFd,
}

impl System {
    pub(in crate::sys) fn open() -> Result<Self> {
        let port = port::create().map_err(Error::os("port_create"))?;
        fcntl_setfd(&port, FdFlags::CLOEXEC).map_err(Error::os("fcntl(F_SETFD)"))?;
        Ok(Self { port })
    }
}

impl Sys for System {
    fn associate(&mut self, fd: RawFd, flags: c_int) -> Result<(), Errno> {
        let (port, object) = (self.port.as_raw_fd(), object(fd)?);
        // SAFETY: the call gets only numbers. The cookie is null and never followed.
        let result = unsafe {
            libc::port_associate(port, libc::PORT_SOURCE_FD, object, flags, ptr::null_mut())
        };
        check(result)
    }

    fn dissociate(&mut self, fd: RawFd) -> Result<(), Errno> {
        let (port, object) = (self.port.as_raw_fd(), object(fd)?);
        // SAFETY: the call gets only numbers.
        let result = unsafe { libc::port_dissociate(port, libc::PORT_SOURCE_FD, object) };
        check(result)
    }

    fn getn(
        &mut self,
        list: &mut [PortEvent],
        count: &mut u32,
        timeout: Option<Duration>,
    ) -> Result<(), Errno> {
        let mut timeout = timeout.map(timespec);
        // SAFETY: the list has as many entries as the call is given, in the kernel's own layout
        // (checked below), for which all bits are valid. `count` and `timeout` outlive the call.
        let result = unsafe {
            libc::port_getn(
                self.port.as_raw_fd(),
                list.as_mut_ptr().cast::<libc::port_event>(),
                u32::try_from(list.len()).unwrap_or(u32::MAX),
                count,
                timeout.as_mut().map_or(ptr::null_mut(), ptr::from_mut),
            )
        };
        check(result)
    }
}

fn object(fd: RawFd) -> Result<libc::uintptr_t, Errno> {
    libc::uintptr_t::try_from(fd).map_err(|_| Errno::BADFD)
}

fn check(result: c_int) -> Result<(), Errno> {
    if result == -1 {
        return Err(errno::last());
    }
    Ok(())
}

/// Converts a timeout of at most a few weeks.
fn timespec(timeout: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).expect("weeks of seconds fit everywhere"),
        tv_nsec: libc::c_long::try_from(timeout.subsec_nanos()).expect("below 10^9"),
    }
}

const _: () = {
    use libc::port_event as Theirs;
    assert!(size_of::<PortEvent>() == size_of::<Theirs>());
    assert!(align_of::<PortEvent>() == align_of::<Theirs>());
    assert!(offset_of!(PortEvent, events) == offset_of!(Theirs, portev_events));
    assert!(offset_of!(PortEvent, source) == offset_of!(Theirs, portev_source));
    assert!(offset_of!(PortEvent, object) == offset_of!(Theirs, portev_object));
    assert!(offset_of!(PortEvent, user) == offset_of!(Theirs, portev_user));
    assert!(SOURCE_FD as c_int == libc::PORT_SOURCE_FD);
};
