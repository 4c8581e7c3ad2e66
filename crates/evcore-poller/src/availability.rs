//! The backends (kernel interfaces such as epoll) that this system has, and those of them that the
//! running kernel permits.

use std::str::FromStr;

use crate::{
    backend::Backend,
    backend_kind::{BackendKind, names},
    error::Result,
    poller::Poller,
    sys,
};

impl BackendKind {
    /// Opens the backend of this kind, for a backend of your own that wraps it.
    ///
    /// To use epoll as it is, call [`Poller::with`](crate::Poller::with). Such a poller calls epoll
    /// directly, and not through the trait.
    ///
    /// # Errors
    ///
    /// The errors of [`Poller::with`](crate::Poller::with).
    ///
    /// ```
    /// use evcore_poller::{BackendKind, Poller};
    ///
    /// let backend = BackendKind::Poll.open()?;
    /// assert_eq!(Poller::from(backend).backend().name(), "poll");
    /// # Ok::<(), evcore_poller::Error>(())
    /// ```
    pub fn open(self) -> Result<Box<dyn Backend>> {
        Ok(sys::open(self)?.into_boxed())
    }

    /// Returns the backends of this system, best first, which is the order in which
    /// [`Poller::new`](crate::Poller::new) tries them. [`EpollMasked`](Self::EpollMasked) and
    /// [`IoUring`](Self::IoUring) come last, after backends that every kernel permits. So only a
    /// program that names them gets them.
    ///
    /// The running kernel may still refuse one: see [`usable`](Self::usable).
    #[must_use]
    pub const fn available() -> &'static [Self] {
        sys::AVAILABLE
    }

    /// Returns the [available](Self::available) backends that the running kernel permits. Opens and
    /// closes each of them, all in one separate thread. Opening `io_uring` includes a call of
    /// `io_uring_enter`, which a sandbox may deny although it permits `io_uring_setup`. A backend
    /// that fails for too few descriptors or too little memory counts as permitted, because such a
    /// shortage passes. (If `io_uring` gets no memory for its queues, it counts as refused, because
    /// usually the limit of locked memory is too low, and stays so.)
    ///
    /// ```
    /// use evcore_poller::BackendKind;
    ///
    /// assert!(BackendKind::usable().contains(&BackendKind::Poll));
    /// ```
    ///
    /// # Panics
    ///
    /// If no thread can be started.
    #[must_use]
    pub fn usable() -> Vec<Self> {
        let usable = || {
            let available = Self::available().iter().copied();
            available
                .filter(|kind| is_permitted(&Poller::with(*kind)))
                .collect()
        };
        // A separate thread opens the backends, because after an `io_uring` is closed, the kernel
        // interrupts the thread that has opened it.
        let usable = std::thread::spawn(usable).join();
        usable.expect("opening a poller does not panic")
    }
}

/// Parses the name of a backend of this system. The error lists the names.
impl FromStr for BackendKind {
    type Err = ParseBackendError;

    fn from_str(name: &str) -> Result<Self, ParseBackendError> {
        let known = Self::available().iter().find(|kind| kind.name() == name);
        known.copied().ok_or_else(|| ParseBackendError {
            name: name.to_owned(),
        })
    }
}

/// The error of parsing a [`BackendKind`]: no backend of this system has that name.
///
/// ```
/// let error = "completion".parse::<evcore_poller::BackendKind>().unwrap_err();
/// assert!(error.to_string().starts_with("this system has no backend \"completion\""));
/// ```
#[derive(Debug, thiserror::Error)]
#[error(
    "this system has no backend {name:?}; there are: {}",
    names(BackendKind::available())
)]
pub struct ParseBackendError {
    name: String,
}

fn is_permitted(opened: &Result<Poller>) -> bool {
    match opened {
        Ok(_) => true,
        Err(error) => error.is_exhaustion(),
    }
}

#[cfg(test)]
mod tests {
    use evcore_testing::unless_refused;

    use super::*;
    use crate::Error;

    const ALL: [BackendKind; 8] = [
        BackendKind::Epoll,
        BackendKind::Kqueue,
        BackendKind::EventPorts,
        BackendKind::DevPoll,
        BackendKind::Poll,
        BackendKind::Select,
        BackendKind::EpollMasked,
        BackendKind::IoUring,
    ];

    #[test]
    fn a_backend_that_lacks_descriptors_for_now_is_usable() {
        let opened = |errno| Err(Error::os("epoll_create1")(errno));
        assert!(is_permitted(&opened(rustix::io::Errno::MFILE)));
        assert!(is_permitted(&opened(rustix::io::Errno::NOMEM)));
        assert!(!is_permitted(&opened(rustix::io::Errno::NOSYS)));
    }

    #[test]
    fn an_absent_backend_is_an_error_that_lists_the_others() {
        for kind in ALL {
            let here = BackendKind::available().contains(&kind);
            assert_eq!(kind.name().parse::<BackendKind>().is_ok(), here, "{kind}");
            if !here {
                let error = Poller::with(kind).expect_err("it is absent");
                assert!(matches!(error, Error::Absent { .. }));
                let expected = format!(
                    "this system has no {kind}; there are: {}",
                    names(BackendKind::available())
                );
                assert_eq!(error.to_string(), expected);
            }
        }
    }

    /// Other tests run only for the usable backends, so a broken backend must not count as
    /// unusable.
    #[test]
    fn a_backend_that_is_not_usable_was_refused_by_the_kernel() {
        let usable = BackendKind::usable();
        for kind in BackendKind::available() {
            let opened =
                std::thread::spawn(|| Poller::with(*kind).map(|poller| poller.backend().name()));
            match unless_refused(opened.join().expect("no panic")) {
                Some(name) => assert!(name == kind.name() && usable.contains(kind)),
                None => assert!(*kind == BackendKind::IoUring && !usable.contains(kind)),
            }
        }
    }
}
