//! Malformed messages, which neither a sender nor a receiver of this crate sends.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use evcore_handover::{Error, Mailbox, Receiver, Sender};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    recv, sendmsg, socketpair,
};

use crate::{VERSION, exclusive, numbers, send};

struct Impostor {
    mailbox: Mailbox,
    address: OwnedFd,
}

fn seqpacket() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

fn send_raw(socket: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds)));
    sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )
    .unwrap();
}

/// A header: `evHO`, protocol 1, the kind, the count, the version, the number.
fn header(kind: u8, count: u16, version: u32, number: u64) -> Vec<u8> {
    let mut bytes = b"evHO\x01".to_vec();
    bytes.push(kind);
    bytes.extend(count.to_le_bytes());
    bytes.extend(version.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes
}

impl Impostor {
    fn new() -> Self {
        let (address, mailbox) = Mailbox::pair(VERSION).unwrap();
        Self { mailbox, address }
    }

    /// Introduces a channel. Its revocation, by which a sender shows that it takes connections
    /// back, is a socket, not an `eventfd`. Returns the channel's sending end, the revocation's
    /// other end, and the receiver.
    fn introduce(&mut self) -> (OwnedFd, OwnedFd, Receiver) {
        let ((channel, theirs), (revocation, their_revocation)) = (seqpacket(), seqpacket());
        let fds = [theirs.as_fd(), their_revocation.as_fd()];
        send_raw(&self.address, &header(1, 0, VERSION, 0), &fds);
        let receiver = self.mailbox.next_receiver().unwrap().unwrap();
        (channel, revocation, receiver)
    }
}

fn introduced() -> (Sender, OwnedFd) {
    let (address, mailbox) = seqpacket();
    let sender = Sender::open(&address, VERSION).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = rustix::net::RecvAncillaryBuffer::new(&mut space);
    let mut buffer = [0; 64];
    let mut parts = [io::IoSliceMut::new(&mut buffer)];
    let flags = rustix::net::RecvFlags::CMSG_CLOEXEC;
    rustix::net::recvmsg(&mailbox, &mut parts, &mut control, flags).unwrap();
    let received = control.drain().flat_map(|part| match part {
        rustix::net::RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
        _ => Vec::new(),
    });
    let channel = received.collect::<Vec<_>>().swap_remove(0);
    (sender, channel)
}

#[test]
fn a_malformed_introduction_is_refused_and_the_mailbox_goes_on() {
    let _exclusive = exclusive();
    let mut impostor = Impostor::new();
    let (a, b) = seqpacket();
    let fds = [a.as_fd(), b.as_fd(), a.as_fd()];
    for (bytes, fds, why) in [
        (b"?".to_vec(), &fds[..2], "it is shorter than a header"),
        (header(1, 0, VERSION, 0), &fds[..0], "two descriptors"),
        (header(1, 0, VERSION, 0), &fds[..1], "two descriptors"),
        (header(1, 0, VERSION, 0), &fds[..], "two descriptors"),
        (header(3, 1, VERSION, 1), &fds[..2], "lengths of its states"),
        (header(4, 0, VERSION, 1), &fds[..2], "not an introduction"),
        (vec![b'e'; 100], &fds[..2], "longer than an introduction"),
    ] {
        send_raw(&impostor.address, &bytes, fds);
        let error = impostor.mailbox.next_receiver().unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    let (_channel, _revocation, mut receiver) = impostor.introduce();
    assert!(receiver.receive().unwrap().is_none());
}

#[test]
fn an_empty_message_does_not_end_a_mailbox() {
    let _exclusive = exclusive();
    let mut impostor = Impostor::new();
    send_raw(&impostor.address, b"", &[]);
    let error = impostor.mailbox.next_receiver().unwrap_err();
    assert!(error.to_string().contains("shorter than"), "{error}");
    let _sender = Sender::open(&impostor.address, VERSION).unwrap();
    // The second empty message is the last message before the end.
    send_raw(&impostor.address, b"", &[]);
    let Impostor {
        mut mailbox,
        address,
    } = impostor;
    drop(address);
    assert!(mailbox.next_receiver().unwrap().is_some());
    assert!(matches!(mailbox.next_receiver(), Err(Error::Ended)));
}

/// The receiver owns a batch that it has acknowledged, even after a malformed answer.
#[test]
fn an_acknowledgement_behind_a_malformed_answer_counts() {
    let _exclusive = exclusive();
    for bytes in [&b"?"[..], b""] {
        let (mut sender, channel) = introduced();
        let _clients = [send(&mut sender, 0..1), send(&mut sender, 1..2)];
        send_raw(&channel, bytes, &[]);
        send_raw(&channel, &header(4, 0, 0, 1), &[]);
        assert_eq!(numbers(&sender.take_back()), [1]);
    }
}

#[test]
fn a_malformed_batch_is_refused_whole_and_ends_the_channel() {
    let _exclusive = exclusive();
    let (a, b) = seqpacket();
    let fds = [a.as_fd(), b.as_fd()];
    let batch = |count: u16, version: u32, number: u64, length: u32, state: &[u8]| {
        let mut bytes = header(3, count, version, number);
        bytes.extend(length.to_le_bytes());
        bytes.extend(state);
        bytes
    };
    let refused = |number: u64| header(5, 3, 0, number);
    for (bytes, fds, why, answer) in [
        (b"x".to_vec(), &fds[..1], "shorter than a header", None),
        (
            batch(1, VERSION, 1, 1, b"s"),
            &fds[..],
            "one descriptor for each",
            Some(refused(1)),
        ),
        (
            batch(1, VERSION, 1, 1, b"s"),
            &fds[..0],
            "one descriptor for each",
            Some(refused(1)),
        ),
        (
            batch(1, VERSION, 1, 2, b"s"),
            &fds[..1],
            "shorter than their lengths",
            Some(refused(1)),
        ),
        (
            batch(1, VERSION, 1, 1, &[b's'; 70_000]),
            &fds[..1],
            "longer than the limit",
            Some(refused(1)),
        ),
        (
            batch(1, VERSION, 2, 1, b"s"),
            &fds[..1],
            "next number",
            Some(refused(2)),
        ),
        (
            batch(1, VERSION + 1, 1, 1, b"s"),
            &fds[..1],
            "state version 8",
            Some(refused(1)),
        ),
        (header(4, 0, VERSION, 1), &fds[..1], "not a batch", None),
    ] {
        let mut impostor = Impostor::new();
        let (channel, _revocation, mut receiver) = impostor.introduce();
        send_raw(&channel, &bytes, fds);
        let error = receiver.receive().unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        // The channel ends although the receiver lives. Before the end come a greeting and, if the
        // message has the number of a batch, a refusal.
        let mut answers = Vec::new();
        loop {
            let mut buffer = [0; 64];
            let (length, _) = recv(&channel, &mut buffer, rustix::net::RecvFlags::empty()).unwrap();
            if length == 0 {
                break;
            }
            answers.push(buffer[..length].to_vec());
        }
        let expected: Vec<_> = [header(2, 0, VERSION, 0)]
            .into_iter()
            .chain(answer)
            .collect();
        assert_eq!(answers, expected, "{why}");
    }
}

#[test]
fn a_malformed_answer_ends_the_channel_and_nothing_is_lost() {
    let _exclusive = exclusive();
    for (bytes, why) in [
        (b"?".to_vec(), "shorter than a header"),
        (header(4, 0, 0, 2), "not the next one"),
        (header(5, 1, 0, 9), "not the next one"),
        (header(5, 77, 0, 1), "unknown reason"),
        (header(3, 0, 0, 1), "1 to 253"),
        (header(1, 0, VERSION, 0), "for a receiver"),
        (vec![b'e'; 99], "magic"),
    ] {
        let (mut sender, channel) = introduced();
        let _clients = send(&mut sender, 0..2);
        send_raw(&channel, &bytes, &[]);
        let error = sender.next_answer().unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(numbers(&sender.take_back()), [0, 1]);
    }
}
