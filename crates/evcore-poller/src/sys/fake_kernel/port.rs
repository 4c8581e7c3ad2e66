//! A model of event ports, after illumos' sources.
//!
//! An event reports what was true when it was queued, though it may not be true any more.
//! [`Port::late`] and [`Port::counts_none`] choose the result of a `port_getn` that fails.

use std::collections::{BTreeMap, VecDeque};

use super::{
    super::poll_like::port::{PortEvent, SOURCE_FD, Sys},
    Call, Duration, Errno, FIRST, FakeKernel, Machine, RawFd, UNREQUESTED, c_int, c_short,
};

#[derive(Debug, Default)]
pub(in crate::sys) struct Port {
    associations: BTreeMap<RawFd, c_short>,
    /// The events that wait for delivery, at most one of each association.
    queue: VecDeque<(RawFd, c_short)>,
    /// The error with which the next `port_getn` fails after it has taken and counted events.
    pub(in crate::sys) late: Option<Errno>,
    /// True if ETIME sets the count to 0. Otherwise ETIME leaves the count unchanged.
    pub(in crate::sys) counts_none: bool,
}

impl Port {
    pub(super) fn close(&mut self, fd: RawFd) {
        self.associations.remove(&fd);
        self.unqueue(fd);
    }

    /// Queues the event of an association, if one of its flags is true and the event is not queued
    /// yet.
    pub(super) fn look(&mut self, fd: RawFd, ready: c_short) {
        let Some(flags) = self.associations.get(&fd) else {
            return;
        };
        let found = ready & (flags | UNREQUESTED);
        if found != 0 && !self.queue.iter().any(|queued| queued.0 == fd) {
            self.queue.push_back((fd, found));
        }
    }

    pub(super) fn watched(&self) -> impl Iterator<Item = (RawFd, c_short)> {
        let ours = self.associations.range(FIRST..);
        ours.map(|(fd, flags)| (*fd, *flags))
    }

    fn unqueue(&mut self, fd: RawFd) {
        self.queue.retain(|queued| queued.0 != fd);
    }

    fn deliver(&mut self, list: &mut [PortEvent]) -> usize {
        let count = list.len().min(self.queue.len());
        for (place, (fd, found)) in list.iter_mut().zip(self.queue.drain(..count)) {
            self.associations.remove(&fd);
            *place = PortEvent {
                events: found.into(),
                source: SOURCE_FD,
                object: usize::try_from(fd).expect("a descriptor"),
                ..PortEvent::default()
            };
        }
        count
    }
}

impl Machine {
    fn is_associated_waker(&self) -> bool {
        self.port.associations.range(..FIRST).next().is_some()
    }

    fn take(&mut self, list: &mut [PortEvent]) -> usize {
        let real: Vec<_> = self
            .port
            .associations
            .range(..FIRST)
            .map(|(fd, _)| *fd)
            .collect();
        for fd in real {
            let ready = self.ready(fd).expect("the waker is open");
            self.port.look(fd, ready);
        }
        self.port.deliver(list)
    }
}

impl Sys for FakeKernel {
    fn associate(&mut self, fd: RawFd, flags: c_int) -> Result<(), Errno> {
        let mut machine = self.machine();
        let flags = c_short::try_from(flags).expect("flags of poll");
        machine.calls.push(Call::Associate(fd, flags));
        let ready = machine.ready(fd).ok_or(Errno::BADFD)?;
        if machine.refuses.contains(&fd) {
            return Err(Errno::NOMEM);
        }
        machine.port.unqueue(fd);
        machine.port.associations.insert(fd, flags);
        machine.port.look(fd, ready);
        Ok(())
    }

    fn dissociate(&mut self, fd: RawFd) -> Result<(), Errno> {
        let mut machine = self.machine();
        machine.calls.push(Call::Dissociate(fd));
        machine.ready(fd).ok_or(Errno::BADFD)?;
        machine.port.unqueue(fd);
        let removed = machine.port.associations.remove(&fd);
        removed.map(drop).ok_or(Errno::NOENT)
    }

    fn getn(
        &mut self,
        list: &mut [PortEvent],
        count: &mut u32,
        timeout: Option<Duration>,
    ) -> Result<(), Errno> {
        let mut machine = self.machine();
        assert_eq!(*count, 1, "the model waits for one event");
        if list.is_empty() {
            return Err(Errno::INVAL);
        }
        let watches_waker = machine.is_associated_waker();
        machine.calls.push(Call::Wait(list.len(), timeout));
        let taken = machine.wait(timeout, watches_waker, |machine| machine.take(list))?;
        if taken > 0 || machine.port.counts_none {
            *count = u32::try_from(taken).expect("few");
        }
        match machine.port.late.take() {
            Some(errno) => Err(errno),
            None if taken == 0 => Err(Errno::TIME),
            None => Ok(()),
        }
    }
}
