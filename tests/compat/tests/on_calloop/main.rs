//! Programs over calloop, whose event loop waits on our poller.

mod turn;

mod channels;
mod sources;
mod timers;
