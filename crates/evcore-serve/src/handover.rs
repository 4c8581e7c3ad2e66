//! Connections that move from worker to worker: the sources that a worker's loop watches for them,
//! and the departure from a worker that is replaced.
//!
//! A worker that gets a graceful stop while another serves in its place opens a channel to that
//! successor. The connections leave after the successor has greeted, which means that it has sent
//! its first message. If no successor takes them, they come back, and the loop shuts down as it
//! does without a handover.
//!
//! If the service restarts, there is no successor yet. Idle connections then wait in a mailbox that
//! a service manager keeps open.

use std::collections::VecDeque;
use std::time::{Duration, Instant};
use std::{fmt, io};

use evcore::{
    Acceptor, Connections, EventLoop, Ready, Step, Stream, Timer, Token, TokenMap, poller,
};
use evcore_handover::{Connection, Descriptor, Error, Mailbox};
use evcore_prefork::{Mailboxes, Stop, Successor};

use crate::arrival::{self, Arrival};
use crate::departure::{Answers, Departure, descriptors};
use crate::deposit::Deposit;
use crate::giving::Giving;
use crate::leaving::{Leaving, take};
use crate::mailbox_ends::MailboxEnds;

// The attributes are for the simulator, which includes this file by its path.
#[path = "handover/gifts.rs"]
mod gifts;
#[path = "handover/restart.rs"]
mod restart;
#[path = "handover/sources.rs"]
mod sources;

use sources::Source;

const DUE: Timer = Timer::new(0);

/// The time without a message of the successor, or without a channel to it, after which a departure
/// is given up. If no greeting has come, a second channel is tried first.
const PATIENCE: Duration = Duration::from_secs(2);

/// The connections that have moved to and from a worker so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moves {
    /// Connections that another worker has taken, or that wait for the next start of the service.
    pub handed_over: u64,
    /// Connections that this worker has taken.
    pub arrived: u64,
    /// Connections that have come back, because no worker took them.
    pub taken_back: u64,
    /// Connections that have left the loop, and that no worker has taken yet. They belong to this
    /// worker.
    pub under_way: usize,
}

pub(crate) type Report = Box<dyn Fn(&dyn fmt::Display)>;

/// The handover of a worker. It is generic over streams and mailboxes, so that a simulator runs it
/// (`tests/simulation/moves`).
pub(crate) struct Handover<S = Stream, M: MailboxEnds = Mailboxes> {
    version: u32,
    report: Report,
    mailboxes: M,
    sources: TokenMap<Source<M::Descriptor>>,
    /// The token of the handover's timer, and of its posts, which keep the next turn from waiting.
    own: Token,
    /// The channel to a worker that gets connections while this one continues to serve, and the
    /// channel's token.
    giving: Option<(Giving<M::Descriptor>, Token)>,
    /// Connections that the loop watches, and the program does not have yet.
    arrived: VecDeque<Arrival<S>>,
    /// Connections that no worker has taken. They are watched only when the program takes them,
    /// because otherwise an event could come before the program has them.
    back: Vec<Connection<M::Descriptor>>,
    phase: Phase<M::Descriptor>,
    moves: Moves,
}

#[derive(Debug)]
enum Phase<D> {
    Serving,
    Leaving {
        departure: Departure<D>,
        successor: Successor,
        /// The token of the departure's channel; `None` without a channel.
        sender: Option<Token>,
        stop_by: Instant,
    },
    /// Idle connections wait for the next start of the service.
    Depositing {
        deposit: Deposit<D>,
        /// True if the program has got connections that it may not have deposited yet.
        has_more: bool,
        stop_by: Instant,
    },
    /// The loop shuts down.
    Over {
        stop_by: Instant,
    },
}

