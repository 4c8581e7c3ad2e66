//! Connections that wait in a mailbox for the next start of the service.
//!
//! A service manager keeps the mailbox open, and no process reads it meanwhile. So no answer comes,
//! and a connection belongs to the next start as soon as it is sent.

use std::os::fd::OwnedFd;

use evcore_handover::{Connection, Descriptor, Result, Sender};

#[derive(Debug)]
pub(crate) struct Deposit<D = OwnedFd> {
    version: u32,
    /// `None` before the first channel, and after a channel was full.
    channel: Option<Sender<D>>,
}

impl<D: Descriptor> Deposit<D> {
    pub(crate) fn new(version: u32) -> Self {
        Self {
            version,
            channel: None,
        }
    }

    /// Puts connections into the mailbox, in this order, and removes them from `connections`.
    ///
    /// # Errors
    ///
    /// The errors of [`Sender::open`] and [`Sender::send`]. `connections` keeps those that were not
    /// sent.
    pub(crate) fn put(
        &mut self,
        mailbox: D::Borrowed<'_>,
        connections: &mut Vec<Connection<D>>,
    ) -> Result<()> {
        while !connections.is_empty() {
            let channel = match &mut self.channel {
                Some(channel) => channel,
                None => {
                    let opened = Sender::open_to(mailbox, self.version)?;
                    self.channel.insert(opened)
                }
            };
            channel.send(connections)?;
            if !connections.is_empty() {
                // The channel is full. The messages that were sent stay in it.
                self.channel = None;
            }
        }
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use evcore_handover::{Error, Mailbox};

    use super::*;

    /// Connections with the number of each as its state, and their clients, which have sent a byte.
    fn connections(count: usize) -> (Vec<UnixStream>, Vec<Connection>) {
        let one = |number: usize| {
            let (mut client, server) = UnixStream::pair().unwrap();
            client.write_all(b"?").unwrap();
            let state = number.to_le_bytes();
            (client, Connection::new(server, state.as_slice()))
        };
        (0..count).map(one).unzip()
    }

    fn take_all(mailbox: &mut Mailbox) -> Vec<Connection> {
        let mut taken = Vec::new();
        while let Some(mut receiver) = mailbox.next_receiver().unwrap() {
            while let Ok(Some(batch)) = receiver.receive() {
                taken.extend(batch.accept().unwrap());
            }
        }
        taken
    }

    #[test]
    fn a_deposit_outlives_its_sender() {
        let (address, mut mailbox) = Mailbox::pair(1).unwrap();
        let (mut clients, mut leaving) = connections(300);
        let mut deposit = Deposit::new(1);
        let rest = leaving.split_off(299);
        deposit.put(address.as_fd(), &mut leaving).unwrap();
        assert!(leaving.is_empty());
        leaving = rest;
        deposit.put(address.as_fd(), &mut leaving).unwrap();
        drop(deposit);
        for (number, connection) in take_all(&mut mailbox).into_iter().enumerate() {
            assert_eq!(connection.state, number.to_le_bytes());
            let mut server = UnixStream::from(connection.descriptor);
            server.read_exact(&mut [0]).unwrap();
            server.write_all(b"!").unwrap();
            clients[number].read_exact(&mut [0]).unwrap();
        }
        assert!(
            clients
                .iter_mut()
                .all(|client| client.read(&mut [0]).unwrap() == 0)
        );
    }

    #[test]
    fn a_channel_that_is_full_is_followed_by_another_one() {
        let (address, mut mailbox) = Mailbox::pair(1).unwrap();
        let (_clients, mut leaving) = connections(40);
        for connection in &mut leaving {
            // One connection fills a batch.
            connection.state = vec![0; evcore_handover::STATE_BYTES_MAX];
        }
        Deposit::new(1).put(address.as_fd(), &mut leaving).unwrap();
        assert_eq!(take_all(&mut mailbox).len(), 40);
    }

    #[test]
    fn connections_are_left_if_no_process_has_the_mailbox() {
        let (address, mailbox) = Mailbox::pair(1).unwrap();
        drop(mailbox);
        let (_clients, mut leaving) = connections(3);
        let put = Deposit::new(1).put(address.as_fd(), &mut leaving);
        assert!(matches!(put, Err(Error::Ended)));
        assert_eq!(leaving.len(), 3);
    }

    #[test]
    fn a_deposit_of_another_version_is_closed() {
        let (address, mailbox) = Mailbox::pair(1).unwrap();
        let (mut clients, mut leaving) = connections(3);
        let put = Deposit::new(1).put(address.as_fd(), &mut leaving);
        put.unwrap();
        let mut mailbox = Mailbox::from_fd(mailbox.as_fd().try_clone_to_owned().unwrap(), 2);
        let foreign = mailbox.next_receiver();
        assert!(matches!(foreign, Err(Error::ForeignVersion { .. })));
        // The server's end was closed with an unread byte.
        let is_closed = |client: &mut UnixStream| client.read(&mut [0]).is_err();
        assert!(clients.iter_mut().all(is_closed));
    }
}
