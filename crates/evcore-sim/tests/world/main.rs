//! The simulator itself: that it repeats, that its faults occur and leave the promises whole, and
//! that workers, clients and waits are as they should be.

mod clients;
mod echo;
mod faults;
mod group;
mod repeating;
mod waits;
mod workers;
