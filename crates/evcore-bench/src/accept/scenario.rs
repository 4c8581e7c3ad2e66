//! The arguments of a part: the peers, and how servers are started.

use std::path::PathBuf;

use super::launch::Launch;
use super::peers::{self, Peer};
use super::{nginx, pin};
use crate::{descriptors, record};

/// What the words say.
#[derive(Debug)]
pub(super) struct Scenario {
    /// The program of the example server.
    httpd: PathBuf,
    /// Whether it may take as long as it takes.
    pub(super) full: bool,
    /// How servers are started.
    pub(super) launch: Launch,
    /// The prefixes of the names of the peers; all peers if it is empty.
    only: Vec<String>,
}

impl Scenario {
    /// Parses the words: the path of the example server, `full` for a thorough run, and prefixes of
    /// the names of peers.
    ///
    /// From then on this process is on a CPU of its own, where there are two.
    pub(super) fn of(words: &[&str]) -> Scenario {
        let (httpd, words) = words.split_first().expect("the path of the example server");
        let only = words.iter().filter(|word| **word != FULL);
        descriptors::most();
        record_nginx_version();
        Scenario {
            httpd: PathBuf::from(httpd),
            full: words.contains(&FULL),
            only: only.map(|word| (*word).to_owned()).collect(),
            launch: Launch {
                cpu: pin::part(),
                descriptors: 0,
            },
        }
    }

    /// The selected peers.
    pub(super) fn all(&self) -> Vec<Peer> {
        self.selected(peers::all(&self.httpd))
    }

    /// The selected peers with a master, which replaces dead workers.
    pub(super) fn with_master(&self) -> Vec<Peer> {
        self.selected(peers::with_master(&self.httpd))
    }

    fn selected(&self, mut peers: Vec<Peer>) -> Vec<Peer> {
        let is_named = |name: &str| self.only.iter().any(|word| name.starts_with(word.as_str()));
        peers.retain(|peer| self.only.is_empty() || is_named(&peer.name));
        peers
    }
}

/// The word for a thorough run.
const FULL: &str = "full";

fn record_nginx_version() {
    if let Some(version) = nginx::version() {
        record::version("nginx", &version);
    }
}

/// Records that a peer is absent, and prints why.
pub(super) fn record_absence(peer: &Peer, why: &str) {
    eprintln!("  not there: {why}");
    record::absent(&peer.name);
}
