//! A model of a port, for tests.
//!
//! The model has these rules, from illumos' sources:
//!
//! - an association for each descriptor's number, which is one-shot: the delivery of its event ends
//!   it; it ends too, with its queued event, by `port_dissociate` and when the number is closed;
//! - associating a ready descriptor queues the event at once; associating it again replaces its
//!   flags, drops the queued event and evaluates it afresh;
//! - an event reports what was true when it was queued, though it may not be true any more;
//! - errors and hang-ups are always reported;
//! - `port_getn` takes what is queued, in order, up to the length of the list, and waits only while
//!   there are fewer than its count; on ETIME and EINTR it may have taken some, and may leave
//!   its count alone ([`End`]);
//! - EBADFD for a number that is not open, ENOENT for an association that is not there, EINVAL for
//!   a list that is shorter than the count.
//!
//! The model has no other processes, no other sources, and no limits.
//!
//! Numbers from [`FIRST`] on are files of the model. Those below are real ones, which a real poll
//! looks at in every call: so a real waker works. Time does not pass: a wait without an event ends
//! at once, and is recorded, unless something becomes ready [in a wait](Port::set_in_wait).

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::c_int,
    os::fd::RawFd,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use rustix::io::Errno;

use super::{
    super::{
        model_support::{is_readable, pass},
        raw_fd::is_open,
    },
    kernel::{Kernel, PortEvent, SOURCE_FD},
};

/// The first number of the model's own files.
pub(super) const FIRST: RawFd = 5_000;

/// The flags that are reported without a request.
const UNREQUESTED: c_int = (libc::POLLERR | libc::POLLHUP) as c_int;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Associate(RawFd, c_int),
    Dissociate(RawFd),
    /// The greatest number of events, and the timeout.
    Getn(usize, Option<Duration>),
}

/// An unusual end of a `port_getn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A signal ends the call before any event was taken. The count is unchanged.
    Interrupted,
    /// A signal or the timeout ends the call after events were taken and counted.
    Late(Errno),
    /// The call fails with another error.
    Broken,
}

#[derive(Debug, Default)]
pub(super) struct Port {
    /// The readiness of each open file.
    files: BTreeMap<RawFd, c_int>,
    /// The flags of each association.
    associations: BTreeMap<RawFd, c_int>,
    /// The events that wait for delivery. An association has at most one.
    queue: VecDeque<(RawFd, c_int)>,
    /// The ends of the next calls of `port_getn`.
    pub(super) ends: VecDeque<End>,
    /// The numbers whose association fails with ENOMEM.
    pub(super) refuses: Vec<RawFd>,
    /// The file that becomes ready in the next call that waits, and the time after which it does.
    change: Option<(Duration, RawFd, c_int)>,
    /// True if ETIME sets the count to 0. Otherwise ETIME leaves the count alone.
    pub(super) counts_none: bool,
    calls: Vec<Call>,
}

impl Port {
    /// Opens a file, with nothing ready.
    pub(super) fn open(&mut self, fd: RawFd) {
        assert!(fd >= FIRST && self.files.insert(fd, 0).is_none());
    }

    pub(super) fn close(&mut self, fd: RawFd) {
        self.files.remove(&fd).expect("it is open");
        self.associations.remove(&fd);
        self.unqueue(fd);
    }

    /// Makes all of `ready`, and nothing else, true of `fd`.
    pub(super) fn set(&mut self, fd: RawFd, ready: c_int) {
        *self.files.get_mut(&fd).expect("it is open") = ready;
        self.look(fd);
    }

    /// Makes `ready` true of `fd` when the next call that waits has waited for `after`, in real
    /// time, by which the poller measures.
    pub(super) fn set_in_wait(&mut self, after: Duration, fd: RawFd, ready: c_int) {
        self.change = Some((after, fd, ready));
    }

    /// The calls since the last look, without those for real files.
    pub(super) fn calls(&mut self) -> Vec<Call> {
        let calls = std::mem::take(&mut self.calls);
        let is_ours = |call: &Call| match call {
            Call::Associate(fd, _) | Call::Dissociate(fd) => *fd >= FIRST,
            Call::Getn(..) => true,
        };
        calls.into_iter().filter(is_ours).collect()
    }

    /// Returns the readiness, or `None` if the file is not open.
    fn ready(&self, fd: RawFd) -> Option<c_int> {
        if fd >= FIRST {
            return self.files.get(&fd).copied();
        }
        is_open(fd).ok()?;
        Some(if is_readable(fd) {
            libc::POLLIN.into()
        } else {
            0
        })
    }

