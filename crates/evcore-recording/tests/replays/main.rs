//! Servers run again on their recordings. These were made on sockets, in the simulator under
//! faults, with threads, and by a worker that was killed. Some servers have a bug.

mod damaged;
mod differences;
mod echo;
mod kill;
mod simulated;
mod sockets;
mod threads;
