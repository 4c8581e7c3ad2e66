//! Gives connections to another worker while this one continues to serve. The plan of this worker's
//! loop has the number of connections, and the worker that gets them.

use evcore::balancer::Give;
use evcore::{Acceptor, EventLoop, Ready, poller};
use evcore_handover::{Connection, Descriptor, Error};

use super::{DUE, Handover, Source};
use crate::giving::Giving;
use crate::mailbox_ends::MailboxEnds;

impl<S, D, M> Handover<S, M>
where
    S: From<D> + Into<D>,
    D: Descriptor + poller::Source,
    M: MailboxEnds<Descriptor = D>,
{
    /// Follows the loop's plan, and opens a channel if the plan gives connections to another
    /// worker. Returns the number of connections that may leave now.
    pub(super) fn giving_room(&mut self, ev: &mut EventLoop<impl Acceptor<Stream = S>>) -> usize {
        let give = ev.listeners().take_give();
        // If connections have arrived since the plan was made, this worker gives none.
        if let Some(give) = give.filter(|_| self.arrived.is_empty()) {
            let active = ev.stats().active;
            let follows = |(giving, _): &mut (Giving<D>, _)| giving.follow(give, active);
            if !self.giving.as_mut().is_some_and(follows) {
                self.end_giving(ev);
                self.open_giving(ev, give);
            }
        }
        let giving = self.giving.as_ref();
        giving.map_or(0, |(giving, _)| giving.room(ev.stats().active))
    }

    fn open_giving(&mut self, ev: &mut EventLoop<impl Acceptor<Stream = S>>, give: Give) {
        let Some(mailbox) = self.mailboxes.to_slot(give.to.slot()) else {
            return;
        };
        let (active, now) = (ev.stats().active, ev.clock().instant());
        let giving = match Giving::open(give, active, mailbox, self.version, now) {
            Ok(giving) => giving,
            // The next plan tries again. This is not reported, because a worker that hangs may have
            // a full mailbox for a long time.
            Err(Error::MailboxFull) => return,
            Err(error) => return self.report(&error),
        };
        match ev.add_background(giving.descriptor()) {
            Ok(token) => {
                self.sources.insert(token, Source::Giving);
                self.giving = Some((giving, token));
                self.arm_giving(ev);
            }
            // The next plan tries again.
            Err(error) => self.report(&error),
        }
    }

    pub(super) fn give(
        &mut self,
        ev: &mut EventLoop<impl Acceptor<Stream = S>>,
        leaving: Vec<Connection<D>>,
    ) {
        let Some((giving, _)) = &mut self.giving else {
            return;
        };
        match giving.send(ev, leaving, ev.clock().instant()) {
            Ok(()) => self.arm_giving(ev),
            Err(_) => self.end_giving(ev),
        }
    }

    pub(super) fn read_giving(&mut self, ev: &mut EventLoop<impl Acceptor<Stream = S>>) {
        let Some((giving, _)) = &mut self.giving else {
            return;
        };
        let before = self.back.len();
        let (taken, read) = giving.read(ev, &mut self.back, ev.clock().instant());
        self.moves.handed_over += taken as u64;
        if read.is_err() || self.back.len() > before {
            self.end_giving(ev);
        }
    }

    /// Begins a turn of a worker that continues to serve.
    pub(super) fn check_giving(&mut self, ev: &mut EventLoop<impl Acceptor<Stream = S>>) {
        let Some((giving, _)) = &mut self.giving else {
            return;
        };
        match giving.begin_turn(ev.clock().instant()) {
            true => self.arm_giving(ev),
            false => self.end_giving(ev),
        }
    }

    /// Closes the channel, and takes back the connections that the other worker has not taken.
    pub(super) fn end_giving(&mut self, ev: &mut EventLoop<impl Acceptor<Stream = S>>) {
        let Some((giving, token)) = self.giving.take() else {
            return;
        };
        self.sources.remove(ev, token);
        ev.disarm(self.own, DUE);
        let (taken, back) = giving.close(ev);
        self.moves.handed_over += taken as u64;
        if !back.is_empty() {
            self.back.extend(back);
            // The program takes them at the end of a turn that does not wait.
            ev.post_next(self.own, Ready::NONE);
        }
    }

    fn arm_giving(&self, ev: &mut EventLoop<impl Acceptor<Stream = S>>) {
        if let Some((giving, _)) = &self.giving {
            ev.timers().arm_at(self.own, DUE, giving.due_at());
        }
    }
}
