//! The loop with scripted readiness, a clock that is moved by hand and a lock that answers as it is
//! told: no sleep, no thread, and no kernel but for clients of the listeners.

mod fake_member;
mod owed;
mod script;
mod stage;

mod accepting;
mod budgets;
mod closing;
mod counting;
mod delays;
mod failing;
mod grouped;
mod handle;
mod idle;
mod leaving;
mod measuring;
mod naming;
mod next;
mod order;
mod posting;
mod program;
mod resolution;
mod shutdown;
mod starving;
mod timeouts;
mod turn_taking;
mod watchdog;
