//! Filters, which change received bytes before they are recorded.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

type Change = Box<dyn FnMut(&mut [u8]) + Send>;

pub(crate) type MakeFilter = Box<dyn Fn() -> Change + Send>;

/// The filter of one stream. `None` if the stream is not filtered.
pub(crate) struct Filter(Option<Mutex<Change>>);

impl Filter {
    pub(crate) fn new(make: Option<&MakeFilter>) -> Self {
        Self(make.map(|make| Mutex::new(make())))
    }

    /// Calls `record` with a filtered copy of `received`, or with `received` itself if there is no
    /// filter.
    pub(crate) fn pass(&self, received: &[u8], record: impl FnOnce(&[u8])) {
        match &self.0 {
            None => record(received),
            Some(change) => {
                let mut copy = received.to_vec();
                let mut change = change.lock().unwrap_or_else(PoisonError::into_inner);
                change(&mut copy);
                record(&copy);
            }
        }
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Filter").field(&self.0.is_some()).finish()
    }
}
