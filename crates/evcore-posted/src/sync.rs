//! The lock and the counter of an inbox: those of `parking_lot` and the standard library, or loom's
//! in the loom tests.

pub(crate) use self::imp::{AtomicUsize, Mutex};

#[cfg(not(evcore_loom))]
mod imp {
    pub(crate) use parking_lot::Mutex;
    pub(crate) use std::sync::atomic::AtomicUsize;
}

#[cfg(evcore_loom)]
mod imp {
    use loom::sync::MutexGuard;

    pub(crate) use loom::sync::atomic::AtomicUsize;

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
}
