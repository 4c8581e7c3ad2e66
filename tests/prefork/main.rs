//! Real worker processes: stopped in order, stopped at once, and killed.

mod deaths;
mod stops;
