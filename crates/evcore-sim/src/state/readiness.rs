//! Registrations, wake-ups, and the reports of a wait.

use std::{io, time::Duration};

use evcore::{
    Ready,
    poller::{Capabilities, Error, EventSink, Registration, Result},
};

use super::State;
use crate::{
    faults::Fault,
    kernel_poller::{ANY_CHANGE, KernelPoller, Object, Report},
    net::ListenerId,
    rng::whole_ns,
    trace::{Detail, Event, Subject},
    watch_id::WatchId,
};

impl State {
    pub(crate) fn open_poller(&mut self, process: u32, capabilities: Capabilities) -> u32 {
        let poller = u32::try_from(self.pollers.len()).expect("there are fewer pollers");
        self.pollers.push(KernelPoller::new(process, capabilities));
        self.processes[process as usize].pollers.push(poller);
        poller
    }

    pub(crate) fn close_poller(&mut self, poller: u32) {
        for id in 0..self.pollers[poller as usize].id_count() {
            // The call fails for ids without a registration.
            let _ = self.unwatch(poller, id);
        }
        let process = self.pollers[poller as usize].process;
        let pollers = &mut self.processes[process as usize].pollers;
        pollers.retain(|other| *other != poller);
    }

    pub(crate) fn watch(&mut self, poller: u32, new: &Registration) -> Result<()> {
        let process = self.pollers[poller as usize].process;
        let descriptors = &self.processes[process as usize].descriptors;
        let object = descriptors.object(new.fd).ok_or_else(bad_descriptor)?;
        let watch = WatchId {
            poller,
            id: u32::try_from(new.id()).expect("the low half of a key"),
        };
        self.watches_of(object).push(watch);
        self.detail(|| Detail::Watched {
            process,
            key: new.key,
            object,
            interest: new.interest,
            mode: new.mode,
        });
        self.pollers[poller as usize].add(new, object);
        self.mark_ready(watch, ANY_CHANGE);
        Ok(())
    }

    /// Changes a registration. The next wait reports the readiness that holds then, as after
    /// [`watch`](Self::watch).
    pub(crate) fn rewatch(&mut self, poller: u32, new: &Registration) -> Result<()> {
        let id = u32::try_from(new.id()).expect("the low half of a key");
        if !self.pollers[poller as usize].modify(new) {
            return Err(bad_descriptor());
        }
        let kernel_poller = &self.pollers[poller as usize];
        let (process, object) = (kernel_poller.process, kernel_poller.object(new.id()));
        if let Some(object) = object {
            self.detail(|| Detail::Rewatched {
                process,
                object,
                interest: new.interest,
            });
        }
        self.mark_ready(WatchId { poller, id }, ANY_CHANGE);
        Ok(())
    }

    /// Removes a registration. Fails if it is gone, because its descriptor was closed.
    pub(crate) fn unwatch(&mut self, poller: u32, id: usize) -> Result<()> {
        let removed = self.pollers[poller as usize].remove(id);
        let object = removed.ok_or_else(bad_descriptor)?;
        let process = self.pollers[poller as usize].process;
        self.detail(|| Detail::Unwatched { process, object });
        let is_removed = |watch: &WatchId| watch.poller == poller && watch.id as usize == id;
        self.watches_of(object).retain(|watch| !is_removed(watch));
        Ok(())
    }

    fn watches_of(&mut self, object: Object) -> &mut Vec<WatchId> {
        match object {
            Object::Endpoint(id) => &mut self.net.endpoint_mut(id).watches,
            Object::Listener(id) => &mut self.net.listeners.socket_mut(id).watches,
            Object::Udp(id) => &mut self.net.udp.socket_mut(id).watches,
            Object::Channel(id) => &mut self.net.channels.end_mut(id).watches,
            Object::Counter(_) => unreachable!("a counter is not watched"),
            Object::Notifier(id) => self.groups[id.group as usize].watches_mut(id.slot),
        }
    }

    pub(crate) fn mark_ready(&mut self, watch: WatchId, changes: Ready) {
        self.pollers[watch.poller as usize].mark_ready(watch.id, changes);
    }

    /// Wakes the poller if it sleeps in a wait. Returns whether it slept.
    pub(crate) fn wake_sleeper(&mut self, poller: u32) -> bool {
        let slept = std::mem::take(&mut self.pollers[poller as usize].is_sleeping);
        self.woke_sleeper |= slept;
        slept
    }

    /// Wakes pollers because a connection has come to a listener: every poller that watches the
    /// listener without exclusive wake-ups, and the first sleeping poller that watches it with
    /// them. (As on Linux, the process of that sleeping poller may be paused.)
    pub(crate) fn notify_listener_watchers(&mut self, id: ListenerId) {
        let watches = self.net.listeners.socket(id).watches.clone();
        let is_exclusive = |state: &Self, watch: &WatchId| {
            state.pollers[watch.poller as usize].is_exclusive(watch.id)
        };
        for watch in &watches {
            if !is_exclusive(self, watch) {
                self.mark_ready(*watch, Ready::READABLE);
                self.wake_sleeper(watch.poller);
            }
        }
        for watch in &watches {
            if is_exclusive(self, watch) {
                self.mark_ready(*watch, Ready::READABLE);
                if self.wake_sleeper(watch.poller) {
                    break;
                }
            }
        }
    }

    pub(crate) fn would_report(&mut self, poller: u32) -> bool {
        let (net, groups) = (&self.net, &self.groups);
        let kernel_poller = &mut self.pollers[poller as usize];
        kernel_poller.is_woken()
            || kernel_poller.would_report(|object| Self::readiness(net, groups, object))
    }

