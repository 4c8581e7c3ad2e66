//! Programs over async-io, whose reactor waits on our poller.
//!
//! Several threads run the tasks, so sources are added, changed and removed while another thread
//! waits. Our poller cannot do that by itself, so the adapter must.

mod executor_threads;

mod echo;
mod half_close;
mod tasks;
mod timers;
