//! The channel on which the master and a worker that is a thread report to each other.
//!
//! `tests/loom_thread_channel.rs` includes this file, runs it over loom's lock and atomics, and
//! replaces single operations by wrong ones. So the fields are `pub(crate)`.

use std::{
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{Arc, PoisonError},
};

use crate::{
    exit::ExitCause,
    sync::{AtomicBool, AtomicU8, AtomicU32, Mutex, MutexGuard, Ordering},
    wake::Wake,
};

/// The channel between one worker and its master. `W` wakes the worker, and `M` wakes the master.
#[derive(Debug)]
pub(crate) struct ThreadChannel<W = OwnedFd, M = UnixStream> {
    /// The severity of the stop, as in `SignalState`; 0 if none was requested.
    pub(crate) severity: AtomicU8,
    pub(crate) reopen_count: AtomicU32,
    /// The waker of the worker. No request is missed: the master stores one before it takes this
    /// lock, and the worker looks for requests after it has released the lock.
    pub(crate) worker: Mutex<Option<W>>,
    pub(crate) is_ready: AtomicBool,
    /// The cause of the worker's end. None while the worker runs, and after the cause was taken.
    pub(crate) end: Mutex<Option<ExitCause>>,
    pub(crate) master: Arc<M>,
}

/// The master's side.
impl<W: Wake, M: Wake> ThreadChannel<W, M> {
    pub(crate) fn new(master: Arc<M>) -> Self {
        Self {
            severity: AtomicU8::new(0),
            reopen_count: AtomicU32::new(0),
            worker: Mutex::new(None),
            is_ready: AtomicBool::new(false),
            end: Mutex::new(None),
            master,
        }
    }

    pub(crate) fn stop(&self, severity: u8) {
        self.severity.fetch_max(severity, Ordering::Release);
        self.wake_worker();
    }

    pub(crate) fn reopen(&self) {
        self.reopen_count.fetch_add(1, Ordering::Release);
        self.wake_worker();
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    pub(crate) fn take_end(&self) -> Option<ExitCause> {
        lock(&self.end).take()
    }

    pub(crate) fn wake_worker(&self) {
        if let Some(worker) = &*lock(&self.worker) {
            worker.wake();
        }
    }
}

/// The worker's side.
impl<W: Wake, M: Wake> ThreadChannel<W, M> {
    pub(crate) fn severity(&self) -> u8 {
        self.severity.load(Ordering::Acquire)
    }

    pub(crate) fn reopen_count(&self) -> u32 {
        self.reopen_count.load(Ordering::Acquire)
    }

    /// Makes each request wake `worker`. An earlier request wakes it at once.
    pub(crate) fn set_wake(&self, worker: W) {
        *lock(&self.worker) = Some(worker);
        if self.severity() != 0 || self.reopen_count() != 0 {
            self.wake_worker();
        }
    }

    pub(crate) fn ready(&self) {
        self.is_ready.store(true, Ordering::Release);
        self.master.wake();
    }

    pub(crate) fn end(&self, cause: ExitCause) {
        *lock(&self.end) = Some(cause);
        self.master.wake();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(evcore_loom)))]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::stop::Stop;

    fn channel() -> (ThreadChannel, UnixStream) {
        let (master, write) = UnixStream::pair().unwrap();
        (ThreadChannel::new(Arc::new(write)), master)
    }

    #[test]
    fn a_stop_wakes_descriptors_set_before_and_after() {
        let (channel, _master) = channel();
        let pairs = [(); 2].map(|()| UnixStream::pair().unwrap());
        let [(mut early, early_write), (mut late, late_write)] = pairs;
        channel.set_wake(early_write.into());
        channel.stop(Stop::Graceful.severity());
        early.read_exact(&mut [0; 8]).unwrap();
        channel.set_wake(late_write.into());
        late.read_exact(&mut [0; 8]).unwrap();
        let stop = Stop::from_severity(channel.severity());
        assert_eq!(stop, Some(Stop::Graceful));
    }

    #[test]
    fn a_stop_becomes_faster_and_never_slower() {
        let (channel, _master) = channel();
        channel.stop(Stop::Fast.severity());
        channel.stop(Stop::Graceful.severity());
        assert_eq!(Stop::from_severity(channel.severity()), Some(Stop::Fast));
    }

    #[test]
    fn a_ready_worker_wakes_its_master() {
        let (channel, mut master) = channel();
        assert!(!channel.is_ready());
        channel.ready();
        master.read_exact(&mut [0; 8]).unwrap();
        assert!(channel.is_ready());
    }

    #[test]
    fn the_end_of_a_worker_wakes_its_master_and_is_taken_once() {
        let (channel, mut master) = channel();
        assert_eq!(channel.take_end(), None);
        channel.end(ExitCause::Exited(7));
        master.read_exact(&mut [0; 8]).unwrap();
        assert_eq!(channel.take_end(), Some(ExitCause::Exited(7)));
        assert_eq!(channel.take_end(), None);
    }
}
