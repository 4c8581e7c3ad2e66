//! What a part is asked for, and the place where it happens.

use std::path::PathBuf;

use super::launch::Launch;
use super::roster::Contestant;
use super::{nginx, pin};
use crate::{descriptors, record};

/// What the words say.
#[derive(Debug)]
pub(super) struct Asked {
    /// The program of the example server.
    pub(super) httpd: PathBuf,
    /// Whether it may take as long as it takes.
    pub(super) full: bool,
    /// How servers are started.
    pub(super) launch: Launch,
}

impl Asked {
    /// Of the words, which name the example server, and say `full` if the run is to be thorough.
    ///
    /// From then on this process is on a CPU of its own, where there are two.
    pub(super) fn of(words: &[&str]) -> Asked {
        let httpd = words.first().expect("the path of the example server");
        descriptors::most();
        tell_nginx();
        Asked {
            httpd: PathBuf::from(httpd),
            full: words.contains(&"full"),
            launch: Launch {
                cpu: pin::part(),
                descriptors: 0,
            },
        }
    }
}

fn tell_nginx() {
    if let Some(version) = nginx::version() {
        record::version("nginx", &version);
    }
}

/// Says that one does not take part, and why.
pub(super) fn leave_out(contestant: &Contestant, why: &str) {
    eprintln!("  not there: {why}");
    record::absent(&contestant.name);
}
