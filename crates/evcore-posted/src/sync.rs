//! The lock, the condition variable and the atomics of an inbox and of requests. They come from
//! `parking_lot` and the standard library, or from loom in the loom tests.

pub(crate) use self::imp::{AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, fence};

#[cfg(not(evcore_loom))]
mod imp {
    use std::time::Instant;

    use parking_lot::MutexGuard;

    pub(crate) use parking_lot::Mutex;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};

    #[derive(Debug)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self(parking_lot::Condvar::new())
        }

        /// Waits without the lock for a notification, or until the deadline if there is one, and
        /// may return early. Returns whether there is time left.
        pub(crate) fn wait<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            deadline: Option<Instant>,
        ) -> (MutexGuard<'a, T>, bool) {
            let has_time = match deadline {
                Some(deadline) => !self.0.wait_until(&mut guard, deadline).timed_out(),
                None => {
                    self.0.wait(&mut guard);
                    true
                }
            };
            (guard, has_time)
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

#[cfg(evcore_loom)]
mod imp {
    use std::time::Instant;

    use loom::sync::MutexGuard;

    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};

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

    #[derive(Debug)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self(loom::sync::Condvar::new())
        }

        /// Waits until it is notified. Time does not pass in loom, so a deadline is never reached.
        pub(crate) fn wait<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _deadline: Option<Instant>,
        ) -> (MutexGuard<'a, T>, bool) {
            (self.0.wait(guard).unwrap(), true)
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
