//! Accepting: how worker processes share connections, which of them wake up, and how long clients
//! wait.
//!
//! Servers are processes of their own, on the first CPU; the clients are in this one, on the last.
//! All peers are asked the same by the same clients, and their wakes are counted by the
//! kernel.

mod arrivals;
mod bare;
mod blocked;
mod client;
mod fairness;
mod httpd;
mod kills;
mod launch;
mod load;
mod nginx;
mod pace;
mod patterns;
mod peers;
mod pin;
mod process;
mod rounds;
mod run;
mod scenario;
mod server;
mod shortage;
mod waits;

pub(crate) use self::bare::serve;
pub(crate) use self::kills::measure as kills;
pub(crate) use self::launch::launch;
pub(crate) use self::run::measure;
pub(crate) use self::shortage::measure as shortage;
