//! A server is recorded, and runs again on its recording: on sockets, in the simulator under
//! faults, with a bug, with threads, and after a kill.

mod damaged;
mod differences;
mod echo;
mod kill;
mod simulated;
mod sockets;
mod threads;
