//! Real worker processes: stopped gracefully, stopped fast, killed, and replaced.

mod deaths;
// `/proc` shows which clients a stopped worker has.
#[cfg(target_os = "linux")]
mod rebalance;
mod reloads;
mod slow_readers;
mod stops;
mod upgrades;
