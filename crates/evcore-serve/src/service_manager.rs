//! The reports to a service manager, by the protocol of systemd (`sd_notify`).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evcore_prefork::{Reload, Upgrade, parent_binary_alive};
use sd_notify::NotifyState;

use crate::event::{Event, OnEvent};

/// A service manager that waits for reports.
#[derive(Debug, Default)]
pub(crate) struct ServiceManager {
    /// True once a worker has served. The readiness of later workers is not reported, because the
    /// service is ready already.
    is_ready: AtomicBool,
    /// True while a new binary serves in place of this one.
    is_replaced: AtomicBool,
}

impl ServiceManager {
    pub(crate) fn find() -> Option<Self> {
        std::env::var_os("NOTIFY_SOCKET").map(|_| Self::default())
    }

    /// The time between two signs of life; `None` if the service manager does not wait for them.
    pub(crate) fn watchdog() -> Option<Duration> {
        // systemd's manual recommends half of the time after which it ends the service.
        let half = sd_notify::watchdog_enabled().map(|limit| limit / 2);
        half.filter(|half| !half.is_zero())
    }

    pub(crate) fn report_life(on_event: &OnEvent) {
        if let Err(error) = sd_notify::notify(&[NotifyState::Watchdog]) {
            on_event(Event::NotNotified(&error));
        }
    }

    /// Returns a hook that reports to the service manager the events that concern it, and passes
    /// each event on to `next`.
    pub(crate) fn before(self, next: OnEvent) -> OnEvent {
        Arc::new(move |event| {
            if let Err(error) = self.report(&event) {
                next(Event::NotNotified(&error));
            }
            next(event);
        })
    }

    fn report(&self, event: &Event<'_>) -> io::Result<()> {
        match event {
            Event::Ready(_) if !self.is_ready.swap(true, Ordering::Relaxed) => {
                sd_notify::notify(&[NotifyState::Ready])
            }
            Event::Reload(reload) => match reload {
                Reload::Started => {
                    let now = NotifyState::monotonic_usec_now()?;
                    sd_notify::notify(&[NotifyState::Reloading, now])
                }
                // A service manager that has requested the reload waits for its beginning and its
                // end.
                Reload::Stuck => {
                    let now = NotifyState::monotonic_usec_now()?;
                    sd_notify::notify(&[NotifyState::Reloading, now])?;
                    sd_notify::notify(&[NotifyState::Ready])
                }
                // The reload has ended, whatever its result.
                Reload::Done | Reload::Refused | Reload::Drained => {
                    sd_notify::notify(&[NotifyState::Ready])
                }
                _ => Ok(()), // the reload has not begun
            },
            Event::Upgrade(Upgrade::Started(process)) => {
                self.is_replaced.store(true, Ordering::Relaxed);
                sd_notify::notify(&[NotifyState::MainPid(process.get())])
            }
            Event::Upgrade(Upgrade::Ended(_)) => {
                self.is_replaced.store(false, Ordering::Relaxed);
                sd_notify::notify(&[NotifyState::MainPid(std::process::id())])
            }
            // If another binary serves, the service goes on, so the stop of this process is not
            // reported.
            Event::Stopping(_)
                if !self.is_replaced.load(Ordering::Relaxed) && !parent_binary_alive() =>
            {
                sd_notify::notify(&[NotifyState::Stopping])
            }
            _ => Ok(()),
        }
    }
}
