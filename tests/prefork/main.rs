//! Real worker processes: stopped gracefully, stopped fast, killed, and replaced.

mod deaths;
mod reloads;
mod stops;
mod upgrades;
