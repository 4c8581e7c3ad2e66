//! The servers that are compared.

use std::path::{Path, PathBuf};

use super::bare::{self, Sharing};
use super::httpd;
use super::launch::Launch;
use super::nginx::{self, Accepting};
use super::server::Server;
use crate::report::Report;

/// The policies of the example server.
const POLICIES: [&str; 5] = ["off", "mutex", "exclusive", "least-loaded", "reuseport"];

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
    Nginx(Accepting),
}

impl Peer {
    fn new(name: impl Into<String>, kind: Kind) -> Peer {
        let name = name.into();
        Peer { name, kind }
    }

    /// Starts it, and waits until it serves.
    ///
    /// # Errors
    ///
    /// The reason why it does not serve.
    pub(super) fn start(&self, launch: Launch, workers: usize) -> Result<Server, String> {
        match &self.kind {
            Kind::Httpd { program, policy } => httpd::start(program, policy, launch, workers),
            Kind::Bare(sharing) => bare::start(*sharing, launch, workers),
            Kind::Nginx(accepting) => nginx::start(*accepting, launch, workers),
        }
    }

    pub(super) fn is_httpd(&self) -> bool {
        matches!(self.kind, Kind::Httpd { .. })
    }

    /// Whether a client can block it: no request blocks nginx.
    pub(super) fn can_block(&self) -> bool {
        !matches!(self.kind, Kind::Nginx(_))
    }
}

/// The peers with a master, which replaces dead workers.
pub(super) fn with_master(program: &Path) -> Vec<Peer> {
    let httpd = POLICIES.map(|policy| {
        let program = program.to_owned();
        Peer::new(format!("httpd {policy}"), Kind::Httpd { program, policy })
    });
    let nginx = [
        ("nginx accept_mutex", Accepting::Mutex),
        ("nginx", Accepting::Default),
        ("nginx reuseport", Accepting::ReusePort),
    ];
    let nginx = nginx.map(|(name, accepting)| Peer::new(name, Kind::Nginx(accepting)));
    httpd.into_iter().chain(nginx).collect()
}

/// All peers.
pub(super) fn all(httpd: &Path) -> Vec<Peer> {
    let bare = [
        ("bare shared", Sharing::Shared),
        ("bare EXCLUSIVE", Sharing::Exclusive),
        ("bare REUSEPORT", Sharing::ReusePort),
    ];
    let bare = bare.map(|(name, sharing)| Peer::new(name, Kind::Bare(sharing)));
    with_master(httpd).into_iter().chain(bare).collect()
}

pub(super) fn record_versions(report: &mut Report) {
    if let Some(version) = nginx::version() {
        report.versions.insert("nginx".to_owned(), version);
    }
}
