//! Additions that `polling` does not have: the choice of a backend, and the proof that waits used
//! it.

use std::{
    collections::BTreeMap,
    env, io,
    sync::{Mutex, PoisonError},
};

use evcore_poller::BackendKind;

/// The environment variable that names the backend of every [`Poller`](crate::Poller) of a process,
/// such as `epoll` or `poll`. Without the variable, the best backend is used.
pub const BACKEND: &str = "EVCORE_COMPAT_BACKEND";

static WAITS: Mutex<BTreeMap<&str, u64>> = Mutex::new(BTreeMap::new());

/// Number of waits in this process on each backend that was used.
///
/// ```
/// use polling::{Events, Poller, under_test};
/// use std::time::Duration;
///
/// Poller::new()?.wait(&mut Events::new(), Some(Duration::ZERO))?;
/// let waits: u64 = under_test::waits().values().sum();
/// assert!(waits >= 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn waits() -> BTreeMap<&'static str, u64> {
    WAITS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

pub(crate) fn count_a_wait(backend: &'static str) {
    let mut waits = WAITS.lock().unwrap_or_else(PoisonError::into_inner);
    *waits.entry(backend).or_default() += 1;
}

pub(crate) fn backend() -> io::Result<Option<BackendKind>> {
    let Ok(name) = env::var(BACKEND) else {
        return Ok(None);
    };
    let kind = name.parse::<BackendKind>();
    kind.map(Some)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}
