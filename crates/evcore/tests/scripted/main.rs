//! The loop over a fake backend, with a manual clock and a fake member of a group. No test sleeps
//! or starts a thread.

mod expected;
mod fake_backend;
mod fake_member;
mod fixture;

mod accepting;
mod budgets;
mod close;
mod counters;
mod deadlines;
mod delays;
mod eviction;
mod failing;
mod flight_recorder;
mod grace;
mod grouped;
mod handle;
mod histograms;
mod leaving_early;
mod lock;
mod long_handlers;
mod next_turn;
mod order;
mod post_next;
mod posting;
mod random_programs;
mod resolution;
mod script;
mod shutdown;
mod starving;
mod tokens;
mod wait_length;
mod watchdog;