    /// Queues the event of an association, if its flags are true and it is not queued yet.
    fn look(&mut self, fd: RawFd) {
        let Some(flags) = self.associations.get(&fd) else {
            return;
        };
        let found = self.ready(fd).expect("close ends associations") & (flags | UNREQUESTED);
        if found != 0 && !self.queue.iter().any(|queued| queued.0 == fd) {
            self.queue.push_back((fd, found));
        }
    }

    fn unqueue(&mut self, fd: RawFd) {
        self.queue.retain(|queued| queued.0 != fd);
    }

    fn look_at_real_files(&mut self) {
        let real: Vec<_> = self
            .associations
            .range(..FIRST)
            .map(|(fd, _)| *fd)
            .collect();
        real.into_iter().for_each(|fd| self.look(fd));
    }

    fn deliver(&mut self, list: &mut [PortEvent]) -> u32 {
        let mut count = 0;
        for (place, (fd, found)) in list.iter_mut().zip(std::iter::from_fn(|| {
            let (fd, found) = self.queue.pop_front()?;
            self.associations.remove(&fd);
            Some((fd, found))
        })) {
            *place = PortEvent {
                events: found,
                source: SOURCE_FD,
                object: usize::try_from(fd).expect("a descriptor"),
                ..PortEvent::default()
            };
            count += 1;
        }
        count
    }

    fn associate(&mut self, fd: RawFd, flags: c_int) -> Result<(), Errno> {
        self.calls.push(Call::Associate(fd, flags));
        if self.ready(fd).is_none() {
            return Err(Errno::BADFD);
        }
        if self.refuses.contains(&fd) {
            return Err(Errno::NOMEM);
        }
        self.unqueue(fd);
        self.associations.insert(fd, flags);
        self.look(fd);
        Ok(())
    }

    fn dissociate(&mut self, fd: RawFd) -> Result<(), Errno> {
        self.calls.push(Call::Dissociate(fd));
        if self.ready(fd).is_none() {
            return Err(Errno::BADFD);
        }
        self.unqueue(fd);
        self.associations.remove(&fd).map(drop).ok_or(Errno::NOENT)
    }

    fn getn(
        &mut self,
        list: &mut [PortEvent],
        count: &mut u32,
        timeout: Option<Duration>,
    ) -> Result<(), Errno> {
        self.calls.push(Call::Getn(list.len(), timeout));
        if (*count as usize) > list.len() {
            return Err(Errno::INVAL);
        }
        let has_waker = self.associations.range(..FIRST).next().is_some();
        assert!(
            has_waker || timeout == Some(Duration::ZERO),
            "this wait is deaf to wakes"
        );
        self.look_at_real_files();
        match self.ends.pop_front() {
            Some(End::Interrupted) => return Err(Errno::INTR),
            Some(End::Broken) => return Err(Errno::BADF),
            Some(End::Late(errno)) => {
                *count = self.deliver(list);
                return Err(errno);
            }
            None => {}
        }
        if self.queue.len() < *count as usize && timeout != Some(Duration::ZERO) {
            if let Some((after, fd, ready)) = self.change.take() {
                pass(after);
                self.set(fd, ready);
            }
        }
        if self.queue.len() < *count as usize {
            assert!(timeout.is_some(), "this wait would never end");
            if self.counts_none {
                *count = 0;
            }
            return Err(Errno::TIME);
        }
        *count = self.deliver(list);
        Ok(())
    }
}

/// The port, as the backend and its test see it.
#[derive(Clone, Debug, Default)]
pub(super) struct FakeKernel {
    port: Arc<Mutex<Port>>,
}

impl FakeKernel {
    pub(super) fn port(&self) -> MutexGuard<'_, Port> {
        self.port.lock().expect("no test panics with the port")
    }
}

impl Kernel for FakeKernel {
    fn associate(&mut self, fd: RawFd, flags: c_int) -> Result<(), Errno> {
        self.port().associate(fd, flags)
    }

    fn dissociate(&mut self, fd: RawFd) -> Result<(), Errno> {
        self.port().dissociate(fd)
    }

    fn getn(
        &mut self,
        list: &mut [PortEvent],
        count: &mut u32,
        timeout: Option<Duration>,
    ) -> Result<(), Errno> {
        self.port().getn(list, count, timeout)
    }
}
