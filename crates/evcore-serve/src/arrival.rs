//! Connections that come from other workers: the mailboxes, and the channels of their senders.

use evcore::balancer::Moved;
use evcore::poller::Source;
use evcore::{Acceptor, EdgeStream, EventLoop, Interest, Mode, Stream, Token};
use evcore_handover::{Batch, Connection, Descriptor, Error, Mailbox, Receiver};

/// A connection that another worker has handed over, or that has come back because no worker took it.
///
/// The loop watches it already, and reports in the next turn the bytes that have arrived meanwhile.
/// Keep it: dropping it closes the connection, but its token stays in use until the loop ends.
#[derive(Debug)]
#[must_use = "its token stays in use until it is removed"]
pub struct Arrival<S = Stream> {
    /// The stream, for [`Connections::insert`](evcore::Connections::insert).
    pub stream: EdgeStream<S>,
    /// The bytes that [`Worker::hand_over`](crate::Worker::hand_over) got.
    pub state: Vec<u8>,
    /// True if this worker has handed the connection over before, and no other has taken it.
    pub is_back: bool,
}

/// The receivers that one turn takes out of a mailbox at most.
const RECEIVERS_MAX: usize = 16;

/// The batches of one sender that a turn takes at most. Other connections wait meanwhile.
const BATCHES_MAX: usize = 4;

/// Takes the new senders out of a mailbox. Senders that do not fit into this turn are reported
/// again.
pub(crate) fn open_channels<D: Descriptor>(
    mailbox: &mut Mailbox<D>,
    mut report: impl FnMut(&Error),
) -> Vec<Receiver<D>> {
    let mut receivers = Vec::new();
    for _ in 0..RECEIVERS_MAX {
        match mailbox.next_receiver() {
            Ok(Some(receiver)) => receivers.push(receiver),
            Ok(None) => break,
            // The error concerns one sender.
            Err(error) => report(&error),
        }
    }
    receivers
}

/// Receives the batches of a sender, and appends their connections to `arrived`.
///
/// # Errors
///
/// The channel has ended.
pub(crate) fn receive<D: Descriptor + Source, S: From<D>>(
    ev: &mut EventLoop<impl Acceptor>,
    receiver: &mut Receiver<D>,
    arrived: &mut Vec<Arrival<S>>,
) -> Result<(), Error> {
    for _ in 0..BATCHES_MAX {
        match receiver.receive()? {
            Some(batch) => arrived.extend(accept(ev, batch)),
            None => break,
        }
    }
    Ok(())
}

/// Registers the connections of a batch, and then acknowledges it, so that acknowledged connections
/// can be served. If they do not all fit, the batch goes back.
fn accept<D: Descriptor + Source, S: From<D>>(
    ev: &mut EventLoop<impl Acceptor>,
    batch: Batch<'_, D>,
) -> Vec<Arrival<S>> {
    let mut tokens = Vec::new();
    for connection in batch.connections() {
        match ev.add(&connection.descriptor, Interest::BOTH, Mode::Edge) {
            Ok(token) => tokens.push(token),
            // The loop is full, or the kernel refuses the registration.
            Err(_) => {
                end(ev, &tokens);
                batch.refuse();
                return Vec::new();
            }
        }
    }
    let count = u32::try_from(tokens.len()).expect("a batch has fewer");
    // Before the answer, so that each connection counts here or there.
    ev.listeners().report_moved(Moved::Arrived(count));
    match batch.accept() {
        Ok(connections) => {
            let both = connections.into_iter().zip(tokens);
            both.map(|(connection, token)| arrival(connection, token, false))
                .collect()
        }
        // No step has carried these tokens.
        Err(taken_back) => {
            end(ev, &tokens);
            drop(taken_back);
            Vec::new()
        }
    }
}

fn end(ev: &mut EventLoop<impl Acceptor>, tokens: &[Token]) {
    for &token in tokens {
        ev.remove(token);
    }
}

/// Watches a connection again that no worker has taken.
pub(crate) fn take_back<D: Source, S: From<D>>(
    ev: &mut EventLoop<impl Acceptor>,
    connection: Connection<D>,
) -> evcore::Result<Arrival<S>> {
    let token = ev.add(&connection.descriptor, Interest::BOTH, Mode::Edge)?;
    Ok(arrival(connection, token, true))
}

fn arrival<D, S: From<D>>(connection: Connection<D>, token: Token, is_back: bool) -> Arrival<S> {
    let stream = S::from(connection.descriptor);
    Arrival {
        stream: EdgeStream::new(stream, token),
        state: connection.state,
        is_back,
    }
}
