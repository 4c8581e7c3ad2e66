//! Waiting: who is told of what, and what a wait brings.

use std::{io, time::Duration};

use evcore::poller::{Capabilities, Error, EventSink, Registration, Result};

use super::State;
use crate::{
    Fault,
    net::ListenerId,
    poll::{Instance, Object, WatchId},
    rng::whole_ns,
    trace::What,
};

impl State {
    pub(crate) fn open_poller(&mut self, process: u32, capabilities: Capabilities) -> u32 {
        let poller = u32::try_from(self.pollers.len()).expect("there are fewer pollers");
        self.pollers.push(Instance::new(process, capabilities));
        self.processes[process as usize].pollers.push(poller);
        poller
    }

    /// Ends all watches of a poller that is no more.
    pub(crate) fn close_poller(&mut self, poller: u32) {
        for id in 0..self.pollers[poller as usize].ids() {
            // Most are gone already.
            let _ = self.unwatch(poller, id);
        }
        let process = self.pollers[poller as usize].process;
        let pollers = &mut self.processes[process as usize].pollers;
        pollers.retain(|other| *other != poller);
    }

    /// Begins to watch what a descriptor stands for.
    pub(crate) fn watch(&mut self, poller: u32, new: &Registration) -> Result<()> {
        let process = self.pollers[poller as usize].process;
        let descriptors = &self.processes[process as usize].descriptors;
        let object = descriptors.object(new.fd).ok_or_else(bad_descriptor)?;
        let watch = WatchId {
            poller,
            id: u32::try_from(new.id()).expect("the low half of a key"),
        };
        self.watches_of(object).push(watch);
        self.pollers[poller as usize].add(new, object);
        self.queue(watch);
        Ok(())
    }

    /// Watches for something else; what holds is reported afresh.
    pub(crate) fn rewatch(&mut self, poller: u32, new: &Registration) -> Result<()> {
        let id = u32::try_from(new.id()).expect("the low half of a key");
        if !self.pollers[poller as usize].modify(new) {
            return Err(bad_descriptor());
        }
        self.queue(WatchId { poller, id });
        Ok(())
    }

    /// Ends a watch; an error if there is none, for its descriptor was closed.
    pub(crate) fn unwatch(&mut self, poller: u32, id: usize) -> Result<()> {
        let removed = self.pollers[poller as usize].remove(id);
        let object = removed.ok_or_else(bad_descriptor)?;
        let here = |watch: &WatchId| watch.poller == poller && watch.id as usize == id;
        self.watches_of(object).retain(|watch| !here(watch));
        Ok(())
    }

    fn watches_of(&mut self, object: Object) -> &mut Vec<WatchId> {
        match object {
            Object::End(id) => &mut self.net.end_mut(id).watches,
            Object::Listener(id) => &mut self.net.listening.socket_mut(id).watches,
            Object::Notifier(id) => self.groups[id.group as usize].watches_mut(id.slot),
        }
    }

    pub(crate) fn queue(&mut self, watch: WatchId) {
        self.pollers[watch.poller as usize].queue(watch.id);
    }

    /// Wakes whoever sleeps in a poller's wait. Returns whether anybody did.
    pub(crate) fn rouse(&mut self, poller: u32) -> bool {
        let slept = std::mem::take(&mut self.pollers[poller as usize].sleeps);
        self.roused |= slept;
        slept
    }

    /// A client has come to a listener: all who watch it are woken; of those who watch it
    /// exclusively, the first who sleeps, even if he is stopped (as Linux does).
    pub(crate) fn touch_listener(&mut self, id: ListenerId) {
        let watches = self.net.listening.socket(id).watches.clone();
        let is_exclusive =
            |state: &Self, it: &WatchId| state.pollers[it.poller as usize].is_exclusive(it.id);
        for watch in &watches {
            if !is_exclusive(self, watch) {
                self.queue(*watch);
                self.rouse(watch.poller);
            }
        }
        for watch in &watches {
            if is_exclusive(self, watch) {
                self.queue(*watch);
                if self.rouse(watch.poller) {
                    break;
                }
            }
        }
    }

    /// Whether a wait would end at once.
    pub(crate) fn would_report(&mut self, poller: u32) -> bool {
        let (net, groups) = (&self.net, &self.groups);
        let instance = &mut self.pollers[poller as usize];
        instance.is_woken() || instance.would_report(|object| Self::holds(net, groups, object))
    }

