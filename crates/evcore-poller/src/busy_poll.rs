//! The parameters of epoll's busy polling.

use std::time::Duration;

/// The parameters of busy polling, for [`Poller::set_busy_poll`](crate::Poller::set_busy_poll).
///
/// If a wait finds nothing ready, it polls the receive queue of a network device for some time
/// before it sleeps.
///
/// ```
/// use evcore_poller::BusyPoll;
/// use std::time::Duration;
///
/// let busy_poll = BusyPoll::new(Duration::from_micros(50)).budget(16);
/// assert_ne!(busy_poll, BusyPoll::new(Duration::ZERO)); // zero turns busy polling off
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct BusyPoll {
    pub(crate) time: Duration,
    pub(crate) budget: u16,
    pub(crate) is_preferred: bool,
}

impl BusyPoll {
    /// Makes parameters for busy polling for `time` in each wait that finds nothing ready. The time
    /// is rounded up to a microsecond, and limited to 2,147 seconds. Zero turns busy polling off.
    pub const fn new(time: Duration) -> Self {
        Self {
            time,
            budget: 0,
            is_preferred: false,
        }
    }

    /// Sets the maximum number of packets that the kernel takes from the queue at once. The default
    /// 0 stands for the kernel's own default (8). Above 64 the kernel requires the capability
    /// `CAP_NET_ADMIN`.
    pub const fn budget(mut self, packets: u16) -> Self {
        self.budget = packets;
        self
    }

    /// Keeps the device's interrupts masked while the process goes on polling (the kernel's
    /// `prefer_busy_poll`), if the device has a `gro_flush_timeout` and a `napi_defer_hard_irqs`.
    /// Default: false.
    pub const fn prefer(mut self, is_preferred: bool) -> Self {
        self.is_preferred = is_preferred;
        self
    }
}
