//! Replaces `src/notify_fd.rs` in loom models. The notifier of a worker is a descriptor of the
//! model's kernel.

use std::{fmt, sync::Arc};

use crate::{Notify, kernel::Kernel};

pub(crate) struct NotifyFd {
    kernel: Arc<Kernel>,
    slot: usize,
}

impl NotifyFd {
    pub(crate) fn new(kernel: &Arc<Kernel>, slot: usize) -> Self {
        Self {
            kernel: Arc::clone(kernel),
            slot,
        }
    }
}

impl Notify for NotifyFd {
    fn notify(&self) {
        self.kernel.notify(self.slot);
    }

    fn clear(&self) {
        self.kernel.clear(self.slot);
    }
}

impl fmt::Debug for NotifyFd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "notifier of {}", self.slot)
    }
}
