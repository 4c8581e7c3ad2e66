//! The deposit: at a restart of the service, a worker puts connections into a mailbox, in which
//! they wait for the next start.

use std::mem;
use std::time::{Duration, Instant};

use evcore::{Acceptor, EventLoop, Ready, poller};
use evcore_handover::{Connection, Descriptor};
use evcore_prefork::{Stop, Successor};

use super::{Handover, Phase};
use crate::departure::descriptors;
use crate::mailbox_ends::MailboxEnds;

impl<S, D, M> Handover<S, M>
where
    S: From<D> + Into<D>,
    D: Descriptor + poller::Source,
    M: MailboxEnds<Descriptor = D>,
{
    /// The time that busy connections have until the deposit ends.
    pub(super) fn time_to_restart(&self, stop: Stop, now: Instant, timeout: Duration) -> Duration {
        match (stop, &self.phase) {
            (Stop::Fast, _) => Duration::ZERO,
            (Stop::Graceful, Phase::Leaving { stop_by, .. }) => {
                stop_by.saturating_duration_since(now)
            }
            (Stop::Graceful, _) => timeout,
        }
    }

    /// Puts connections into the mailbox of the next start. If some cannot be put there, the worker
    /// stops as it does without a service manager.
    pub(super) fn deposit(
        &mut self,
        ev: &mut EventLoop<impl Acceptor<Stream = S>>,
        mut leaving: Vec<Connection<D>>,
    ) {
        let Phase::Depositing {
            deposit, stop_by, ..
        } = &mut self.phase
        else {
            return;
        };
        if leaving.is_empty() {
            return;
        }
        let (count, stop_by) = (descriptors(&leaving), *stop_by);
        let put = deposit.put(
            self.mailboxes.to_successor(Successor::Restart),
            &mut leaving,
        );
        self.moves.handed_over += (count - descriptors(&leaving)) as u64;
        if let Err(error) = put {
            self.report(&error);
            self.close_receivers(ev);
            self.phase = Phase::Over { stop_by };
            self.back.extend(leaving);
        }
        // If these were the last connections, the next turn ends the deposit.
        ev.post_next(self.own, Ready::NONE);
    }

    /// Returns whether connections that may be deposited have come since the last call.
    pub(super) fn has_more_to_deposit(&mut self) -> bool {
        match &mut self.phase {
            Phase::Depositing { has_more, .. } => mem::take(has_more),
            _ => false,
        }
    }
}
