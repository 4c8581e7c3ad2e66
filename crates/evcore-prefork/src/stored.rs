//! The names of descriptors that a service manager keeps while the service restarts, as systemd
//! does in its file descriptor store.

use std::{
    collections::BTreeMap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use crate::slot::WORKERS_MAX;

/// The name under which a service manager keeps the listeners of the server. [`stored_listeners`]
/// takes them at the next start.
///
/// [`stored_listeners`]: crate::stored_listeners
pub const STORED_LISTENER: &str = "evcore-listener";

/// The names of the two ends of a mailbox, indexed by the `end` of [`Purpose::Mailbox`].
const ENDS: [&str; 2] = ["sending", "receiving"];

/// The purpose of a descriptor that a service manager passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A socket unit has opened it, or its name is not one of this file's.
    Activated,
    Listener,
    /// An end of the mailbox of this index: 0 sends, 1 receives.
    Mailbox {
        index: usize,
        end: usize,
    },
}

impl Purpose {
    pub(crate) fn of(name: &str) -> Self {
        if name == STORED_LISTENER {
            return Self::Listener;
        }
        let index = name.strip_prefix("evcore-mailbox-");
        let parts = index.and_then(|rest| rest.split_once('-'));
        let Some((number, end)) = parts else {
            return Self::Activated;
        };
        let (index, end) = (number.parse(), ENDS.iter().position(|name| *name == end));
        match (index, end) {
            // The name must be the one that `mailbox_name` makes, because "+1" and "01" are also
            // parsed as 1.
            (Ok(index), Some(end)) if index < WORKERS_MAX && mailbox_name(index, end) == name => {
                Self::Mailbox { index, end }
            }
            _ => Self::Activated,
        }
    }
}

fn mailbox_name(index: usize, end: usize) -> String {
    format!("evcore-mailbox-{index}-{}", ENDS[end])
}

/// The ends of mailboxes that a service manager has kept, by index.
#[derive(Debug, Default)]
pub(crate) struct StoredMailboxes(BTreeMap<usize, [Option<OwnedFd>; 2]>);

impl StoredMailboxes {
    /// Adds an end. A second descriptor of the same name is closed.
    pub(crate) fn add(&mut self, index: usize, end: usize, descriptor: OwnedFd) {
        let ends = self.0.entry(index).or_default();
        ends[end].get_or_insert(descriptor);
    }

    /// The names of all ends.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = |(index, ends): (&usize, &[Option<OwnedFd>; 2])| {
            let index = *index;
            let kept = ends.each_ref().map(Option::is_some);
            [0, 1]
                .into_iter()
                .filter(move |end| kept[*end])
                .map(move |end| mailbox_name(index, end))
        };
        self.0.iter().flat_map(names).collect()
    }

    /// The ends of the mailbox of each index up to the last one; `None` if an end is missing.
    pub(crate) fn into_pairs(mut self) -> Vec<Option<[OwnedFd; 2]>> {
        let count = self.0.last_key_value().map_or(0, |(last, _)| last + 1);
        let pair = |index| match self.0.remove(&index) {
            Some([Some(sending), Some(receiving)]) => Some([sending, receiving]),
            _ => None,
        };
        (0..count).map(pair).collect()
    }
}

/// The function that has a service manager keep a descriptor under a name.
pub(crate) type Keep<'a> = Box<dyn FnMut(&str, BorrowedFd<'_>) + 'a>;

pub(crate) fn keep_mailbox(keep: &mut Keep<'_>, index: usize, ends: [&OwnedFd; 2]) {
    for (end, descriptor) in ends.into_iter().enumerate() {
        keep(&mailbox_name(index, end), descriptor.as_fd());
    }
}

#[cfg(test)]
mod tests {
    use std::{io, os::unix::net::UnixStream};

    use super::*;

    #[test]
    fn a_name_of_ours_is_read_as_it_was_made() {
        assert_eq!(Purpose::of(STORED_LISTENER), Purpose::Listener);
        for index in [0, 7, 1023] {
            for end in [0, 1] {
                let name = mailbox_name(index, end);
                // The limits of systemd for a name.
                assert!(name.len() <= 255 && name.bytes().all(|byte| byte.is_ascii_graphic()));
                assert!(!name.contains(':'));
                assert_eq!(Purpose::of(&name), Purpose::Mailbox { index, end });
            }
        }
    }

    #[test]
    fn any_other_name_is_that_of_a_socket_unit() {
        let long = format!("evcore-mailbox-{}-sending", "9".repeat(300));
        let names = [
            "",
            "stored",
            "unknown",
            "httpd.socket",
            "evcore-listener2",
            "evcore-listene",
            "evcore-mailbox-",
            "evcore-mailbox--sending",
            "evcore-mailbox-1",
            "evcore-mailbox-1-",
            "evcore-mailbox-1-send",
            "evcore-mailbox-1-sending-",
            "evcore-mailbox-1-Sending",
            "evcore-mailbox-+1-sending",
            "evcore-mailbox-01-sending",
            "evcore-mailbox--1-sending",
            "evcore-mailbox-1024-sending",
            "evcore-mailbox-1é-sending",
            &long,
        ];
        for name in names {
            assert_eq!(Purpose::of(name), Purpose::Activated, "{name:?}");
        }
    }

    #[test]
    fn a_mailbox_without_one_of_its_ends_is_left_out() -> io::Result<()> {
        let mut mailboxes = StoredMailboxes::default();
        for (index, end) in [(2, 1), (2, 0), (2, 0), (0, 1), (3, 0)] {
            mailboxes.add(index, end, UnixStream::pair()?.0.into());
        }
        let pairs = mailboxes.into_pairs();
        let complete: Vec<_> = pairs.iter().map(Option::is_some).collect();
        assert_eq!(complete, [false, false, true, false]);
        Ok(())
    }
}
