//! Receives connections from other workers. A worker takes channels out of its mailboxes, and the
//! connections arrive over these channels.

use evcore::balancer::Moved;
use evcore::poller::Source;
use evcore::{Acceptor, EdgeStream, EventLoop, Interest, Mode, Stream, Token};
use evcore_handover::{Batch, Connection, Descriptor, Error, Mailbox, Receiver};

/// A connection that another worker has handed over, or that has come back because no worker took
/// it.
///
/// The loop watches it already. In a later turn, the loop reports bytes that have arrived, and room
/// to send. Keep the connection, because dropping it closes the connection, but leaves its token in
/// use until the loop ends.
#[derive(Debug)]
#[must_use = "its token stays in use until it is removed"]
pub struct Arrival<S = Stream> {
    /// The stream, for [`Connections::insert`](evcore::Connections::insert).
    pub stream: EdgeStream<S>,
    /// The second connection of a session, if
    /// [`Worker::hand_over_pairs`](crate::Worker::hand_over_pairs) has handed over both.
    pub partner: Option<EdgeStream<S>>,
    /// The connection's state, as bytes: the one with which it left its worker, or the [idle
    /// state](crate::Server::descriptor_store) if that worker has died.
    pub state: Vec<u8>,
    /// True if this worker has handed the connection over before, and no other worker has taken it.
    pub is_back: bool,
}

impl<S> Arrival<S> {
    pub(crate) fn streams(&self) -> u64 {
        1 + u64::from(self.partner.is_some())
    }
}

/// Maximum number of receivers that one turn takes out of a mailbox.
const RECEIVERS_MAX: usize = 16;

/// Maximum number of batches of one sender that one turn takes, so that other connections do not
/// wait.
const BATCHES_MAX: usize = 4;

/// Takes the new senders out of a mailbox. The loop reports a mailbox again if some are left.
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
/// The errors of [`Receiver::receive`].
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

/// Registers the connections of a batch, and then acknowledges the batch, so that acknowledged
/// connections can be served. A batch that cannot be registered goes back.
fn accept<D: Descriptor + Source, S: From<D>>(
    ev: &mut EventLoop<impl Acceptor>,
    batch: Batch<'_, D>,
) -> Vec<Arrival<S>> {
    let mut tokens = Vec::new();
    for connection in batch.connections() {
        // The loop is full, or the kernel refuses the registration.
        if watch(ev, connection, &mut tokens).is_err() {
            end(ev, &tokens);
            batch.refuse();
            return Vec::new();
        }
    }
    let count = u32::try_from(tokens.len()).expect("a batch has fewer");
    // The arrival is reported before the answer, so that a connection counts for at least one
    // worker at each moment.
    ev.listeners().report_moved(Moved::Arrived(count));
    match batch.accept() {
        Ok(connections) => {
            let mut tokens = tokens.into_iter();
            let arrivals = connections.into_iter();
            arrivals
                .map(|connection| arrival(connection, &mut tokens, false))
                .collect()
        }
        // The program has not seen these tokens, so they are removed here.
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

/// Watches again a connection that no worker has taken.
///
/// # Errors
///
/// The errors of the loop, which then watches no descriptor of the connection.
pub(crate) fn take_back<D: Source, S: From<D>>(
    ev: &mut EventLoop<impl Acceptor>,
    connection: Connection<D>,
) -> evcore::Result<Arrival<S>> {
    let mut tokens = Vec::new();
    if let Err(error) = watch(ev, &connection, &mut tokens) {
        end(ev, &tokens);
        return Err(error);
    }
    Ok(arrival(connection, &mut tokens.into_iter(), true))
}

fn watch<D: Source>(
    ev: &mut EventLoop<impl Acceptor>,
    connection: &Connection<D>,
    tokens: &mut Vec<Token>,
) -> evcore::Result<()> {
    for descriptor in connection.descriptors() {
        tokens.push(ev.add(descriptor, Interest::BOTH, Mode::Edge)?);
    }
    Ok(())
}

/// `tokens` has one token for each descriptor of the connection.
fn arrival<D, S: From<D>>(
    connection: Connection<D>,
    tokens: &mut impl Iterator<Item = Token>,
    is_back: bool,
) -> Arrival<S> {
    let mut stream = |descriptor| {
        let token = tokens.next().expect("each descriptor is watched");
        EdgeStream::new(S::from(descriptor), token)
    };
    Arrival {
        stream: stream(connection.descriptor),
        partner: connection.partner.map(stream),
        state: connection.state,
        is_back,
    }
}