impl<S, D, M> Handover<S, M>
where
    S: From<D> + Into<D>,
    D: Descriptor + poller::Source,
    M: MailboxEnds<Descriptor = D>,
{
    pub(crate) fn new(
        ev: &mut EventLoop<impl Acceptor<Stream = S>>,
        version: u32,
        mailboxes: M,
        report: Report,
    ) -> io::Result<Self> {
        let own = ev.add_unwatched()?;
        ev.timers().set_background(own);
        let mut sources = TokenMap::new();
        sources.insert(own, Source::Own);
        for end in mailboxes.own()? {
            let mailbox = Mailbox::from_fd(end, version);
            let token = ev.add_background(mailbox.descriptor())?;
            sources.insert(token, Source::Mailbox(mailbox));
        }
        Ok(Self {
            version,
            report,
            mailboxes,
            sources,
            own,
            giving: None,
            arrived: VecDeque::new(),
            back: Vec::new(),
            phase: Phase::Serving,
            moves: Moves::default(),
        })
    }

    /// Does the handover's work at the beginning of a turn (an iteration of the loop), before the
    /// wait. Returns the timeout of the loop's shutdown once the shutdown has to begin.
    pub(crate) fn begin_turn(
        &mut self,
        ev: &mut EventLoop<impl Acceptor<Stream = S>>,
        stop: Option<Stop>,
        successor: impl FnOnce() -> Option<Successor>,
        timeout: Duration,
    ) -> Option<Duration> {
        // `back` is not checked, because connections may have come back since the program's last
        // call of `next_arrival`.
        assert!(
            self.arrived.is_empty(),
            "connections have arrived: call `Worker::next_arrival` in each turn until it returns None"
        );
        let Some(stop) = stop else {
            self.check_giving(ev);
            return None;
        };
        let now = ev.clock().instant();
        let begins = matches!(self.phase, Phase::Serving);
        let successor = match self.phase {
            Phase::Serving | Phase::Leaving { .. } => successor(),
            Phase::Depositing { .. } | Phase::Over { .. } => None,
        };
        let restarts = successor == Some(Successor::Restart);
        if stop == Stop::Graceful || restarts {
            // The connections that were being given go to the successor instead.
            self.end_giving(ev);
        }
        match stop {
            // Before a restart, even a fast stop leaves idle connections for the next start.
            _ if restarts => {
                let timeout = self.time_to_restart(stop, now, timeout);
                self.take_back(ev);
                self.begin_stop(ev, successor, now, timeout);
            }
            // One turn is enough for the idle connections, unless more have come in that turn.
            Stop::Fast if self.has_more_to_deposit() => _ = ev.post_next(self.own, Ready::NONE),
            // The connections that were sent are left to the successor.
            Stop::Fast => self.end(ev, now),
            Stop::Graceful if begins => self.begin_stop(ev, successor, now, timeout),
            Stop::Graceful => {
                self.follow_successor(ev, successor, now);
                self.go_on(ev, now);
            }
        }
        match self.phase {
            // The shutdown begins after the program has taken these connections, so that idle ones
            // get the extra time that a shutdown gives to recently idle connections.
            _ if !self.back.is_empty() => None,
            Phase::Over { stop_by } => Some(stop_by.saturating_duration_since(now)),
            Phase::Serving | Phase::Leaving { .. } | Phase::Depositing { .. } => None,
        }
    }

    fn begin_stop(
        &mut self,
        ev: &mut EventLoop<impl Acceptor<Stream = S>>,
        successor: Option<Successor>,
        now: Instant,
        timeout: Duration,
    ) {
        let stop_by = now.checked_add(timeout).unwrap_or(now + FOREVER);
        self.phase = Phase::Over { stop_by };
        // With open mailboxes, this worker could be its own successor.
        self.close_mailboxes(ev);
        // A new worker may have a channel from the last start, with connections that it has not
        // read yet.
        let may_get_more = successor == Some(Successor::Restart) && self.has_receivers();
        let is_empty = ev.stats().active == 0 && self.back.is_empty() && !may_get_more;
        let Some(successor) = successor.filter(|_| !is_empty) else {
            return self.close_receivers(ev);
        };
        // If the poller refuses to deregister a listener, the loop drops the listener's later
        // events.
        let _ = ev.listeners().close();
        if successor == Successor::Restart {
            let deposit = Deposit::new(self.version);
            self.phase = Phase::Depositing {
                deposit,
                has_more: false,
                stop_by,
            };
            // Keeps the next turn from waiting, so that the program calls `hand_over` at once.
            ev.post_next(self.own, Ready::NONE);
            return;
        }
        self.phase = Phase::Leaving {
            departure: Departure::new(self.version, PATIENCE, now),
            successor,
            sender: None,
            stop_by,
        };
        self.open_channel(ev, now);
    }

    /// Follows a change of the successor, for example from the newer generation to a new binary. A
    /// channel over which no greeting has come is replaced at once.
    fn follow_successor(
        &mut self,
        ev: &mut EventLoop<impl Acceptor<Stream = S>>,
        reported: Option<Successor>,
        now: Instant,
    ) {
        let (
            Phase::Leaving {
                departure,
                successor,
                ..
            },
            Some(reported),
        ) = (&mut self.phase, reported)
        else {
            return;
        };
        let has_changed = std::mem::replace(successor, reported) != reported;
        if has_changed && !departure.is_claimed() {
            self.on_channel_end(ev, &Error::Ended, now);
        }
    }

    /// Opens a channel if the departure has none and may have one, and arms the timer.
    fn open_channel(&mut self, ev: &mut EventLoop<impl Acceptor<Stream = S>>, now: Instant) {
        let Phase::Leaving {
            departure,
            successor,
            sender: sender @ None,
            ..
        } = &mut self.phase
        else {
            return self.arm(ev);
        };
        let mailbox = self.mailboxes.to_successor(*successor);
        match departure.open(mailbox, now) {
            Ok(()) => {}
            // There may be room later.
            Err(Error::MailboxFull | Error::KernelFull) if !departure.is_overdue(now) => {}
            Err(error) => return self.give_up(ev, &error),
        }
        if let Some(descriptor) = departure.descriptor() {
            match ev.add_background(descriptor) {
                Ok(token) => {
                    *sender = Some(token);
                    self.sources.insert(token, Source::Sender);
                }
                Err(error) => return self.give_up(ev, &error),
            }
        }
        self.arm(ev);
    }

    fn go_on(&mut self, ev: &mut EventLoop<impl Acceptor<Stream = S>>, now: Instant) {
        if let Phase::Depositing { stop_by, .. } = self.phase {
            if stop_by <= now || ev.stats().active == 0 {
                self.end(ev, stop_by);
            } else {
                ev.timers().arm_at(self.own, DUE, stop_by);
            }
            return;
        }
        let Phase::Leaving {
            departure, stop_by, ..
        } = &mut self.phase
        else {
            return;
        };
        let stop_by = *stop_by;
        if stop_by <= now {
            return self.end(ev, now);
        }
        match departure.send(now) {
            Ok(()) => {}
            Err(error) => return self.on_channel_end(ev, &error, now),
        }
        if departure.under_way() == 0 && ev.stats().active == 0 {
            return self.end(ev, stop_by);
        }
        if departure.descriptor().is_none() {
            return self.open_channel(ev, now);
        }
        if departure.is_overdue(now) {
            if departure.tries_second_channel() {
                return self.on_channel_end(ev, &Error::Ended, now);
            }
            return self.give_up(ev, &"the successor does not answer");
        }
        self.arm(ev);
    }

    fn arm(&self, ev: &mut EventLoop<impl Acceptor<Stream = S>>) {
        if let Phase::Leaving {
            departure, stop_by, ..
        } = &self.phase
        {
            let due = departure.due_at().map_or(*stop_by, |due| due.min(*stop_by));
            ev.timers().arm_at(self.own, DUE, due);
        }
    }

    #[inline]
    pub(crate) fn owns(&self, step: &Step<S>) -> bool {
        match step {
            Step::Ready(token, _) | Step::Expired(token, _) => self.sources.contains(*token),
            _ => false,
        }
    }

    pub(crate) fn handle(&mut self, ev: &mut EventLoop<impl Acceptor<Stream = S>>, step: &Step<S>) {
        let (Step::Ready(token, _) | Step::Expired(token, _)) = *step else {
            return;
        };
        match self.sources.get_mut(token) {
            Some(Source::Mailbox(mailbox)) => {
                let report = |error: &Error| (self.report)(error);
                for receiver in arrival::open_channels(mailbox, report) {
                    self.watch(ev, receiver);
                }
            }
            Some(Source::Receiver(receiver)) => {
                let mut arrived = Vec::new();
                let received = arrival::receive(ev, receiver, &mut arrived);
                let streams = arrived.iter().map(Arrival::streams);
                self.moves.arrived += streams.sum::<u64>();
                if let (Some((giving, _)), false) = (&mut self.giving, arrived.is_empty()) {
                    giving.forget_plan();
                }
                self.arrived.extend(arrived);
                if let Err(error) = received {
                    self.sources.remove(ev, token);
                    if !matches!(error, Error::Ended) {
                        self.report(&error);
                    }
                }
            }
            Some(Source::Sender) => self.read_answers(ev),
            Some(Source::Giving) => self.read_giving(ev),
            // The next turn does the work that is due.
            Some(Source::Own) | None => {}
        }
    }

    fn read_answers(&mut self, ev: &mut EventLoop<impl Acceptor<Stream = S>>) {
        let Phase::Leaving { departure, .. } = &mut self.phase else {
            return;
        };
        let now = ev.clock().instant();
        let mut answers = Answers::default();
        let read = departure.read(now, &mut answers);
        self.moves.handed_over += answers.acknowledged as u64;
        let is_refused = !answers.refused.is_empty();
        self.back.extend(answers.refused);
        if is_refused {
            self.give_up(ev, &"the successor has no room for the connections");
        } else if let Err(error) = read {
            self.on_channel_end(ev, &error, now);
        }
    }

    fn on_channel_end(
        &mut self,
        ev: &mut EventLoop<impl Acceptor<Stream = S>>,
        error: &Error,
        now: Instant,
    ) {
        let Phase::Leaving {
            departure, sender, ..
        } = &mut self.phase
        else {
            return;
        };
        if !matches!(error, Error::Ended) {
            return self.give_up(ev, error);
        }
        if let Some(sender) = sender.take() {
            self.sources.remove(ev, sender);
        }
        self.moves.handed_over += departure.close(now) as u64;
        // The next turn opens another channel, perhaps to another kind of successor.
        self.arm(ev);
    }

    /// Ends the departure, because no successor takes the connections.
    fn give_up(&mut self, ev: &mut EventLoop<impl Acceptor<Stream = S>>, why: &dyn fmt::Display) {
        self.report(why);
        self.close_receivers(ev);
        self.take_back(ev);
        // The shutdown begins in the next turn.
        ev.post_next(self.own, Ready::NONE);
    }

    /// Ends a departure, and takes back the connections that no successor has taken.
    fn take_back(&mut self, ev: &mut EventLoop<impl Acceptor<Stream = S>>) {
        let Phase::Leaving { stop_by, .. } = self.phase else {
            return;
        };
        let over = Phase::Over { stop_by };
        if let Phase::Leaving {
            departure, sender, ..
        } = std::mem::replace(&mut self.phase, over)
        {
            if let Some(sender) = sender {
                self.sources.remove(ev, sender);
            }
            let under_way = departure.under_way();
            let back = departure.take_back();
            self.moves.handed_over += (under_way - descriptors(&back)) as u64;
            self.back.extend(back);
        }
    }

    /// Ends the departure without taking connections back, and lets the loop shut down by
    /// `stop_by`.
    fn end(&mut self, ev: &mut EventLoop<impl Acceptor<Stream = S>>, stop_by: Instant) {
        self.close_mailboxes(ev);
        self.close_receivers(ev);
        if let Phase::Leaving {
            sender: Some(sender),
            ..
        } = self.phase
        {
            self.sources.remove(ev, sender);
        }
        ev.disarm(self.own, DUE);
        self.phase = Phase::Over { stop_by };
    }

    /// Returns whether the worker stops, and no connection leaves any more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over { .. })
    }

    pub(crate) fn is_leaving(&self) -> bool {
        match &self.phase {
            Phase::Leaving { departure, .. } => departure.has_begun(),
            Phase::Depositing { .. } => true,
            Phase::Serving | Phase::Over { .. } => false,
        }
    }

    /// Lets connections leave for which `leaves` returns a state, as many as may leave now.
    pub(crate) fn hand_over<T>(
        &mut self,
        ev: &mut EventLoop<impl Acceptor<Stream = S>>,
        connections: &mut Connections<T, S>,
        leaves: impl FnMut(Token, &mut Connections<T, S>) -> Option<Leaving>,
    ) {
        let room = match &self.phase {
            Phase::Leaving { departure, .. } => departure.room(),
            Phase::Depositing { .. } => usize::MAX,
            Phase::Serving => self.giving_room(ev),
            Phase::Over { .. } => 0,
        };
        if room == 0 {
            return;
        }
        let leaving = take(ev, connections, room, leaves);
        match &mut self.phase {
            Phase::Leaving { departure, .. } => {
                if descriptors(&leaving) >= room {
                    // There may be more, so the next turn does not wait.
                    ev.post_next(self.own, Ready::NONE);
                }
                leaving.into_iter().for_each(|one| departure.push(one));
                // Connections are sent at once, because those that are not in the channel are lost
                // if the worker dies. If sending fails, it fails in the next turn too, which
                // handles the error.
                let _ = departure.send(ev.clock().instant());
            }
            Phase::Depositing { .. } => self.deposit(ev, leaving),
            Phase::Serving | Phase::Over { .. } => self.give(ev, leaving),
        }
    }

    pub(crate) fn next_arrival(
        &mut self,
        ev: &mut EventLoop<impl Acceptor<Stream = S>>,
    ) -> Option<Arrival<S>> {
        let arrival = self.next_back(ev).or_else(|| self.arrived.pop_front());
        if let Phase::Depositing { has_more, .. } = &mut self.phase {
            *has_more |= arrival.is_some();
        }
        arrival
    }

    fn next_back(&mut self, ev: &mut EventLoop<impl Acceptor<Stream = S>>) -> Option<Arrival<S>> {
        while let Some(connection) = self.back.pop() {
            match arrival::take_back(ev, connection) {
                Ok(arrival) => {
                    self.moves.taken_back += arrival.streams();
                    return Some(arrival);
                }
                // The connection is closed.
                Err(error) => self.report(&error),
            }
        }
        None
    }

    pub(crate) fn moves(&self) -> Moves {
        let under_way = match &self.phase {
            Phase::Leaving { departure, .. } => departure.under_way(),
            Phase::Serving | Phase::Depositing { .. } | Phase::Over { .. } => self
                .giving
                .as_ref()
                .map_or(0, |(giving, _)| giving.under_way()),
        };
        Moves {
            under_way: under_way + descriptors(&self.back),
            ..self.moves
        }
    }

    fn report(&self, why: &dyn fmt::Display) {
        (self.report)(why);
    }
}

/// A year, in place of a stop timeout that no clock can hold.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
