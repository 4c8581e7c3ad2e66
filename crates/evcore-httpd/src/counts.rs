//! The connection counters of a worker, which `/status` sums over all workers.

use evcore::{balancer::WorkerId, clock::Clock};

use crate::{
    metrics::{Metrics, Totals},
    prometheus,
    scoreboard::{Scoreboard, WorkerStats},
    status_json::StatusJson,
};

/// The phase of a connection, as nginx's `stub_status` counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A request is being read.
    Reading,
    /// A response is being made or sent.
    Writing,
    /// The connection is idle.
    Waiting,
}

/// One worker's counters, and a view of all workers'.
///
/// A counter is published whenever it changes, by one store.
#[derive(Debug)]
pub struct Counts {
    scoreboard: Scoreboard,
    id: WorkerId,
    own: WorkerStats,
}

impl Counts {
    /// Continues the counters of earlier workers in the same slot.
    pub fn new(scoreboard: Scoreboard, id: WorkerId) -> Self {
        let own = scoreboard.read(id);
        Self {
            scoreboard,
            id,
            own,
        }
    }

    /// Counts an accepted connection.
    pub fn connection_opened(&mut self) {
        self.own.accepted += 1;
        self.own.handled += 1;
        self.own.active += 1;
        self.own.waiting += 1;
        self.publish_connections();
    }

    /// Counts an accepted connection that could not be served.
    pub fn connection_refused(&mut self) {
        self.own.accepted += 1;
        self.publish_connections();
    }

    /// Counts the end of a connection in this phase.
    pub fn connection_closed(&mut self, phase: Phase) {
        self.own.active -= 1;
        *self.gauge(phase) -= 1;
        self.publish_connections();
    }

    /// Counts a request.
    #[inline]
    pub fn request(&mut self) {
        self.own.requests += 1;
        let requests = (WorkerStats::REQUESTS, self.own.requests);
        self.scoreboard.update(self.id, [requests]);
    }

    /// Moves a connection to another phase.
    #[inline]
    pub fn change(&mut self, from: &mut Phase, to: Phase) {
        if *from != to {
            *self.gauge(*from) -= 1;
            *self.gauge(to) += 1;
            *from = to;
            self.publish_connections();
        }
    }

    /// Begins the metrics of this worker, which has this index. Returns what earlier workers of the
    /// slot have counted.
    pub fn begin(&mut self, index: usize, clock: &Clock) -> Totals {
        self.own.metrics = Metrics::new(clock);
        self.own.totals.index = index as u64;
        self.publish();
        self.own.totals
    }

    /// The metrics of this worker, and the totals of its slot.
    pub fn metrics(&mut self) -> (&mut Metrics, &mut Totals) {
        (&mut self.own.metrics, &mut self.own.totals)
    }

    /// Publishes all numbers. The counters of connections are published whenever they change.
    pub fn publish(&self) {
        self.scoreboard.publish(self.id, &self.own);
    }

    /// Publishes the metrics that change in most turns.
    #[inline]
    pub fn publish_turn(&self) {
        let metrics = self.own.metrics.of_turn();
        let metrics = metrics.map(|(at, number)| (WorkerStats::METRICS + at, number));
        self.scoreboard.update(self.id, metrics);
        let totals = self.own.totals.of_turn();
        let totals = totals.map(|(at, number)| (WorkerStats::TOTALS + at, number));
        self.scoreboard.update(self.id, totals);
    }

    /// Publishes the numbers of connections.
    fn publish_connections(&self) {
        let own = &self.own;
        let numbers = [
            (WorkerStats::ACTIVE, own.active),
            (WorkerStats::READING, own.reading),
            (WorkerStats::WRITING, own.writing),
            (WorkerStats::WAITING, own.waiting),
            (WorkerStats::ACCEPTED, own.accepted),
            (WorkerStats::HANDLED, own.handled),
        ];
        self.scoreboard.update(self.id, numbers);
    }

    /// The page `/status.json`.
    pub fn status_json(&self, clock: &Clock) -> String {
        StatusJson::new(&self.scoreboard, clock).to_text()
    }

    /// The page `/metrics`.
    pub fn metrics_text(&self, clock: &Clock) -> String {
        prometheus::page(&self.scoreboard, clock)
    }

    /// The page `/status`: nginx's `stub_status`, summed over all workers.
    pub fn status_text(&self) -> String {
        let all = WorkerStats::sum_of(&self.scoreboard);
        format!(
            "Active connections: {} \n\
             server accepts handled requests\n \
             {} {} {} \n\
             Reading: {} Writing: {} Waiting: {} \n",
            all.active,
            all.accepted,
            all.handled,
            all.requests,
            all.reading,
            all.writing,
            all.waiting
        )
    }

    fn gauge(&mut self, phase: Phase) -> &mut u64 {
        match phase {
            Phase::Reading => &mut self.own.reading,
            Phase::Writing => &mut self.own.writing,
            Phase::Waiting => &mut self.own.waiting,
        }
    }
}
