//! The events of a server, for its log.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use evcore::ListenerError;
use evcore::net::Address;
use evcore_prefork::{
    self as prefork, KeptCounts, Reload, Stop, Upgrade, WorkerExit, WorkerIndex, WorkerInfo,
};

use crate::shortages::Shortage;

pub(crate) type OnEvent = Arc<dyn Fn(Event<'_>) + Send + Sync>;

/// Something that happens to a server. [`Server::on_event`](crate::Server::on_event) gets it in the
/// process in which it happens. [`Display`](fmt::Display) prints a line for a log.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A worker serves. Without a supervisor, it is this process.
    Ready(&'a WorkerInfo),
    /// A worker could not be started. The start is tried again after a pause.
    StartFailed(&'a WorkerInfo, &'a io::Error),
    /// A worker has ended, by a stop or unexpectedly. Its gauges on the scoreboards of its group
    /// are set to 0 after this event.
    Exited(&'a WorkerExit),
    /// A worker with a [descriptor store](crate::Server::descriptor_store) has died. The counts are
    /// the numbers of the connections that the successor has taken, and of the connections that are
    /// closed. The event is missing if the store was killed, or ends after the last worker.
    Kept(&'a WorkerInfo, KeptCounts),
    /// Reported in the worker, which serves without a descriptor store.
    NoDescriptorStore(WorkerIndex, &'a prefork::Error),
    /// A worker is killed, because its turn (one iteration of its loop) has lasted this long.
    Hung(&'a WorkerInfo, Duration),
    /// A worker cannot be ended: a process that still lives a second after it was killed, or a
    /// thread that still runs a second after a fast stop.
    Stuck(&'a WorkerInfo),
    /// The progress of a reload.
    Reload(Reload),
    /// The progress of an upgrade.
    Upgrade(&'a Upgrade),
    /// A stop of the server has begun, or a signal has made a graceful stop fast.
    Stopping(Stop),
    /// A report to the [service manager](crate::Server::notify_service_manager) has failed.
    NotNotified(&'a io::Error),
    /// Reported in the worker: a listener has failed. The loop tries it again later.
    Listener(WorkerIndex, &'a ListenerError),
    /// Reported in the worker: a shortage has begun, or all shortages have ended.
    Shortage(WorkerIndex, Shortage),
    /// Reported in the worker: a connection of the load balancer at this address was closed,
    /// because its header of the [PROXY protocol](crate::Server::proxy_protocol) was malformed,
    /// incomplete or late, or because the loop could not watch the connection while its header was
    /// incomplete. The error is the reason. A connection that ended without a byte is not reported,
    /// because load balancers make such connections to check the server.
    NoProxyHeader(WorkerIndex, &'a Address, &'a io::Error),
    /// Reported in the worker, which could not be bound to the CPUs of its affinity.
    Affinity(WorkerIndex, &'a prefork::Error),
    /// Reported in the worker: connections could not be handed over, received or watched, for this
    /// reason. They stay with this worker or the sender; if the loop cannot watch them again, they
    /// are closed. A worker that is being replaced reports this when no successor takes its
    /// connections. It then closes idle connections, and finishes the requests under way.
    Handover(WorkerIndex, String),
    /// Reported in the worker, which ends, because its loop could not be made, or because its
    /// function has returned an error before the first turn. The text is that of the error.
    CannotStart(WorkerIndex, String),
    /// Reported in the worker, which ends, because its function has returned an error. The text is
    /// that of the error.
    Failed(WorkerIndex, String),
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(worker) => write!(f, "{worker} serves"),
            Self::StartFailed(worker, error) => {
                write!(f, "{worker} cannot be started, trying again: {error}")
            }
            Self::Exited(exit) => write!(f, "{exit}"),
            Self::Kept(worker, counts) => write!(f, "{worker} has died: {counts}"),
            Self::NoDescriptorStore(worker, error) => {
                write!(f, "worker {worker} has no descriptor store: {error}")
            }
            Self::Hung(worker, lasted) => write!(
                f,
                "{worker} is killed, because its turn has lasted {} ms",
                lasted.as_millis()
            ),
            Self::Stuck(worker) => write!(f, "{worker} does not stop"),
            Self::Reload(reload) => write!(f, "reload: {reload}"),
            Self::Upgrade(upgrade) => write!(f, "{upgrade}"),
            Self::Stopping(Stop::Graceful) => {
                f.write_str("the server stops after the requests under way")
            }
            Self::Stopping(Stop::Fast) => f.write_str("the server stops now"),
            Self::NotNotified(error) => write!(f, "the service manager gets no report: {error}"),
            Self::Listener(worker, error) => write!(f, "worker {worker}: {error}"),
            Self::Shortage(worker, shortage) => write!(f, "worker {worker}: {shortage}"),
            Self::NoProxyHeader(worker, peer, error) => {
                write!(f, "worker {worker}: no PROXY header from {peer}: {error}")
            }
            Self::Affinity(worker, error) => {
                write!(f, "worker {worker} is not on its CPUs: {error}")
            }
            Self::Handover(worker, why) => {
                write!(f, "worker {worker}: connections do not move: {why}")
            }
            Self::CannotStart(worker, error) => write!(f, "worker {worker} cannot start: {error}"),
            Self::Failed(worker, error) => write!(f, "worker {worker} ends: {error}"),
        }
    }
}
