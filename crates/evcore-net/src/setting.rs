//! Checks whether a socket that is being made supports its options, and sets them.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;

use crate::address::Address;
use crate::error::Error;
use crate::socket_option::{MULTIPATH, SocketOption, Value};
use crate::sys;

pub(crate) type Setting<'a> = (&'static SocketOption, Option<Value<'a>>);

/// Refuses an option that this system or a socket of this address does not have. Makes no system
/// call.
pub(crate) fn refuse_unsupported(
    settings: [&[Setting<'_>]; 2],
    address: &Address,
) -> Result<(), Error> {
    // Most options are not set, and need no look-up.
    let set = settings
        .into_iter()
        .flatten()
        .filter(|(_, value)| value.is_some());
    for (option, _) in set {
        if let Some(place) = option.missing_place(address) {
            return Err(unsupported(option, address, place));
        }
    }
    Ok(())
}

/// Makes a TCP socket with these options. `failed` makes the error if the socket cannot be created.
pub(crate) fn tcp_socket(
    settings: [&[Setting<'_>]; 2],
    address: &Address,
    tcp: &SocketAddr,
    failed: impl FnOnce(Errno) -> Error,
) -> Result<OwnedFd, Error> {
    let settings = || settings.into_iter().flatten();
    let is_multipath =
        settings().any(|(option, value)| value.is_some() && option.name == MULTIPATH.name);
    let fd = sys::tcp_socket(tcp, is_multipath).map_err(|errno| match errno {
        // The protocol is switched off (NOPROTOOPT), or the kernel was built without it.
        Errno::NOPROTOOPT | Errno::PROTONOSUPPORT if is_multipath => {
            unsupported(&MULTIPATH, address, "unless net.mptcp.enabled is 1 (Linux)")
        }
        errno => failed(errno),
    })?;
    for (option, value) in settings() {
        if let Some(value) = value {
            let set = option.set(&fd, *value);
            set.map_err(|errno| refused_by_system(option, address, errno))?;
        }
    }
    Ok(fd)
}

fn refused_by_system(option: &SocketOption, address: &Address, errno: Errno) -> Error {
    match errno {
        // Some kernels have an option only for other kinds of sockets.
        Errno::NOPROTOOPT | Errno::OPNOTSUPP | Errno::PROTONOSUPPORT => {
            unsupported(option, address, "for such a socket on this system")
        }
        errno => Error::Option {
            address: address.clone(),
            option: option.name,
            source: errno.into(),
        },
    }
}

fn unsupported(option: &SocketOption, address: &Address, place: &'static str) -> Error {
    Error::Unsupported {
        address: address.clone(),
        option: option.name,
        place,
    }
}

/// The value of a switch that is on; `None` if it is off, so that it is not refused on a system
/// without the option.
pub(crate) fn if_on<'a>(is_on: bool) -> Option<Value<'a>> {
    is_on.then_some(Value::Number(1))
}

/// A number, limited to the range of the kernel's type, in which a higher number would be negative.
pub(crate) fn number<'a>(number: u32) -> Value<'a> {
    Value::Number(as_c_int(number))
}

/// A duration in whole units of `unit`, rounded up; `None` if it is zero.
pub(crate) fn whole<'a>(duration: Duration, unit: Duration) -> Option<Value<'a>> {
    let units = duration.as_nanos().div_ceil(unit.as_nanos());
    let units = i32::try_from(units).unwrap_or(i32::MAX);
    (units > 0).then_some(Value::Number(units))
}

pub(crate) fn as_c_int(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
