//! Programs over async-io, whose reactor waits on our poller.
//!
//! Several threads run the tasks, so sources are added, changed and removed while another thread
//! waits: what our poller cannot do by itself, and the adapter must.

mod executor_threads;

mod echo;
mod half_close;
mod tasks;
mod timers;
