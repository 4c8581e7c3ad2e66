//! Workers that die or are suspended, exhaustion, system calls that fail, and slow clients.

mod exhaustion;
mod failed_waits;
mod late_worker;
mod liveness;
mod refused_calls;
mod resting;
mod slow_clients;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod unreadable_ticker;