    /// One wait of a loop that waits alone: lets time pass until there is something to report.
    pub(crate) fn wait(
        &mut self,
        poller: u32,
        events: EventSink<'_>,
        timeout: Option<Duration>,
    ) -> Result<()> {
        let begun_ns = self.now_ns();
        let turn_ns = self.turn_ns();
        self.pass(turn_ns);
        let limit_ns = timeout.map(|timeout| begun_ns.saturating_add(whole_ns(timeout)));
        loop {
            self.pollers[poller as usize].sleeps = true;
            if self.would_report(poller) || limit_ns.is_some_and(|limit| limit <= self.now_ns()) {
                break;
            }
            self.sleep(limit_ns)?;
        }
        self.pollers[poller as usize].sleeps = false;
        self.look(poller, events, timeout != Some(Duration::ZERO))
    }

    /// What a wait finds that does not wait; or that `sleeps`, and is over.
    pub(crate) fn look(
        &mut self,
        poller: u32,
        mut events: EventSink<'_>,
        sleeps: bool,
    ) -> Result<()> {
        self.trouble_clocks();
        // A signal may come before an event, which the next wait then tells of. But whom the kernel
        // chose to wake for a client hears of the client: else it would have chosen another. And a
        // wait that does not sleep tells what there is, whatever signals there are.
        let is_chosen = self.pollers[poller as usize].is_chosen();
        if sleeps && !is_chosen && self.fails(Fault::InterruptedWait) {
            return Err(Error::Interrupted);
        }
        self.trouble_readiness(poller);
        let (net, groups) = (&self.net, &self.groups);
        let instance = &mut self.pollers[poller as usize];
        if instance.take_woken() {
            events.set_woken();
        }
        let reported = instance.collect(events.remaining(), |object| {
            Self::holds(net, groups, object)
        });
        let (now_ns, count) = (self.agenda.now_ns(), reported.len() as u64);
        self.trace
            .note(now_ns, What::Wait, u64::from(poller), count);
        for (key, ready) in reported {
            events.push(key, ready);
            let ready = ready_number(ready);
            self.trace.note(now_ns, What::Report, key, ready);
        }
        Ok(())
    }

    /// Sleeps until the first sleeper is woken (who may be another, and then nothing has changed
    /// here), or the limit.
    fn sleep(&mut self, limit_ns: Option<u64>) -> Result<()> {
        let now_ns = self.now_ns();
        if now_ns >= self.end_ns {
            return Err(over("the end that was set for this world has come"));
        }
        if limit_ns.is_none() && self.agenda.next_ns().is_none() && self.end_ns == u64::MAX {
            return Err(over(
                "nothing is left to happen, so this wait would never end",
            ));
        }
        self.run(limit_ns.unwrap_or(u64::MAX).min(self.end_ns), false);
        Ok(())
    }

    /// Time passes for whoever is at work, and things happen meanwhile.
    fn pass(&mut self, ns: u64) {
        let until_ns = self.now_ns().saturating_add(ns);
        while let Some(happening) = self.agenda.take(until_ns) {
            self.happen(happening);
        }
        self.agenda.pass_to(until_ns);
    }

    /// The faults of what is ready.
    fn trouble_readiness(&mut self, poller: u32) {
        for fault in [Fault::SpuriousReadiness, Fault::RepeatedReadiness] {
            if !self.rng.happens(self.faults.chance(fault)) {
                continue;
            }
            let ids = self.pollers[poller as usize].ids();
            let id = if ids > 0 { self.rng.index(ids) } else { 0 };
            let untrue = fault == Fault::SpuriousReadiness;
            if self.pollers[poller as usize].trouble(id, untrue) {
                self.occurred(fault);
            }
        }
        if self.pollers[poller as usize].list_mut().len() > 1 && self.fails(Fault::ReorderedEvents)
        {
            let list = self.pollers[poller as usize].list_mut();
            self.rng.shuffle(list);
        }
    }
}

/// For the record.
fn ready_number(ready: evcore::Ready) -> u64 {
    [
        ready.is_readable(),
        ready.is_writable(),
        ready.is_priority(),
        ready.is_read_closed(),
        ready.is_write_closed(),
        ready.is_error(),
    ]
    .into_iter()
    .fold(0, |number, bit| 2 * number + u64::from(bit))
}

/// EBADF, which is 9 on every Unix.
fn bad_descriptor() -> Error {
    Error::Os {
        call: "the simulated registration",
        source: io::Error::from_raw_os_error(9),
    }
}

fn over(why: &'static str) -> Error {
    Error::Os {
        call: "the simulated wait",
        source: io::Error::new(io::ErrorKind::TimedOut, Over(why)),
    }
}

/// Why a wait does not return.
#[derive(Debug)]
pub(crate) struct Over(&'static str);

impl std::fmt::Display for Over {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Over {}
