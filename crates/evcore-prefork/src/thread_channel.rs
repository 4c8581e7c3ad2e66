//! What the master and a worker that is a thread report to each other.

use std::{
    io::Write,
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering},
    },
};

use crate::{ExitCause, Stop};

/// Shared by one worker and its master.
#[derive(Debug)]
pub(crate) struct ThreadChannel {
    /// As in `SignalState`: 0 if no stop was requested.
    severity: AtomicU8,
    reopen_count: AtomicU32,
    /// What wakes the worker. The master stores a request before it takes this lock, the worker
    /// looks for requests after it has released it.
    wake: Mutex<Option<OwnedFd>>,
    is_ready: AtomicBool,
    /// How the worker ended. None: it runs, or its end was taken.
    end: Mutex<Option<ExitCause>>,
    /// Wakes the master.
    master: Arc<UnixStream>,
}

/// The master's side.
impl ThreadChannel {
    pub(crate) fn new(master: Arc<UnixStream>) -> Self {
        Self {
            severity: AtomicU8::new(0),
            reopen_count: AtomicU32::new(0),
            wake: Mutex::new(None),
            is_ready: AtomicBool::new(false),
            end: Mutex::new(None),
            master,
        }
    }

    pub(crate) fn stop(&self, stop: Stop) {
        self.severity.fetch_max(stop.severity(), Ordering::Release);
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

    fn wake_worker(&self) {
        if let Some(fd) = &*lock(&self.wake) {
            // If it is full, its reader has been woken already.
            let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
        }
    }
}

/// The worker's side.
impl ThreadChannel {
    pub(crate) fn severity(&self) -> u8 {
        self.severity.load(Ordering::Acquire)
    }

    pub(crate) fn reopen_count(&self) -> u32 {
        self.reopen_count.load(Ordering::Acquire)
    }

    /// From now on each request is written to `fd`, and at once if there was one before.
    pub(crate) fn set_wake_fd(&self, fd: OwnedFd) {
        *lock(&self.wake) = Some(fd);
        if self.severity() != 0 || self.reopen_count() != 0 {
            self.wake_worker();
        }
    }

    pub(crate) fn ready(&self) {
        self.is_ready.store(true, Ordering::Release);
        self.wake_master();
    }

    pub(crate) fn end(&self, cause: ExitCause) {
        *lock(&self.end) = Some(cause);
        self.wake_master();
    }

    /// If the self-pipe is full, the master has been woken already.
    fn wake_master(&self) {
        let _ = (&*self.master).write(&1u64.to_ne_bytes());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn channel() -> (ThreadChannel, UnixStream) {
        let (master, write) = UnixStream::pair().unwrap();
        (ThreadChannel::new(Arc::new(write)), master)
    }

    #[test]
    fn a_stop_wakes_an_early_and_a_late_descriptor() {
        let (channel, _master) = channel();
        let pairs = [(); 2].map(|()| UnixStream::pair().unwrap());
        let [(mut early, early_write), (mut late, late_write)] = pairs;
        channel.set_wake_fd(early_write.into());
        channel.stop(Stop::Graceful);
        early.read_exact(&mut [0; 8]).unwrap();
        channel.set_wake_fd(late_write.into());
        late.read_exact(&mut [0; 8]).unwrap();
        let stop = Stop::from_severity(channel.severity());
        assert_eq!(stop, Some(Stop::Graceful));
    }

    #[test]
    fn a_stop_becomes_faster_and_never_slower() {
        let (channel, _master) = channel();
        channel.stop(Stop::Fast);
        channel.stop(Stop::Graceful);
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
