//! The client of a connection, as the access log and `/worker` show it.

use std::net::IpAddr;

use evcore::clock::Clock;

use crate::{access_log::copy_request_line, shared::Shared};

/// The client of a connection. It is kept only if it is shown, because it takes memory for each
/// connection.
#[derive(Debug)]
pub(super) struct Client {
    /// `None` for a Unix socket.
    pub(super) address: Option<IpAddr>,
    /// The request line of the current request, for the access log.
    request_line: Vec<u8>,
}

impl Client {
    /// Returns `None` if neither the access log nor `/worker` shows the client.
    pub(super) fn new(address: Option<IpAddr>, shared: &Shared) -> Option<Box<Self>> {
        let request_line = Vec::new();
        shared.shows_clients().then(|| {
            Box::new(Self {
                address,
                request_line,
            })
        })
    }

    pub(super) fn record_request_line(&mut self, head: &[u8]) {
        copy_request_line(&mut self.request_line, head);
    }

    pub(super) fn log_response(&mut self, shared: &mut Shared, clock: &Clock) {
        shared.log_response(self.address, &self.request_line, clock);
        self.request_line.clear();
    }
}
