//! How clients come and go: each pattern a file.

mod burst;
mod halfway;
mod idle;
mod single;
mod uneven;

use super::server::Server;

/// How many long-lived connections there are in the end.
const LONG_LIVED: usize = 1_000;

/// What was found, each with its name.
pub(super) type Figures = Vec<(&'static str, f64)>;

/// A pattern.
pub(super) struct Pattern {
    pub(super) name: &'static str,
    /// With how many workers it can be done at least.
    pub(super) least_workers: usize,
    pub(super) run: fn(&Server) -> Figures,
}

/// All, in the order in which they are run.
pub(super) const ALL: &[Pattern] = &[
    Pattern {
        name: "idle",
        least_workers: 1,
        run: idle::run,
    },
    Pattern {
        name: "single",
        least_workers: 1,
        run: single::run,
    },
    Pattern {
        name: "burst",
        least_workers: 1,
        run: burst::run,
    },
    Pattern {
        name: "uneven",
        least_workers: 1,
        run: uneven::run,
    },
    Pattern {
        name: "halfway",
        least_workers: halfway::CLOSED + 1,
        run: halfway::run,
    },
];

/// The cost of each of `count`.
fn each(whole: u64, n: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let each = whole as f64 / n as f64;
    each
}
