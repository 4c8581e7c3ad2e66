//! Channels for whose messages the kernel has no room.

use std::{
    env,
    os::fd::AsFd,
    process::{Command, Output},
};

use evcore_handover::{Answer, Connection, Error, Mailbox, Receiver, Sender};
use evcore_testing::{not_run, without};
use libc::{ENOBUFS, ENOMEM, SYS_sendmsg};
use rustix::{
    net::sockopt::set_socket_send_buffer_size,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use crate::{VERSION, accept_one, channel, connections, exclusive, number, numbers, send};

/// Accepts each batch that can still be received. Returns the numbers of the connections that were
/// accepted, and of those that stay with the sender.
fn accept_all(receiver: &mut Receiver) -> (Vec<usize>, Vec<usize>) {
    let (mut owned, mut refused) = (Vec::new(), Vec::new());
    while let Ok(Some(batch)) = receiver.receive() {
        match batch.accept() {
            Ok(connections) => owned.extend(numbers(&connections)),
            Err(taken_back) => refused.extend(numbers(&taken_back.connections)),
        }
    }
    (owned, refused)
}

fn send_each(sender: &mut Sender, count: usize) -> Vec<std::os::unix::net::UnixStream> {
    (0..count).flat_map(|n| send(sender, n..n + 1)).collect()
}

#[test]
fn an_acknowledgement_that_finds_no_room_ends_the_channel() {
    let _exclusive = exclusive();
    let (mut sender, mut receiver) = channel();
    set_socket_send_buffer_size(receiver.as_fd(), 1).unwrap();
    let _clients = send_each(&mut sender, 16);
    let (mut owned, refused) = accept_all(&mut receiver);
    assert_eq!(refused.len(), 1, "the first one that found no room");
    assert!(matches!(receiver.receive(), Err(Error::Ended)));
    owned.extend(numbers(&sender.take_back()));
    assert_eq!(owned, (0..16).collect::<Vec<_>>(), "each has one owner");
}

#[test]
fn a_refusal_that_finds_no_room_ends_the_channel() {
    let _exclusive = exclusive();
    let (mut sender, mut receiver) = channel();
    let _clients = send_each(&mut sender, 4);
    let mut owned = numbers(&accept_one(&mut receiver));
    without(SYS_sendmsg, ENOMEM, || {
        receiver.receive().unwrap().unwrap().refuse();
    });
    owned.extend(accept_all(&mut receiver).0);
    assert!(matches!(receiver.receive(), Err(Error::Ended)));
    owned.extend(numbers(&sender.take_back()));
    assert_eq!(owned, (0..4).collect::<Vec<_>>(), "each has one owner");
}

#[test]
fn taking_back_needs_no_memory_for_a_message() {
    let _exclusive = exclusive();
    let (mut sender, mut receiver) = channel();
    let _clients = send_each(&mut sender, 3);
    let back = without(SYS_sendmsg, ENOBUFS, || numbers(&sender.take_back()));
    assert_eq!(back, [0, 1, 2]);
    assert_eq!(accept_all(&mut receiver), (vec![], vec![0, 1, 2]));
}

#[test]
fn a_greeting_that_cannot_be_sent_ends_the_channel() {
    let _exclusive = exclusive();
    let (address, mut mailbox) = Mailbox::pair(VERSION).unwrap();
    let mut sender = Sender::open(&address, VERSION).unwrap();
    let _clients = send(&mut sender, 0..2);
    let result = without(SYS_sendmsg, ENOBUFS, || mailbox.next_receiver());
    assert!(matches!(result, Err(Error::KernelFull)), "{result:?}");
    drop(mailbox);
    assert!(matches!(sender.next_answer(), Err(Error::Ended)));
    assert_eq!(numbers(&sender.take_back()), [0, 1]);
}

#[test]
fn a_send_without_room_is_an_error_only_if_no_answer_will_come() {
    let _exclusive = exclusive();
    let (mut sender, mut receiver) = channel();
    let (mut rest, _clients) = connections(0..3);
    let result = without(SYS_sendmsg, ENOBUFS, || sender.send(&mut rest));
    assert!(matches!(result, Err(Error::KernelFull)), "{result:?}");
    assert_eq!(numbers(&rest), [0, 1, 2], "they stay with the caller");
    let mut first: Vec<Connection> = rest.drain(..1).collect();
    assert_eq!(sender.send(&mut first).unwrap(), 1);
    let result = without(SYS_sendmsg, ENOBUFS, || sender.send(&mut rest));
    assert!(matches!(result, Ok(0)), "{result:?}: an answer will come");
    assert_eq!(number(&accept_one(&mut receiver)[0]), 0);
    assert!(matches!(
        sender.next_answer(),
        Ok(Some(Answer::Acknowledged { .. }))
    ));
    assert_eq!(sender.send(&mut rest).unwrap(), 2, "the channel goes on");
    assert_eq!(accept_one(&mut receiver).len(), 2);
}

#[test]
fn a_mailbox_without_kernel_memory_is_not_called_full() {
    let _exclusive = exclusive();
    let (address, _mailbox) = Mailbox::pair(VERSION).unwrap();
    let result = without(SYS_sendmsg, ENOMEM, || Sender::open(&address, VERSION));
    assert!(matches!(result, Err(Error::KernelFull)), "{result:?}");
}

/// The variable that is set in the process of [`as_nobody`].
const AS_NOBODY: &str = "EVCORE_HANDOVER_TEST_AS_NOBODY";

/// The kernel counts the descriptors under way of each user, and exempts privileged users.
#[test]
fn the_limit_on_descriptors_under_way_is_an_error_of_its_own() {
    let _exclusive = exclusive();
    let name = "shortage::the_limit_on_descriptors_under_way_is_an_error_of_its_own";
    if env::var_os(AS_NOBODY).is_some() {
        return reach_the_limit();
    }
    match as_nobody(name) {
        Ok(output) if output.status.success() => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains("1 passed"), "{said}");
        }
        // The exit codes 126 and 127 mean that setpriv could not start the test.
        Ok(output) if matches!(output.status.code(), Some(126 | 127)) => {
            not_run(&String::from_utf8_lossy(&output.stderr));
        }
        Ok(output) => panic!("{output:?}"),
        Err(error) => not_run(&format!("setpriv: {error}")),
    }
}

fn as_nobody(name: &str) -> std::io::Result<Output> {
    // The program is passed as an open file, because the user 65534 may be unable to reach its
    // path.
    let program = std::fs::File::open(env::current_exe()?)?;
    Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", "--inh-caps=-all"])
        .args(["/proc/self/fd/0", "--exact", name])
        .stdin(program)
        .env(AS_NOBODY, "1")
        .output()
}

fn reach_the_limit() {
    let (address, _mailbox) = Mailbox::pair(VERSION).unwrap();
    let mut first = Sender::open(&address, VERSION).unwrap();
    let mut second = Sender::open(&address, VERSION).unwrap();
    let _clients = send(&mut first, 0..200);
    let (mut more, _more_clients) = connections(200..210);
    let limit = getrlimit(Resource::Nofile);
    let current = Some(100);
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
    let result = second.send(&mut more);
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(matches!(result, Err(Error::KernelFull)), "{result:?}");
    assert_eq!(second.send(&mut more).unwrap(), 10, "later there is room");
    assert_eq!(first.take_back().len() + second.take_back().len(), 210);
}
