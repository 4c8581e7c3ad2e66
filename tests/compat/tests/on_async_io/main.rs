//! Programs over async-io, whose reactor waits on our poller.
//!
//! Several threads run the tasks, so sources are added, changed and removed while another thread
//! waits. The adapter makes this possible over our poller, which has one owner.

mod executor_threads;

mod echo;
mod half_close;
mod tasks;
mod timers;
