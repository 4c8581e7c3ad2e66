//! What the master tells a worker that is a thread, and what such a worker tells it.

use std::{
    io::Write,
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering},
    },
};

use crate::Stop;

/// One worker's, shared with its master.
#[derive(Debug)]
pub(crate) struct Letterbox {
    /// As in `Told`: 0 if none was asked for.
    severity: AtomicU8,
    reopens: AtomicU32,
    /// What wakes the worker. Whoever holds the lock has told before, or will look afterwards.
    wake: Mutex<Option<OwnedFd>>,
    is_ready: AtomicBool,
    /// What wakes the master.
    master: Arc<UnixStream>,
}

impl Letterbox {
    pub(crate) fn new(master: Arc<UnixStream>) -> Self {
        Self {
            severity: AtomicU8::new(0),
            reopens: AtomicU32::new(0),
            wake: Mutex::new(None),
            is_ready: AtomicBool::new(false),
            master,
        }
    }

    pub(crate) fn tell_stop(&self, stop: Stop) {
        self.severity.fetch_max(stop.severity(), Ordering::Release);
        self.ring();
    }

    pub(crate) fn tell_reopen(&self) {
        self.reopens.fetch_add(1, Ordering::Release);
        self.ring();
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    pub(crate) fn severity(&self) -> u8 {
        self.severity.load(Ordering::Acquire)
    }

    pub(crate) fn reopens(&self) -> u32 {
        self.reopens.load(Ordering::Acquire)
    }

    /// Wakes the worker by `fd` from now on, and at once if it was told anything before.
    pub(crate) fn wake_by(&self, fd: OwnedFd) {
        *self.wake.lock().unwrap_or_else(PoisonError::into_inner) = Some(fd);
        if self.severity() != 0 || self.reopens() != 0 {
            self.ring();
        }
    }

    pub(crate) fn tell_ready(&self) {
        self.is_ready.store(true, Ordering::Release);
        ring_master(&self.master);
    }

    fn ring(&self) {
        let wake = self.wake.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fd) = &*wake {
            // If it is full, its reader has been woken already.
            let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
        }
    }
}

/// Wakes the master. If its bell is full, it has been rung already.
pub(crate) fn ring_master(mut master: &UnixStream) {
    let _ = master.write(&1u64.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn letterbox() -> (Letterbox, UnixStream) {
        let (bell, rope) = UnixStream::pair().unwrap();
        (Letterbox::new(Arc::new(rope)), bell)
    }

    #[test]
    fn a_stop_wakes_whoever_is_there_and_whoever_comes_later() {
        let (letterbox, _master) = letterbox();
        let pairs = [(); 2].map(|()| UnixStream::pair().unwrap());
        let [(mut early, early_rope), (mut late, late_rope)] = pairs;
        letterbox.wake_by(early_rope.into());
        letterbox.tell_stop(Stop::Graceful);
        early.read_exact(&mut [0; 8]).unwrap();
        letterbox.wake_by(late_rope.into());
        late.read_exact(&mut [0; 8]).unwrap();
        assert_eq!(Stop::of(letterbox.severity()), Some(Stop::Graceful));
    }

    #[test]
    fn a_stop_is_made_faster_and_never_slower() {
        let (letterbox, _master) = letterbox();
        letterbox.tell_stop(Stop::Fast);
        letterbox.tell_stop(Stop::Graceful);
        assert_eq!(Stop::of(letterbox.severity()), Some(Stop::Fast));
    }

    #[test]
    fn a_worker_that_is_ready_wakes_its_master() {
        let (letterbox, mut master) = letterbox();
        assert!(!letterbox.is_ready());
        letterbox.tell_ready();
        master.read_exact(&mut [0; 8]).unwrap();
        assert!(letterbox.is_ready());
    }
}
