//! The mutex, the condition variable, the thread and the time of the scheduler: from `parking_lot`
//! and the standard library, or loom's in the loom tests.
//!
//! Under loom, time stands still and no sleep ends by itself. So loom reports a lost wake-up as a
//! deadlock.

pub(crate) use self::imp::{Condvar, JoinHandle, Mutex, MutexGuard, now, spawn, this_thread};

#[cfg(not(evcore_loom))]
mod imp {
    use std::io;
    use std::thread::{self, Builder, ThreadId};
    use std::time::Instant;

    pub(crate) use parking_lot::{Mutex, MutexGuard};
    pub(crate) use std::thread::JoinHandle;

    /// A condition variable whose waits take and return the guard, as the standard library's do.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }

        pub(crate) fn wait_until<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            end: Instant,
        ) -> MutexGuard<'a, T> {
            self.0.wait_until(&mut guard, end);
            guard
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }
    }

    pub(crate) fn now() -> Instant {
        Instant::now()
    }

    pub(crate) fn spawn(
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        Builder::new().name(name.to_owned()).spawn(body)
    }

    pub(crate) fn this_thread() -> ThreadId {
        thread::current().id()
    }
}

#[cfg(evcore_loom)]
mod imp {
    use std::io;
    use std::sync::OnceLock;
    use std::time::Instant;

    use loom::thread::{self, ThreadId};

    pub(crate) use loom::sync::MutexGuard;
    pub(crate) use loom::thread::JoinHandle;

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap()
        }

        pub(crate) fn wait_until<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _end: Instant,
        ) -> MutexGuard<'a, T> {
            self.wait(guard)
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }
    }

    pub(crate) fn now() -> Instant {
        static NOW: OnceLock<Instant> = OnceLock::new();
        *NOW.get_or_init(Instant::now)
    }

    pub(crate) fn spawn(
        _name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        Ok(thread::spawn(body))
    }

    pub(crate) fn this_thread() -> ThreadId {
        thread::current().id()
    }
}
