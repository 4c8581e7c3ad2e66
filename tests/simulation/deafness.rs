//! Nobody is deaf: while clients wait, somebody who could accept one does so soon.
//!
//! How soon: at once, but for what a processor takes. Only the accept lock knows pauses; and where
//! a worker was harmed, its policy's delay may pass until another finds what was left.

use std::time::Duration;

use evcore_sim::{Workers, World};

use crate::{
    setting::{ADDRESS, DISTURBING},
    subject::Subject,
};

/// What a turn, a call and a wake-up take together at the very most.
const AT_ONCE: Duration = Duration::from_millis(50);

/// How long a worker pauses that found no descriptor for a client: as long as a policy's delay, of
/// those that have one.
const PAUSE: Duration = Duration::from_millis(500);

/// What a policy promises.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// A worker that does not get the lock waits for the delay, whatever happens.
    pub(crate) has_pauses: bool,
    /// Nobody takes the clients of another.
    pub(crate) each_has_its_own: bool,
    /// By what a worker's clock may be behind.
    pub(crate) clock: Duration,
}

/// Watches over a server while it runs.
#[derive(Debug)]
pub(crate) struct Deafness {
    world: World,
    patience: Patience,
    waiting: usize,
    /// Since when nobody has been accepted although somebody waits who could have been.
    since: Option<Duration>,
    disturbances: u64,
    disturbed_at: Option<Duration>,
}

impl Deafness {
    pub(crate) fn new(world: &World, patience: Patience) -> Self {
        Self {
            world: world.clone(),
            patience,
            waiting: 0,
            since: None,
            disturbances: 0,
            disturbed_at: None,
        }
    }

    /// Looks; to be called whenever something has happened.
    ///
    /// # Panics
    ///
    /// If clients have been waiting for too long.
    pub(crate) fn look(&mut self, server: &Workers<Subject>) {
        let now = self.world.now();
        let was_disturbed = self.note_disturbances(server, now);
        let waiting = self.world.waiting(ADDRESS.into());
        let moves = waiting < self.waiting;
        self.waiting = waiting;
        if waiting == 0 || !self.could_accept(server) {
            self.since = None;
            return;
        }
        if moves || was_disturbed {
            self.since = Some(now);
        }
        let deaf = now - *self.since.get_or_insert(now);
        let limit = self.limit(now);
        assert!(
            deaf <= limit,
            "{waiting} wait, and nobody has listened for {deaf:?}"
        );
    }

    /// Whether somebody was harmed since the last look.
    fn note_disturbances(&mut self, server: &Workers<Subject>, now: Duration) -> bool {
        let counts = DISTURBING.map(|fault| self.world.count(fault));
        let count = counts.iter().sum();
        let was_disturbed = self.disturbances != count;
        self.disturbances = count;
        if was_disturbed || server.apps().any(|(index, _)| server.is_stopped(index)) {
            self.disturbed_at = Some(now);
        }
        was_disturbed
    }

    /// Whether there is a worker to accept them: any, or, where each has its own clients, each.
    fn could_accept(&self, server: &Workers<Subject>) -> bool {
        let mut staying = server.apps().filter(|(_, app)| !app.is_leaving());
        let can = |(index, app): (usize, &Subject)| app.has_room() && !server.is_stopped(index);
        if self.patience.each_has_its_own {
            staying.all(can)
        } else {
            staying.any(can)
        }
    }

    fn limit(&self, now: Duration) -> Duration {
        let clock = self.patience.clock;
        let was_disturbed = |at| now - at <= AT_ONCE + PAUSE + clock;
        if self.patience.has_pauses || self.disturbed_at.is_some_and(was_disturbed) {
            AT_ONCE + PAUSE + clock
        } else {
            AT_ONCE + clock
        }
    }
}