    /// Waits outside of `Workers`: lets time pass until an event can be reported, or until the
    /// timeout.
    pub(crate) fn wait(
        &mut self,
        poller: u32,
        events: EventSink<'_>,
        timeout: Option<Duration>,
    ) -> Result<()> {
        let start_ns = self.now_ns();
        let turn_ns = self.turn_ns();
        self.spend(turn_ns);
        let limit_ns = timeout.map(|timeout| start_ns.saturating_add(whole_ns(timeout)));
        let mut has_slept = false;
        loop {
            self.pollers[poller as usize].is_sleeping = true;
            if self.would_report(poller) || limit_ns.is_some_and(|limit| limit <= self.now_ns()) {
                break;
            }
            self.sleep(limit_ns)?;
            has_slept = true;
        }
        self.pollers[poller as usize].is_sleeping = false;
        self.collect(poller, events, has_slept)
    }

    /// Reports the ready objects at the end of a wait. `has_slept` is `false` if the wait had an
    /// event when it began, or if its timeout was 0.
    pub(crate) fn collect(
        &mut self,
        poller: u32,
        mut events: EventSink<'_>,
        has_slept: bool,
    ) -> Result<()> {
        self.inject_clock_faults();
        let process = self.pollers[poller as usize].process;
        // A signal may end the wait before an event is reported. The next wait then reports the
        // event. But a wait that an exclusive registration has woken reports that registration,
        // because the kernel has woken no other wait for it.
        let has_exclusive_ready = self.pollers[poller as usize].has_exclusive_ready();
        if has_slept
            && !has_exclusive_ready
            && self.draw_fault(Fault::InterruptedWait, Subject::Process(process))
        {
            return Err(Error::Interrupted);
        }
        self.inject_readiness_faults(poller);
        let (net, groups) = (&self.net, &self.groups);
        let kernel_poller = &mut self.pollers[poller as usize];
        if kernel_poller.take_woken() {
            events.set_woken();
        }
        let reported = kernel_poller.collect(events.remaining(), |object| {
            Self::readiness(net, groups, object)
        });
        self.note(Event::WaitEnded {
            poller,
            process,
            events: reported.len(),
        });
        for Report { key, object, ready } in reported {
            events.push(key, ready);
            self.note(Event::Reported {
                process,
                key,
                object,
                ready,
            });
        }
        Ok(())
    }

    /// Sleeps until the limit, or until any poller may have been woken.
    fn sleep(&mut self, limit_ns: Option<u64>) -> Result<()> {
        let now_ns = self.now_ns();
        if now_ns >= self.time_limit_ns {
            return Err(timed_out("the time limit of the simulation is reached"));
        }
        if limit_ns.is_none()
            && self.event_queue.next_ns().is_none()
            && self.time_limit_ns == u64::MAX
        {
            return Err(timed_out(
                "nothing is left to happen, so this wait would never end",
            ));
        }
        self.run(limit_ns.unwrap_or(u64::MAX).min(self.time_limit_ns), false);
        Ok(())
    }

    /// Lets time pass for the program's work since its last wait. Events happen meanwhile.
    fn spend(&mut self, ns: u64) {
        let until_ns = self.now_ns().saturating_add(ns);
        while let Some(event) = self.event_queue.pop(until_ns) {
            self.apply(event);
        }
        self.event_queue.advance_to(until_ns);
    }

    /// Returns whether a registration belongs to a connect that is under way. Its readiness means
    /// that the connect has a result, so no kernel reports it spuriously.
    fn is_connecting(&self, poller: u32, id: usize) -> bool {
        let object = self.pollers[poller as usize].object(id);
        matches!(object, Some(Object::Endpoint(id)) if self.net.endpoint(id).is_connecting())
    }

    fn inject_readiness_faults(&mut self, poller: u32) {
        let process = self.pollers[poller as usize].process;
        for fault in [Fault::SpuriousReadiness, Fault::RepeatedReadiness] {
            if !self.rng.happens(self.faults.probability(fault)) {
                continue;
            }
            let ids = self.pollers[poller as usize].id_count();
            let id = if ids > 0 { self.rng.index(ids) } else { 0 };
            let spurious = fault == Fault::SpuriousReadiness;
            // The same numbers are drawn whether the fault is permitted or not.
            if self.permits(fault)
                && !(spurious && self.is_connecting(poller, id))
                && self.pollers[poller as usize].inject(id, spurious)
            {
                let object = self.pollers[poller as usize].object(id);
                self.count_fault(fault, Subject::of(object, process));
            }
        }
        if self.pollers[poller as usize].ready_list_mut().len() > 1
            && self.draw_fault(Fault::ReorderedEvents, Subject::Process(process))
        {
            let list = self.pollers[poller as usize].ready_list_mut();
            self.rng.shuffle(list);
        }
    }
}

/// EBADF, which is 9 on every Unix.
fn bad_descriptor() -> Error {
    Error::Os {
        call: "the simulated registration",
        source: io::Error::from_raw_os_error(9),
    }
}

fn timed_out(why: &'static str) -> Error {
    Error::Os {
        call: "the simulated wait",
        source: io::Error::new(io::ErrorKind::TimedOut, WaitEnded(why)),
    }
}

#[derive(Debug)]
pub(crate) struct WaitEnded(&'static str);

impl std::fmt::Display for WaitEnded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for WaitEnded {}
