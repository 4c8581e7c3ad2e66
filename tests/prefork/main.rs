//! Real worker processes: stopped in order, stopped at once, killed, and replaced by new ones.

mod deaths;
mod reloads;
mod stops;
mod upgrades;
