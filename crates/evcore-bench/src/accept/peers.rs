//! The peers.

use std::path::{Path, PathBuf};

use super::bare::{self, Sharing};
use super::launch::Launch;
use super::server::Server;
use super::{httpd, nginx};

/// The policies of the example server, of which some may not be there yet.
const POLICIES: [&str; 5] = ["off", "mutex", "exclusive", "reuseport", "least-loaded"];

/// A peer.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) name: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Httpd {
        program: PathBuf,
        policy: &'static str,
    },
    Bare(Sharing),
    Nginx {
        mutex: bool,
    },
}

impl Peer {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// Why it does not serve, in a sentence.
    pub(super) fn start(&self, launch: Launch, workers: usize) -> Result<Server, String> {
        match &self.kind {
            Kind::Httpd { program, policy } => httpd::start(program, policy, launch, workers),
            Kind::Bare(sharing) => bare::start(*sharing, launch, workers),
            Kind::Nginx { mutex } => nginx::start(*mutex, launch, workers),
        }
    }

    /// Whether a client can make it block: there is nothing in nginx that does.
    pub(super) fn can_block(&self) -> bool {
        !matches!(self.kind, Kind::Nginx { .. })
    }
}

/// The peers with a master, which replaces dead workers.
pub(super) fn with_master(httpd: &Path) -> Vec<Peer> {
    let policies = POLICIES.map(|policy| Peer {
        name: format!("httpd {policy}"),
        kind: Kind::Httpd {
            program: httpd.to_owned(),
            policy,
        },
    });
    let nginx = [("on", true), ("off", false)].map(|(word, mutex)| Peer {
        name: format!("nginx accept_mutex {word}"),
        kind: Kind::Nginx { mutex },
    });
    policies.into_iter().chain(nginx).collect()
}

/// All peers.
pub(super) fn all(httpd: &Path) -> Vec<Peer> {
    let bare = [
        ("bare shared", Sharing::Shared),
        ("bare EXCLUSIVE", Sharing::Exclusive),
        ("bare EXCLUSIVE re-added", Sharing::Readded),
        ("bare REUSEPORT", Sharing::ReusePort),
    ];
    let bare = bare.map(|(name, sharing)| Peer {
        name: name.to_owned(),
        kind: Kind::Bare(sharing),
    });
    with_master(httpd).into_iter().chain(bare).collect()
}
