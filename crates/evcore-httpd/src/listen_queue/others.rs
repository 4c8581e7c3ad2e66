//! Systems on which the backlogs are not measured.

use std::net::SocketAddr;

use super::Losses;

pub(super) fn waiting(_: &[SocketAddr]) -> Option<u64> {
    None
}

pub(super) fn losses() -> Option<Losses> {
    None
}
