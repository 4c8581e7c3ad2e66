//! A service manager's store of descriptors, as systemd has it (`FileDescriptorStoreMax=`). The
//! service manager keeps them open while the service restarts, and passes them to the next start.
//!
//! systemd sends no answer. If its store is full, it closes the descriptors that it gets, and logs
//! that.

use std::env;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixDatagram;

use evcore_prefork::close_stored_mailboxes;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// Maximum number of descriptors of a message, Linux's limit (`SCM_MAX_FD`).
const DESCRIPTORS_MAX: usize = 253;

/// Returns whether the service manager has a store for this service. systemd sets the variable from
/// version 254 on.
pub(crate) fn exists() -> bool {
    let max = env::var("FDSTORE").ok();
    let max = max.and_then(|max| max.parse::<u64>().ok());
    max.is_some_and(|max| max > 0) && env::var_os("NOTIFY_SOCKET").is_some()
}

/// Makes the store keep these descriptors under a name, in place of those that it has under that
/// name.
///
/// # Errors
///
/// The errors of the socket. Some of the descriptors may be in the store nevertheless.
pub(crate) fn replace(name: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else {
        return Ok(());
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    socket.send(format!("FDSTOREREMOVE=1\nFDNAME={name}\n").as_bytes())?;
    for some in descriptors.chunks(DESCRIPTORS_MAX) {
        send(&socket, &format!("FDSTORE=1\nFDNAME={name}\n"), some)?;
    }
    Ok(())
}

/// Closes the mailboxes that the store has kept since the last run, here and in the store.
///
/// # Errors
///
/// The errors of [`replace`].
pub(crate) fn close_mailboxes() -> io::Result<()> {
    let names = close_stored_mailboxes();
    names.iter().try_for_each(|name| replace(name, &[]))
}

fn send(socket: &UnixDatagram, text: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
    assert!(fits, "a message has at most {DESCRIPTORS_MAX} descriptors");
    let text = [IoSlice::new(text.as_bytes())];
    sendmsg(socket, &text, &mut control, SendFlags::empty())?;
    Ok(())
}
