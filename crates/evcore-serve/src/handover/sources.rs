//! The sources that a worker's loop watches for the handover.

use evcore::{Acceptor, EventLoop, poller};
use evcore_handover::{Descriptor, Mailbox, Receiver};

use super::Handover;
use crate::mailbox_ends::MailboxEnds;

#[derive(Debug)]
pub(super) enum Source<D> {
    /// The handover's own token, which has no descriptor: for its timer, and for posts that keep a
    /// turn from waiting.
    Own,
    Mailbox(Mailbox<D>),
    Receiver(Receiver<D>),
    Sender,
    Giving,
}

impl<S, D, M> Handover<S, M>
where
    S: From<D> + Into<D>,
    D: Descriptor + poller::Source,
    M: MailboxEnds<Descriptor = D>,
{
    /// Watches a receiver. A receiver that the loop cannot watch is dropped, and its sender keeps
    /// the connections.
    pub(super) fn watch(
        &mut self,
        ev: &mut EventLoop<impl Acceptor<Stream = S>>,
        receiver: Receiver<D>,
    ) {
        match ev.add_background(receiver.descriptor()) {
            Ok(token) => _ = self.sources.insert(token, Source::Receiver(receiver)),
            Err(error) => self.report(&error),
        }
    }

    pub(super) fn close_mailboxes(&mut self, ev: &mut EventLoop<impl Acceptor<Stream = S>>) {
        self.remove_sources(ev, |source| matches!(source, Source::Mailbox(_)));
    }

    /// Drops the receivers, because connections that arrived now would end in this worker. The
    /// senders keep their connections.
    pub(super) fn close_receivers(&mut self, ev: &mut EventLoop<impl Acceptor<Stream = S>>) {
        self.remove_sources(ev, |source| matches!(source, Source::Receiver(_)));
    }

    pub(super) fn has_receivers(&self) -> bool {
        let mut sources = self.sources.iter();
        sources.any(|(_, source)| matches!(source, Source::Receiver(_)))
    }

    fn remove_sources(
        &mut self,
        ev: &mut EventLoop<impl Acceptor<Stream = S>>,
        which: impl Fn(&Source<D>) -> bool,
    ) {
        let sources = self.sources.iter();
        let sources = sources.filter_map(|(token, source)| which(source).then_some(token));
        for token in sources.collect::<Vec<_>>() {
            // `TokenMap::close` is not enough, because other processes have duplicates of a
            // mailbox's descriptor.
            self.sources.remove(ev, token);
        }
    }
}
